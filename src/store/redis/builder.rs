//! How a store is set up: its prefix, its digests, its deadline, its bound and its clock.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    error::{ConfigError, or_panic},
    key::DigestKey,
};

use super::{
    Now, RedisStore, Shared,
    changes::Changes,
    health::Health,
    in_flight::InFlightPlaces,
    joined::JoinedCalls,
    refusals::Refusals,
    scripts::ScriptCache,
    servers::Servers,
    settings::{RedisConnection, Settings},
};

const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);
const MIN_DEADLINE: Duration = Duration::from_millis(1);
const DEFAULT_MAX_UNANSWERED: usize = 10_000;
const DEFAULT_PREFIX: &str = "tollgate";
const MAX_PREFIX_BYTES: usize = 64;
/// The version of the keys' form, a part of every key: it changes with that form.
const VERSION: &str = "1";

/// Builds a [`RedisStore`] with other settings than those of [`RedisStore::new`].
pub struct RedisStoreBuilder {
    connection: RedisConnection,
    prefix: String,
    hash_tag: Option<String>,
    digest_key: DigestKey,
    deadline: Duration,
    max_unanswered: usize,
    clock: Option<Now>,
    remember_refusals: Option<Duration>,
    ask_again_after: Duration,
}

impl RedisStoreBuilder {
    pub(super) fn of(connection: RedisConnection) -> Self {
        Self {
            connection,
            prefix: DEFAULT_PREFIX.to_owned(),
            hash_tag: None,
            digest_key: DigestKey::default(),
            deadline: DEFAULT_DEADLINE,
            max_unanswered: DEFAULT_MAX_UNANSWERED,
            clock: None,
            remember_refusals: None,
            ask_again_after: Duration::ZERO,
        }
    }

    /// What all keys begin with; `tollgate` by default. Stores with other prefixes share nothing.
    ///
    /// 1 to 64 of the characters `A-Z a-z 0-9 _ . : -` are allowed.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Puts all keys of the store into the slot of a cluster that this tag is in; by default each
    /// bucket is in a slot of its own. The same texts are allowed as for the prefix.
    ///
    /// A request that counts against [each of several](crate::EachOf) keys is then decided in one
    /// script and one round trip in a cluster, too. But one node does the work for all of them:
    /// use it where one node is enough, or give each tenant or group of routes a store with a tag.
    #[must_use]
    pub fn hash_tag(mut self, tag: impl Into<String>) -> Self {
        self.hash_tag = Some(tag.into());
        self
    }

    /// The key under which secret and long parts of keys are digested; a published one by default.
    ///
    /// All processes that share buckets need the same one, and it should be random: with the
    /// published key whoever reads the keys in Redis can try out guesses of a short secret.
    /// Another key means fresh buckets for all that is digested.
    #[must_use]
    pub fn digest_key(mut self, key: &[u8; 32]) -> Self {
        self.digest_key = DigestKey::new(key);
        self
    }

