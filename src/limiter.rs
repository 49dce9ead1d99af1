//! Checks by hand, for what is not a request; the layer is built on it too.

use crate::{
    algorithm::{Limit, Override},
    choice::Choose,
    clock::Timestamp,
    decision::Decision,
    hold::Hold,
    key::Key,
    observe::Observe,
    store::{AsKey, Ask, Change, Store},
};

mod call;
mod observe;
mod output;
#[cfg(any(feature = "layer", feature = "redis"))]
mod until_ready;
#[cfg(any(feature = "layer", feature = "redis"))]
mod waiting_lines;

pub use call::Call;

use output::Request;

/// Decides by key, without a request: an [algorithm](crate::algorithm) and a [store](crate::store).
///
/// It is what [`RateLimitLayer`](crate::RateLimitLayer) is built on. Keys are taken in any borrowed
/// form: `check("bob")` finds the bucket of the `String` key `bob`. Clones share their buckets.
///
/// [`observe`](Self::observe) sets an observer of the calls.
///
/// What asks the store returns a [`Call`]: await it, or, if the store answers at once, as
/// [`LocalStore`](crate::store::LocalStore) does, call [`.now()`](Call::now) on it.
///
/// Instead of an algorithm it takes what [chooses](crate::choice) one without a request, as a
/// `Reloadable` does. For a plan that is known already, make a limiter of that plan's algorithm and
/// a clone of the store: neither costs an allocation.
///
/// # Example: three logins a minute
///
/// ```
/// use tollgate::{Quota, RateLimiter, algorithm::SlidingLog, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let logins = RateLimiter::new(SlidingLog::new(Quota::per_minute(3)), LocalStore::new());
/// for _ in 0..3 {
///     assert!(logins.check("bob").await?.is_admitted());
/// }
/// assert!(!logins.check("bob").await?.is_admitted());
/// assert!(logins.check("alice").await?.is_admitted());
///
/// logins.reset("bob").await?;
/// assert!(logins.check("bob").await?.is_admitted());
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct RateLimiter<Algo, Store, Observer = ()> {
    pub(crate) algorithm: Algo,
    pub(crate) store: Store,
    observer: Observer,
}

/// Short for a limiter over a [`LocalStore`](crate::store::LocalStore), to write its type in a
/// signature.
///
/// # Example: a limiter in a struct
///
/// ```
/// use tollgate::{LocalRateLimiter, Quota, RateLimiter, algorithm::Gcra, store::LocalStore};
///
/// struct Mailer {
///     limit: LocalRateLimiter<Gcra, String>,
/// }
///
/// let limit = RateLimiter::new(Gcra::new(Quota::per_hour(100)), LocalStore::new());
/// let mailer = Mailer { limit };
/// # let _ = mailer.limit.check("bob");
/// ```
#[cfg(feature = "local")]
pub type LocalRateLimiter<Algo, Key, Observer = ()> =
    RateLimiter<Algo, crate::store::LocalStore<Algo, Key>, Observer>;

impl<A, S> RateLimiter<A, S> {
    /// Decides by this rule, and keeps the buckets in this store.
    pub const fn new(algorithm: A, store: S) -> Self {
        Self {
            algorithm,
            store,
            observer: (),
        }
    }
}

