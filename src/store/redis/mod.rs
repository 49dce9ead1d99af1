//! The store in Redis: one limit for a whole fleet, with at most one script and one round trip for
//! each decision.
//!
//! **What happens to a decision**
//!
//! - `run`: its script is sent, and the answer waited for until the deadline. A script that Redis
//!   does not have is loaded; a redirect by a cluster is followed.
//! - `arguments`, `reply`: the keys and arguments of its script, and the reply.
//! - `limits`, `rules`: a request's list of limits, each with a key. `query`: what is asked about
//!   them, and how debits, settlements and resets are sent.
//! - `joined`: decisions about the same keys that share a call.
//! - `refusals`: refusals that are remembered until their turn. `leases`: units that are spent
//!   without asking. `changes`: changes of a bucket, after which neither counts.
//! - `cross_slot`: a decision about keys in several slots of a cluster.
//! - `in_flight`: how the places of requests in flight are renewed and given back.
//!
//! **What if Redis is down?**
//!
//! - `failure`: which kind of error a call gets: Redis is unavailable, something is set up wrongly,
//!   or a key has a value that no store wrote.
//! - `link`: one connection: its unanswered commands, whether it gets decisions, when it is hung.
//! - `node`: the connections to one server. One that is lost or hung is replaced.
//! - `servers`: the one server, or which node of a cluster holds a slot, also while nodes fail.
//! - `loads`: loads a script that a node does not have. What happens if it refuses to.
//! - `health`: the events for operators. `usage`: the counters.
//!
//! **How is it set up?**
//!
//! - `builder`: what a user can set. `settings`: what is taken from the client or pool, and how a
//!   connection is made of it.
//!
//! **What does Redis run?**
//!
//! - `frame.lua`, then the `.lua` files beside the algorithms, then the lines of `script` for each
//!   member. The folder `sent` has one of each kind. `scripts`: which one is for which limit.

mod arguments;
mod builder;
mod changes;
mod cross_slot;
mod failure;
mod health;
mod in_flight;
mod joined;
mod leases;
mod limits;
mod link;
mod loads;
mod node;
mod query;
mod refusals;
mod reply;
#[cfg(feature = "rules")]
mod rules;
mod run;
mod script;
mod scripts;
mod servers;
mod settings;
#[cfg(test)]
mod tests;
mod usage;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    algorithm::Ending,
    clock::Timestamp,
    key::{DigestKey, Key},
    store::{Answer, AsKey, Ask, Change, Decided, Store, Written},
};

use self::{
    changes::Changes, health::Health, in_flight::InFlightPlaces, joined::JoinedCalls,
    leases::Leases, limits::RedisLimit, query::Query, refusals::Refusals, scripts::ScriptCache,
    servers::Servers,
};

pub use builder::RedisStoreBuilder;
pub use settings::RedisConnection;
pub use usage::RedisUsage;

