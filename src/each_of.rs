//! Several keys in one check: each has an algorithm of its own, and all admit or none is charged.

use std::time::Duration;

use crate::{
    algorithm::{KeyLimit, Limit, Policy, limit::OneKeyForEach},
    decision::PolicyDecision,
};

/// Counts a request against each of several keys, the address *and* the account: it is admitted if
/// all of them have room; otherwise none is charged, and the answer says which one refused and how
/// long to wait.
///
/// A limit is an `EachOf` of two to six algorithms, and its key an `EachOf` of as many extractors.
/// (A plain tuple of extractors is one bucket per *combination*; a plain tuple of algorithms is
/// several limits for one key.)
///
/// - **Equal algorithms**: clone the algorithm, and give each clone a name, so that a refusal can
///   name its policy.
/// - **Absent keys**: if an extractor says that no limit applies (`Ok(None)`), that key is left
///   out, and the others decide without it. If there is no key at all, the request passes. An
///   extractor that *rejects* a request without a key rejects it here too.
/// - **Buckets**: each position has its own, even if two have the same policy: an account `7` and a
///   tenant `7` never mix.
/// - **Decision**: [`policies`](crate::Decision::policies) has those of the present keys, in order.
///   The wait is the longest of theirs, and `remaining` the least.
/// - **Cost**: each key is charged the cost of the request.
/// - **[`LocalStore`](crate::store::LocalStore)**: one lock per key, taken in the order of the
///   positions, and all held while it decides: no other thread sees one key charged and another
///   not, and no two threads deadlock. (A refund or a reset goes through the keys one by one.) A
///   check clones its keys, which allocates for a `String`, but not for addresses, numbers and
///   header values.
/// - **`RedisStore`**: mostly one script and one round trip on a single server, and in a cluster if
///   the keys share a slot. Its docs say when not, and what happens then.
///
/// Two layers, one around the other, limit by two keys as well, but a request that the inner one
/// refuses stays charged to the outer one.
///
/// # Example: twenty a second from an address, a thousand a day for an account
///
/// ```
/// use tollgate::{EachOf, Quota, RateLimiter};
/// use tollgate::{algorithm::{FixedWindow, TokenBucket}, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limits = EachOf((
///     TokenBucket::new(Quota::per_second(20)).named("per-address"),
///     FixedWindow::new(Quota::per_day(2)).named("per-account"),
/// ));
/// let limiter = RateLimiter::new(limits, LocalStore::new());
/// let caller = |address: &str, account: Option<&str>| {
///     EachOf((Some(address.to_owned()), account.map(str::to_owned)))
/// };
///
/// let bob = caller("192.0.2.1", Some("bob"));
/// assert!(limiter.check(&bob).await?.is_admitted());
/// assert!(limiter.check(&bob).await?.is_admitted());
/// let refused = limiter.check(&bob).await?;
/// assert_eq!(refused.policy(), "per-account");
/// // The refused request was not charged to the address.
/// let anonymous = caller("192.0.2.1", None);
/// assert_eq!(limiter.check(&anonymous).await?.remaining(), 17);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
///
/// # Example: in a layer
///
/// ```
/// use axum::{Router, routing::get};
/// use tollgate::{EachOf, Quota, RateLimitLayer};
/// use tollgate::{algorithm::TokenBucket, key::{Header, PeerIp}, store::LocalStore};
///
/// let bucket = TokenBucket::new(Quota::per_second(20));
/// let limit = RateLimitLayer::new(
///     EachOf((bucket.clone().named("per-address"), bucket.named("per-account"))),
///     LocalStore::new(),
///     EachOf((PeerIp::new(), Header::new("x-account"))),
/// );
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
/// # let _ = app;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EachOf<T>(pub T);

/// Calls the macro `$then` for tuples of each length that an `EachOf` and a key may have; of each
/// member it gets two names for types, and its place.
///
/// Rust has no other way to say "a tuple of any length".
macro_rules! two_to_six {
    ($then:ident) => {
        $then!(2: A K 0, B L 1);
        $then!(3: A K 0, B L 1, C M 2);
        $then!(4: A K 0, B L 1, C M 2, D N 3);
        $then!(5: A K 0, B L 1, C M 2, D N 3, E O 4);
        $then!(6: A K 0, B L 1, C M 2, D N 3, E O 4, F P 5);
    };
}

macro_rules! each_of {
    ($count:literal: $($Algorithm:ident $Key:ident $place:tt),+) => {
        impl<$($Algorithm: KeyLimit),+> Limit for EachOf<($($Algorithm,)+)> {
            type Snapshot = ($(Option<$Algorithm::Snapshot>,)+);
            type Keys = OneKeyForEach<$count>;

            const SETTLES: bool = false $(|| $Algorithm::SETTLES)+;
            const IN_FLIGHT: bool = false $(|| $Algorithm::IN_FLIGHT)+;

            fn unheld(&self) -> Self {
                Self(($(self.0.$place.unheld(),)+))
            }

            fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
                $(self.0.$place.each_policy(output);)+
            }

            fn describe(&self, snapshot: &Self::Snapshot, output: &mut dyn FnMut(PolicyDecision)) {
                $(
                    if let Some(snapshot) = &snapshot.$place {
                        self.0.$place.describe(snapshot, output);
                    }
                )+
            }

            fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration {
                let delays = [$(
                    snapshot.$place.as_ref().map(|snapshot| self.0.$place.delay_of(snapshot))
                ),+];
                delays.into_iter().flatten().max().unwrap_or_default()
            }
        }
    };
}

two_to_six!(each_of);