impl<C: Choose<()>, S, W> RateLimiter<C, S, W> {
    /// Admits a cost of 1 and charges it, or refuses it and charges nothing.
    ///
    /// If the limit lets callers wait, sleep for the [delay](Decision::delay) of what it admits, or
    /// call `until_ready`.
    ///
    /// # Errors
    ///
    /// The store could not decide.
    pub fn check<'a, K, Q>(&'a self, key: &'a Q) -> Call<'a, Decision, C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        self.check_cost(key, 1)
    }

    /// Admits the cost and charges it, or refuses it and charges nothing.
    ///
    /// A cost of 0 is admitted and charges nothing. Where units are
    /// [settled](crate::algorithm::Settled), all of the cost is charged at once. With
    /// [`InFlight`](crate::algorithm::InFlight) a program does not build: nothing could give the
    /// place back. [`hold`](Self::hold) can. Over Redis one that is dropped after it was sent may
    /// stay charged.
    ///
    /// # Errors
    ///
    /// The store could not decide.
    pub fn check_cost<'a, K, Q>(
        &'a self,
        key: &'a Q,
        cost: u32,
    ) -> Call<'a, Decision, C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        const { gives_back_what_it_takes::<C::Limit>() };
        Call::new(self, key, Request::Decide(Ask::Charge(cost)))
    }

    /// What would be decided about a cost of 1; charges nothing. A queue's decision then has no
    /// [delay](crate::Decision::delay), as nothing waits.
    ///
    /// # Errors
    ///
    /// The store could not look.
    ///
    /// # Example: looking does not cost anything
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter, algorithm::FixedWindow, store::LocalStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(5)), LocalStore::new());
    /// assert_eq!(limiter.peek("bob").await?.remaining(), 5);
    /// assert_eq!(limiter.peek("bob").await?.remaining(), 5);
    /// # Ok::<(), tollgate::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn peek<'a, K, Q>(&'a self, key: &'a Q) -> Call<'a, Decision, C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        Call::new(self, key, Request::Decide(Ask::Look(1)))
    }

    /// Gives units back that were charged for something that did not happen; never more than are
    /// owed.
    ///
    /// Units whose time is up, so that they are no longer owed, cannot be given back: a refund as
    /// late as that gives back what was charged since. A key that has no entry of its own,
    /// because the store was full, gets nothing.
    ///
    /// **Bound**: refunds loosen that of the algorithm. In any span of one period as many units
    /// more are let through as were refunded in the span and charged before it. What was charged
    /// and refunded inside the span is not counted. (`tests/properties/tests/bounds.rs` reaches
    /// it.)
    ///
    /// [`LeakyBucket::queue`](crate::algorithm::LeakyBucket::queue) gives nothing back: those
    /// behind keep the turns that they were promised.
    ///
    /// # Errors
    ///
    /// The store could not write; the charge stands.
    ///
    /// # Example: a failed delivery is not counted
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, store::LocalStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(5)), LocalStore::new());
    /// assert_eq!(limiter.check_cost("bob", 4).await?.remaining(), 1);
    /// limiter.refund("bob", 4).await?;
    /// assert_eq!(limiter.peek("bob").await?.remaining(), 5);
    /// # Ok::<(), tollgate::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn refund<'a, K, Q>(&'a self, key: &'a Q, cost: u32) -> Call<'a, (), C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        Call::new(self, key, Request::Change(Change::Refund(cost)))
    }

    /// Holds the cost until it is [settled](crate::Hold::settle) with what was really spent, or
    /// refuses it, which changes nothing; the refusal is the inner error, in a box.
    ///
    /// Members that are not [settled](crate::algorithm::Settled) are charged at once. A place of
    /// [`InFlight`](crate::algorithm::InFlight) is given back when the hold is settled or dropped.
    /// A cost of 0 holds nothing.
    ///
    /// # Errors
    ///
    /// The store could not decide.
    ///
    /// # Example: a job whose cost is known when it is done
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, store::LocalStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let bytes = TokenBucket::new(Quota::per_second(1_000)).settled();
    /// let limiter = RateLimiter::new(bytes, LocalStore::new());
    /// match limiter.hold("bob", 600).await? {
    ///     Ok(hold) => hold.settle(450).await?,
    ///     Err(refused) => panic!("come back in {:?}", refused.retry_after()),
    /// }
    /// assert!(limiter.hold("bob", 600).now().is_err()); // a local store answers at once
    /// # Ok::<(), tollgate::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn hold<'a, K, Q>(
        &'a self,
        key: &'a Q,
        cost: u32,
    ) -> Call<'a, Result<Hold, Box<Decision>>, C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        Call::new(self, key, Request::Decide(Ask::Charge(cost)))
    }

    /// Charges units whether they fit or not: a penalty, or a bill that comes later. The next
    /// requests wait for what does not fit.
    ///
    /// Windows and logs forget what is owed with the window; buckets pay it off. A key that has no
    /// entry of its own, because the store was full, is charged no more than fits.
    ///
    /// A bucket owes a bounded debt, and forgives what is debited beyond it: 100 003 a day owes at
    /// most 104 249 units, 100 000 a day ten thousand million
    /// (`a_bucket_owes_up_to_2_53_parts_of_a_unit_settled_or_not` in `tests/holds.rs`).
    ///
    /// # Errors
    ///
    /// The store could not write; whether the units are charged is not known.
    ///
    /// # Example: ten seconds for a wrong password
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Quota, RateLimiter, Timestamp};
    /// use tollgate::{algorithm::TokenBucket, clock::ManualClock, store::LocalStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let clock = ManualClock::at(Timestamp::from_micros(0));
    /// let store = LocalStore::builder().clock(clock).build();
    /// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(1)), store);
    /// limiter.debit("bob", 10).await?;
    /// assert_eq!(limiter.check("bob").await?.retry_after(), Some(Duration::from_secs(10)));
    /// # Ok::<(), tollgate::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn debit<'a, K, Q>(&'a self, key: &'a Q, units: u32) -> Call<'a, (), C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        Call::new(self, key, Request::Change(Change::Debit(units)))
    }

    /// Forgets the key: it is as good as one that was never seen. A [`Hold`] from
    /// before then frees nothing, except of what is held within the same microsecond.
    ///
    /// # Errors
    ///
    /// The store could not write; the bucket stands.
    pub fn reset<'a, K, Q>(&'a self, key: &'a Q) -> Call<'a, (), C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        Call::new(self, key, Request::Change(Change::Reset))
    }

    /// Refuses every cost of this key until that instant, by the store's clock, and charges
    /// nothing meanwhile.
    ///
    /// The key is [forgotten](Self::reset) first, and from that instant on it is as good as one
    /// that was never seen. An instant that is over only resets it; the last call counts, and a
    /// reset ends it. A policy in [shadow](crate::algorithm::Policy::shadow) refuses nobody. Of
    /// [several limits](crate::EachOf) each refuses its own key.
    ///
    /// In memory as many keys as [`max_keys`](crate::store::LocalStoreBuilder::max_keys) can be
    /// overridden at a time, and one more is not. Over Redis what is said stands in place of the
    /// bucket: it costs no further read, and every process hears of it at its next request. Where
    /// other limits decide about that request too, each is asked by itself then.
    ///
    /// # Errors
    ///
    /// The store could not write; whether the key is refused is not known.
    ///
    /// # Example: an hour for whoever guesses passwords
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Quota, RateLimiter, Timestamp};
    /// use tollgate::{algorithm::Gcra, clock::ManualClock, store::LocalStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// const HOUR: Duration = Duration::from_secs(3_600);
    /// let clock = ManualClock::at(Timestamp::from_micros(0));
    /// let store = LocalStore::builder().clock(clock.clone()).build();
    /// let limiter = RateLimiter::new(Gcra::new(Quota::per_second(5)), store);
    ///
    /// limiter.refuse_until("mallory", Timestamp::from_micros(0).saturating_add(HOUR)).await?;
    /// assert_eq!(limiter.check("mallory").await?.retry_after(), Some(HOUR));
    /// clock.advance(HOUR);
    /// assert!(limiter.check("mallory").await?.is_admitted());
    /// # Ok::<(), tollgate::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn refuse_until<'a, K, Q>(
        &'a self,
        key: &'a Q,
        until: Timestamp,
    ) -> Call<'a, (), C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        let overriding = Override {
            until,
            lets_through: false,
        };
        Call::new(self, key, Request::Change(Change::Override(overriding)))
    }

    /// Lets every request of this key through until that instant, by the store's clock, and charges
    /// nothing meanwhile.
    ///
    /// Else it is as [`refuse_until`](Self::refuse_until). Of a request that other limits decide
    /// about too, it is let through if these admit it. A store over Redis that remembers refusals
    /// may refuse the key for as long as it remembers them, if another process has said so.
    ///
    /// **Bound**: as after a reset, the algorithm's own counts from that instant on.
    ///
    /// # Errors
    ///
    /// The store could not write; whether the key is let through is not known.
    pub fn let_through_until<'a, K, Q>(
        &'a self,
        key: &'a Q,
        until: Timestamp,
    ) -> Call<'a, (), C, S, K, Q, W>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        let overriding = Override {
            until,
            lets_through: true,
        };
        Call::new(self, key, Request::Change(Change::Override(overriding)))
    }
}

/// Fails to compile if a place would be taken that nothing gives back.
const fn gives_back_what_it_takes<L: Limit>() {
    assert!(
        !L::IN_FLIGHT,
        "a place of `InFlight` would be taken and never given back: use `hold`"
    );
}