/// Asks Redis or Valkey about each request, so that all processes with the same store share one
/// limit: it is charged and passes, or is refused with 429, or, when no answer comes in time, with
/// 503.
///
/// A decision is one script and one round trip, for a tuple too. Any algorithm that is
/// [`Scripted`](crate::algorithm::Scripted) and any key that is a
/// [`PortableKey`](crate::key::PortableKey) will do: all of the crate's are, and a store serves any
/// number of them at the same time.
///
/// # Example: one limit for a fleet
///
/// ```no_run
/// use axum::{Router, routing::get};
/// use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::PeerIp};
/// use tollgate::store::{RedisConnection, RedisStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let redis = RedisConnection::from_url("redis://127.0.0.1:6379")?;
/// let limit = RateLimitLayer::new(
///     TokenBucket::new(Quota::per_second(20)).burst(40),
///     RedisStore::new(redis),
///     PeerIp::new(),
/// );
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
/// # let _ = app;
/// # Ok::<(), tollgate::ConfigError>(())
/// # }).unwrap();
/// ```
///
/// # What is shared
///
/// A bucket is *(prefix, policy, key)*: processes whose prefixes, [digest
/// keys](RedisStoreBuilder::digest_key), policies and keys are the same share it. A policy without
/// a name is identified by its algorithm and numbers, so two releases with different numbers count
/// apart; one with a name keeps its buckets. Clones share the connections and their bound.
///
/// # Time
///
/// It is the server's, read once in each script; the clocks of the processes do not matter. It may
/// [step back](crate::algorithm#when-time-steps-back).
/// [`clock`](RedisStoreBuilder::clock) is for tests.
///
/// # A hot key
///
/// While a decision is on its way, later ones by the same limits about the same keys share the next
/// call, which makes up to 64 of them in order, at one instant: each is as if they had come one
/// after the other. The call is sent when those before are answered, when it is full, or after a
/// quarter of the deadline, which counts from when each was asked. Whoever goes away before then is
/// not charged. The first one never waits. Decisions by
/// [`InFlight`](crate::algorithm::InFlight), and about keys in several slots of a cluster, do not
/// share. What a process asks about all the time can be [leased](RedisStore::leased).
///
/// # When Redis is slow or down
///
/// A decision fails with [`Unavailable`](crate::StoreErrorKind::Unavailable) when there is no
/// answer before the [deadline](RedisStoreBuilder::deadline), when there is no connection, or when
/// [too many](RedisStoreBuilder::max_unanswered) wait already. An outage that is known costs nobody
/// the deadline: nothing waits for a reconnect, and after three calls in a row have missed it,
/// all fail at once until a probe is answered. Nothing is sent twice, or after its deadline. What
/// has reached Redis may be charged all the same: then the limit is stricter, never looser.
///
/// [`on_store_error`](crate::RateLimitLayer::on_store_error) decides about such a request: it is
/// refused with 503 (by default), admitted uncounted, or counted here. Missing rights, wrong
/// passwords, a value that another program has written under a key, and a first attempt to connect
/// that has not ended are never a reason to admit: they are answered with 500.
///
/// A connection is replaced when decisions on it miss their deadline and nothing is answered for a
/// second; see [`RedisConnection`]. Each node of a cluster and each client of a pool is watched by
/// itself: one that is down or hangs does not delay decisions on the others.
///
/// For three seconds after a server has reported a misconfiguration, calls that get no answer from
/// it in time fail with it too, and not as unavailable. If every answer comes after the deadline,
/// the store does not see such reports.
///
/// If a server does not have a script (`NOSCRIPT`, after a restart, say), the script is loaded once
/// for all calls that wait for it, and run again. If Redis refuses to load it, all of them fail
/// with that error, and the next load is half a second later. In the first second after a
/// script's first call, until Redis has run it once, a call without an answer in time fails as
/// misconfigured: whether Redis lets the store run it is not known yet.
///
/// # What the operator is told
///
/// Events of `tracing`, with the target `tollgate::store` and the store's prefix; their number does
/// not grow with the number of requests:
///
/// - **Health**: one when the store becomes unavailable (a warning) or is found to be set up
///   wrongly (an error), and while that lasts at most one a second, with the cause and how many
///   calls have failed since the last event; and one when it is over, with how long it lasted and
///   how many calls failed. It is over when a call is answered and none has failed for a second.
/// - **Connections**: one when a connection is lost or given up, and one when it is replaced; one
///   when a server that answers too late gets no more decisions, and one when it gets them again.
///   At most one of each a second for each server.
/// - **Keys** with a value that no store wrote: at most one a second. The next event counts those
///   that were not logged.
///
/// [`usage`](RedisStore::usage) has the numbers: decisions by how they ended, those in flight,
/// reconnects, and when Redis last answered.
///
/// # Each of several keys
///
/// A request that counts against [each of several](crate::EachOf) keys is decided in one script and
/// one round trip on a single server, and in a cluster if its keys share a slot; a
/// [`hash_tag`](RedisStoreBuilder::hash_tag) sees to that. A script for more than four limits, each
/// member of a tuple counted, may be too long (one for seven token buckets is); then they are
/// decided as across slots.
///
/// Across slots all keys are peeked at first. If all have room, what is
/// [held](crate::algorithm::Settled) is first, then what is charged, queues and `MinInterval` last.
/// If one refuses then, what is held is given back. A charge is given back only if nobody else has
/// charged that key since: a refund could free units that others have used. So the limit is never
/// passed, but in a race for the last units a request that would have fitted may be refused. A
/// charge stays in a tuple with holds, and if a node fails.
///
/// A bucket belongs to a policy and a key: a layer with that policy and key alone shares it.
///
/// # What is kept
///
/// - **Keys** are `tollgate:1{layout:policy:key}`, and the same with a number behind it for the
///   entries of a log. The keys of a bucket are in one slot of a cluster. Short text is a part of
///   the key as it is; secrets and long text are digested with the
///   [`digest_key`](RedisStoreBuilder::digest_key).
/// - **Expiry**: every key has one from its first write on. It expires when its state is as good as
///   fresh, or later by at most a sixty-fourth of that time and a second; what is given back makes
///   it no earlier. Refused requests write
///   nothing, but by how much the clock has stepped back for good, and what a log has held when the
///   time of that is over.
/// - **A failover** loses the charges that were not replicated yet: about the replication lag times
///   the rate is admitted once more. An eviction loses a whole bucket: let Redis evict nothing
///   (`maxmemory-policy noeviction`).
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
    leases: Option<Arc<Leases>>,
}