    /// How long a decision may take, by default 100 ms and at least 1 ms; the client's own timeouts
    /// do not count. Later it fails as [`Unavailable`](crate::StoreErrorKind::Unavailable), though
    /// Redis may still charge it.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Refuses a request without asking Redis, if Redis has refused one like it and would still; by
    /// default Redis is asked about each. A flood of requests of cost 1 then costs Redis one or two
    /// scripts of a process for each unit that is admitted.
    ///
    /// A refusal counts until its turn, and for this long at most, from when it was asked. It is
    /// for the same limits with the same keys and numbers, and the same cost; a larger one too, if
    /// it is by one limit that is no log. An admission by such a limit that leaves nothing counts
    /// as a refusal of whatever comes next. What Redis would admit is never refused here because of
    /// the time that answers take, and no wait is too short because of it.
    /// [`usage`](RedisStore::usage) counts what is refused here as `remembered`.
    ///
    /// A refund, settlement, debit, reset or override by this store and its clones is noticed once
    /// it is answered. It is noticed late, by this long at most, if another process does it, or has
    /// larger numbers, if Redis has lost the state, or if its clock steps forward. Then what others
    /// are charged meanwhile is seen late, too: what remains may be less, and a wait longer.
    ///
    /// Not remembered are refusals by [`InFlight`](crate::algorithm::InFlight), of requests with a
    /// limit in shadow or a settled log, and about keys in several slots of a cluster. At most
    /// 10 000 are kept: before one more, all are forgotten. In an outage that is known a request
    /// gets its error, also if a refusal is remembered.
    ///
    /// # Example: a caller that does not give up
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::{Quota, RateLimiter, algorithm::TokenBucket};
    /// use tollgate::store::{RedisConnection, RedisStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let redis = RedisConnection::from_url("redis://127.0.0.1:6379")?;
    /// let store = RedisStore::builder(redis)
    ///     .remember_refusals(Duration::from_secs(10))
    ///     .build();
    /// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_minute(6)), store.clone());
    /// for _ in 0..1_000 {
    ///     limiter.check("bob").await?;
    /// }
    /// assert!(store.usage().remembered > 900);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn remember_refusals(mut self, longest: Duration) -> Self {
        self.remember_refusals = Some(longest);
        self
    }

    /// A [remembered](Self::remember_refusals) refusal counts for this long at least, also beyond
    /// its turn; zero by default.
    ///
    /// Each process asks Redis about a key that is flooded once for each turn. With this it asks
    /// once in this time, however short the turns are. A caller who comes at its turn is refused
    /// for this long at most, and units that are free meanwhile go to whoever asks next. A wait
    /// that is told can be too short or too long by as much. Changes by others are noticed as late
    /// as this, if it is longer than refusals are remembered.
    /// Without [`remember_refusals`](Self::remember_refusals) it has no effect.
    #[must_use]
    pub fn ask_again_after(mut self, shortest: Duration) -> Self {
        self.ask_again_after = shortest;
        self
    }

    /// How many calls may wait for an answer on one connection; by default 10 000, and at least
    /// one. One more is not sent: its decision, or [those that share
    /// it](super::RedisStore#a-hot-key), fail at once as
    /// [`Unavailable`](crate::StoreErrorKind::Unavailable).
    ///
    /// One that has missed its deadline still counts until Redis has answered it or the connection
    /// is given up, so that what piles up behind a connection that stalls is bounded. Each node
    /// of a cluster has its own connections: what waits for one node does not count for another.
    #[must_use]
    pub fn max_unanswered(mut self, calls: usize) -> Self {
        self.max_unanswered = calls;
        self
    }

    /// Reads the time from this clock instead of the server's: a
    /// [`ManualClock`](crate::clock::ManualClock) in tests.
    ///
    /// If each process has its own clock, the one that is ahead decides for all. Give each run of a
    /// test a [prefix](Self::prefix) of its own: Redis still has the keys of the last run, with
    /// their later times.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(move || clock.now()));
        self
    }

    /// The store. It connects at the first decision.
    ///
    /// # Panics
    ///
    /// Where [`try_build`](Self::try_build) fails, with its error as the message.
    #[must_use]
    #[track_caller]
    pub fn build(self) -> RedisStore {
        or_panic(self.try_build())
    }

    /// The store, if all that was set is allowed.
    ///
    /// # Errors
    ///
    /// The prefix, the hash tag, the deadline or the bound is not allowed: the error names it.
    ///
    /// # Example: settings from elsewhere
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::store::{RedisConnection, RedisStore};
    ///
    /// let redis = RedisConnection::from_url("redis://127.0.0.1:6379")?;
    /// let error = RedisStore::builder(redis).deadline(Duration::ZERO).try_build().unwrap_err();
    /// assert_eq!(error.to_string(), "the deadline 0ns is shorter than 1ms");
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn try_build(self) -> Result<RedisStore, ConfigError> {
        check("key prefix", &self.prefix)?;
        if let Some(tag) = &self.hash_tag {
            check("hash tag", tag)?;
        }
        if self.deadline < MIN_DEADLINE {
            return Err(ConfigError::DeadlineTooShort(self.deadline));
        }
        if self.max_unanswered == 0 {
            return Err(ConfigError::NoDecisionMayWait);
        }
        // A cluster takes the slot from the text between the first `{` and the next `}`.
        let tag = self.hash_tag.map(|tag| format!("{{{tag}}}"));
        let tag = tag.unwrap_or_default();
        let settings = Settings::of(&self.connection, self.max_unanswered, self.deadline);
        let shared = Arc::new(Shared {
            servers: Arc::new(Servers::new(settings)),
            key_start: format!("{}:{VERSION}{tag}{{", self.prefix).into_bytes(),
            digest_key: self.digest_key,
            clock: self.clock,
            script_cache: ScriptCache::default(),
            health: Health::new(self.prefix),
            in_flight: InFlightPlaces::default(),
            joined: JoinedCalls::default(),
            refusals: (self.remember_refusals)
                .map(|longest| Refusals::new(longest, self.ask_again_after)),
            changes: Changes::default(),
        });
        Ok(RedisStore {
            shared,
            leases: None,
        })
    }
}

/// Whether it can stand in a key without escapes.
fn check(what: &'static str, text: &str) -> Result<(), ConfigError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    match (1..=MAX_PREFIX_BYTES).contains(&text.len()) && text.bytes().all(allowed) {
        true => Ok(()),
        false => Err(ConfigError::InvalidKeyText {
            what,
            text: text.to_owned(),
        }),
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("prefix", &self.prefix)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