pub(crate) struct Shared {
    servers: Arc<Servers>,
    /// `tollgate:1{`
    key_start: Vec<u8>,
    digest_key: DigestKey,
    clock: Option<Now>,
    script_cache: ScriptCache,
    health: Health,
    in_flight: InFlightPlaces,
    joined: JoinedCalls,
    refusals: Option<Refusals>,
    changes: Changes,
}

const MIN_LEASE: Duration = Duration::from_millis(1);
const MAX_LEASE: Duration = Duration::from_secs(60);

type Now = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// A future of Redis's answer.
pub(crate) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Nothing that is done under a lock here panics half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RedisStore {
    /// A store that connects as this `fred` client or pool does: with the server's clock, prefix
    /// `tollgate`, and 100 ms for a decision.
    ///
    /// It takes the settings alone, and makes connections of its own at the first decision; see
    /// [`RedisConnection`]. The client need not be connected.
    pub fn new(connection: impl Into<RedisConnection>) -> Self {
        Self::builder(connection).build()
    }

    /// A store with another prefix, digest key, deadline, bound or clock.
    ///
    /// # Example: a staging system beside the real one, and callers who wait instead
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::store::{RedisConnection, RedisStore};
    ///
    /// let redis = RedisConnection::from_url("redis://127.0.0.1:6379")?;
    /// let store = RedisStore::builder(redis)
    ///     .prefix("staging")
    ///     .deadline(Duration::from_millis(250))
    ///     .build();
    /// assert!(format!("{store:?}").contains("staging:1{"));
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn builder(connection: impl Into<RedisConnection>) -> RedisStoreBuilder {
        RedisStoreBuilder::of(connection.into())
    }

    /// A store that takes units of a busy bucket from Redis in advance, and spends them in this
    /// process for so long. A limit is leased whose layer or limiter has this one; both stores
    /// share connections and memory.
    ///
    /// After four decisions about a bucket within this time, the next call holds what was used
    /// within it: at most half of what is left, and at most a quarter of the limit for all
    /// processes together. What is not spent is given back by the next call, or within two such
    /// times, of 10 ms at least; of thousands of buckets at once, a tenth of a second later; while
    /// their server is out, after that. A request that needs more than is held here asks. After an
    /// answer that took as long as this time, nothing more of that bucket is held for ten such
    /// times, five seconds at least.
    ///
    /// - **Bound**: the algorithm's own, by the instant at which a unit is spent; for any number of
    ///   processes, and if some of them end or stop. By at most what was held and not spent, a
    ///   quarter of the limit, it is passed after a [reset](crate::RateLimiter::reset), after a
    ///   failover that loses writes, and if for ten times as long, and five seconds at least, a
    ///   process stops without its clocks showing it, or the server's clock steps forward.
    /// - **Late**, by at most twice this time: a request is refused though others hold units that
    ///   they do not spend; what others debit or override is not noticed. What is held by a process
    ///   that ends, or by a call whose answer is lost, is kept from others for up to twenty times
    ///   the longest time by which the bucket is leased, or for ten seconds if that is longer.
    /// - `remaining` and waits are those of the last answer less what was spent here. While Redis
    ///   does not answer, what is held is spent.
    /// - **Not leased**: costs that are larger than what is held, limits below 4 and those that are
    ///   [settled](crate::algorithm::Settled), per request or in shadow, several keys at once,
    ///   windows and logs shorter than four such times, queues and other limits that wait, minimal
    ///   intervals and places in flight, and tuples with one of these, or whose script would be too
    ///   long (four members always fit): they ask, as without.
    ///
    /// # Panics
    ///
    /// If it is shorter than 1 ms or longer than a minute.
    ///
    /// # Example: one limit that is hot, and one that is not
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::store::{RedisConnection, RedisStore};
    /// use tollgate::{Quota, RateLimiter, algorithm::{SlidingLog, TokenBucket}};
    ///
    /// let store = RedisStore::new(RedisConnection::from_url("redis://127.0.0.1:6379")?);
    /// let of_tenant = TokenBucket::new(Quota::per_second(50_000)).named("tenant");
    /// let of_tenant = RateLimiter::new(of_tenant, store.leased(Duration::from_millis(100)));
    /// let of_login = RateLimiter::new(SlidingLog::new(Quota::per_hour(5)), store);
    /// # let _ = (of_tenant, of_login);
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn leased(&self, lease_time: Duration) -> Self {
        assert!(
            (MIN_LEASE..=MAX_LEASE).contains(&lease_time),
            "the lease time {lease_time:?} is not between {MIN_LEASE:?} and {MAX_LEASE:?}"
        );
        Self {
            shared: Arc::clone(&self.shared),
            leases: Some(Arc::new(Leases::new(lease_time))),
        }
    }

    /// What the store has decided so far, how many decisions are in flight, and how its connections
    /// are; together with its clones.
    ///
    /// # Example: what a monitor would look at
    ///
    /// ```
    /// use tollgate::store::{RedisConnection, RedisStore};
    ///
    /// let redis = RedisConnection::from_url("redis://127.0.0.1:6379")?;
    /// let usage = RedisStore::new(redis).usage();
    /// assert_eq!((usage.admitted, usage.unavailable, usage.in_flight), (0, 0, 0));
    /// assert_eq!(usage.last_answer, None);
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn usage(&self) -> RedisUsage {
        *self.shared.usage()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("keys", &self.shared.key_start.escape_ascii().to_string())
            .field("deadline", &self.shared.deadline())
            .finish_non_exhaustive()
    }
}

impl<A: RedisLimit<K>, K: Key> Store<A, K> for RedisStore {
    type Deciding = Later<Decided<A>>;
    type Writing = Later<Written>;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<A>, Self::Deciding> {
        let query = || Query::new(self, limit, key.to_owned());
        let leasing = self.leases.as_ref().map(|_| query());
        if let Some(spent) = leasing.as_ref().and_then(|query| query.spent(ask)) {
            return Answer::Now(Ok(spent));
        }
        if let Ask::Charge(_) = ask
            && let Some(outage) = self.shared.known_outage(limit)
        {
            return Answer::Now(Err(outage));
        }
        let query = leasing.unwrap_or_else(query);
        if let Some(refused) = query.refused(ask) {
            return Answer::Now(Ok(refused));
        }
        let holds = A::IN_FLIGHT || query.all.iter().any(|query| query.holds);
        let decided: Later<_> = Box::pin(query.decide(ask));
        let (Ask::Charge(cost), true) = (ask, holds) else {
            return Answer::Later(decided);
        };
        let (store, limit, key) = (self.clone(), limit.clone(), key.to_owned());
        Answer::Later(in_flight::delivered::<A>(decided, move |admission| {
            let withdrawn = Change::End(admission, Ending::Withdrawn { cost });
            drop(store.change(&limit, &key, withdrawn));
        }))
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        match Query::new(self, limit, key.to_owned()).change(change) {
            Some(written) => Answer::Later(written),
            None => Answer::Now(Ok(())),
        }
    }

    fn buckets_id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }
}
