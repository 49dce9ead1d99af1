//! A policy: its name, and the id of its buckets.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use siphasher::sip::SipHasher24;

use crate::{
    error::ConfigError,
    quota::{Quota, in_largest_unit},
};

mod name;

pub(crate) use name::PolicyName;

const MAX_NAME_LEN: usize = 64;

/// The number under which stores keep the buckets of one policy: a bucket is *(policy, key)*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PolicyId(u64);

impl PolicyId {
    fn of(namespace: u8, name: &str) -> Self {
        // Processes of other builds must get the same number.
        Self(SipHasher24::new_with_keys(namespace.into(), 0).hash(name.as_bytes()))
    }

    /// The number of the policy that is this one and the other together, in this order.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        // An odd multiplier and a rotation: a different order is a different policy.
        let mixed = self.0.rotate_left(23).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self(mixed.wrapping_add(other.0))
    }

    /// The id as a number, which is the same in every process.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    #[cfg(any(test, feature = "rules"))]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// What a limit is called and shows to callers: its name, the most at once, and the time until all
/// of that is back.
///
/// A policy that is [named](Self::named) is its name and its [shape](crate::algorithm): it keeps
/// its buckets when other numbers change. One that is not is its algorithm and its numbers, and its
/// name is made of those.
///
/// # Example: two policies that differ in nothing but a number
///
/// ```
/// use std::time::Duration;
/// use tollgate::algorithm::Policy;
///
/// let slow = Policy::new("my-bucket", &[10], Duration::from_secs(1));
/// let fast = Policy::new("my-bucket", &[20], Duration::from_secs(1));
/// assert_eq!(slow.name(), "my-bucket-10-1s");
/// assert_ne!(slow.id(), fast.id());
///
/// let renamed = slow.named("daily").unwrap();
/// assert_eq!(renamed.name(), "daily");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    name: PolicyName,
    id: PolicyId,
    /// What all numbers of one name must share, to share buckets: the algorithm, and what its
    /// states depend on.
    shape: PolicyId,
    limit: u64,
    window_micros: u64,
    counts_requests: bool,
    in_shadow: bool,
}

impl Policy {
    /// A policy without a name of its own: it is called by its algorithm, its numbers and its
    /// window. The first number is its limit (0 if there is none); the window is the time it takes
    /// to win that back, and the longest such time if it varies.
    ///
    /// A [named](Self::named) policy keeps its states when its numbers or its window change. If a
    /// state cannot be read with others, as the number of a calendar's window cannot, write what
    /// it depends on into the algorithm: `format!("calendar-{period}-{phase}")`. Such policies
    /// have buckets of their own.
    ///
    /// A character of the algorithm's name that a policy's name cannot have becomes `_`.
    pub fn new(algorithm: &str, numbers: &[u64], window: Duration) -> Self {
        let window_micros = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        let mut name = algorithm.replace(|character| !is_of_names(character), "_");
        for number in numbers {
            // Writing to a `String` does not fail.
            let _ = write!(name, "-{number}");
        }
        let _ = write!(name, "-{}", Span(window_micros));
        let name = PolicyName::of(format_args!("{name}"));
        let limit = numbers.first().copied().unwrap_or(0);
        Self::described(PolicyId::of(2, algorithm), name, limit, window_micros)
    }

    /// A policy without a name of its own: it is called by its algorithm, its quota and `more`.
    pub(crate) fn of_quota(
        algorithm: &str,
        quota: Quota,
        more: impl fmt::Display,
        limit: u64,
        window_micros: u64,
    ) -> Self {
        let (units, period) = (quota.units(), Span(quota.period_micros()));
        let name = PolicyName::of(format_args!("{algorithm}-{units}-{period}{more}"));
        Self::described(PolicyId::of(2, algorithm), name, limit, window_micros)
    }

    /// A policy without a name of its own, of a quota that is counted in its period: its shape is
    /// that period, and what the algorithm was made of beside the quota.
    pub(crate) fn of_window(algorithm: &str, quota: Quota, more: &str) -> Self {
        let period = quota.period_micros();
        Self::of_quota(algorithm, quota, more, quota.units(), period)
            .of_shape(format_args!("{algorithm}-{}{more}", Span(period)))
    }

    /// The same policy with a shape of its own, which is not only that of its algorithm.
    #[must_use]
    pub(crate) fn of_shape(mut self, shape: impl fmt::Display) -> Self {
        debug_assert_eq!(self.own_name(), None, "the shape is a part of the id");
        self.shape = PolicyId::of(2, &PolicyName::of(format_args!("{shape}")));
        self
    }

    /// A policy without a name of its own: it is called by its algorithm and its limit.
    pub(crate) fn of_number(algorithm: &str, limit: u64) -> Self {
        let name = PolicyName::of(format_args!("{algorithm}-{limit}"));
        Self::described(PolicyId::of(2, algorithm), name, limit, 0)
    }

    fn described(shape: PolicyId, name: PolicyName, limit: u64, window_micros: u64) -> Self {
        Self {
            id: PolicyId::of(0, &name),
            shape,
            name,
            limit,
            window_micros,
            counts_requests: false,
            in_shadow: false,
        }
    }

    /// This policy, as the other one is set up: under its name, if that has one of its own.
    #[must_use]
    pub(crate) fn like(mut self, other: &Self) -> Self {
        self.in_shadow = other.in_shadow;
        if other.counts_requests {
            self = self.per_request();
        }
        match other.own_name() {
            Some(name) => self.known_as(name.clone()),
            None => self,
        }
    }

    /// The same policy under a name of its own.
    ///
    /// # Errors
    ///
    /// The name is not 1 to 64 of the characters `A-Z a-z 0-9 _ . -`, which are safe in a header
    /// field and in a Redis key.
    pub fn named(self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        let name = name.as_ref();
        if name.is_empty() || name.len() > MAX_NAME_LEN || !name.chars().all(is_of_names) {
            return Err(ConfigError::InvalidPolicyName(name.to_owned()));
        }
        Ok(self.known_as(PolicyName::of(format_args!("{name}"))))
    }

    /// Charges each request 1, whatever it costs, and admits it if a cost of 1 would be admitted:
    /// so that one tuple limits requests *and* what they cost.
    ///
    /// A request of cost 0 is admitted and charges nothing, here too. Every algorithm of this crate
    /// but [`InFlight`](crate::algorithm::InFlight) has the same method,
    /// [`per_request`](crate::algorithm::TokenBucket::per_request).
    ///
    /// - **Bound**: as many requests (of a cost of 1 or more) as the algorithm lets units through.
    /// - **Not for** a refund of a part: a refund of 1 or more gives one request back.
    /// - **Decision**: the limit and what remains are requests.
    /// - **Policy**: without a name of its own it has the algorithm's name with `-per-request`
    ///   appended, and buckets of its own. With a [name](Self::named), given before or after, it
    ///   *is* that name: a plain limit of that name shares its buckets, as if this one's requests
    ///   all had a cost of 1.
    ///
    /// # Example: two requests a minute, and a thousand tokens
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    /// use tollgate::{algorithm::TokenBucket, store::LocalStore};
    ///
    /// let limits = (
    ///     TokenBucket::new(Quota::per_minute(2)).named("requests").per_request(),
    ///     TokenBucket::new(Quota::per_minute(1_000)).named("tokens"),
    /// );
    /// let limiter = RateLimiter::new(limits, LocalStore::new());
    /// assert!(limiter.check_cost("bob", 600).now().is_admitted());
    /// assert_eq!(limiter.check_cost("bob", 600).now().policy(), "tokens");
    /// assert!(limiter.check_cost("bob", 100).now().is_admitted());
    /// assert_eq!(limiter.check_cost("bob", 100).now().policy(), "requests");
    /// ```
    #[must_use]
    pub fn per_request(mut self) -> Self {
        if !self.counts_requests && self.own_name().is_none() {
            self.id = self.id.and(PolicyId::of(0, "per-request"));
            self.name = PolicyName::of(format_args!("{}-per-request", &*self.name));
        }
        self.counts_requests = true;
        self
    }

    /// Lets every request through, and counts as if it were enforced: a dry run of a limit, beside
    /// others or alone, before it may refuse anybody.
    ///
    /// Every algorithm of this crate but [`InFlight`](crate::algorithm::InFlight) has the same
    /// method, [`shadow`](crate::algorithm::TokenBucket::shadow). Take it away, and the limit is
    /// enforced.
    ///
    /// - **Bound**: none; what it charges stays within that of the algorithm.
    /// - **What it charges**: a request that all enforced limits beside it admit, if this one would
    ///   admit it too. So its state is that of the same limit, enforced alone, over exactly the
    ///   requests that the enforced limits admit. Several limits in shadow each count by
    ///   themselves.
    /// - **What callers see**: nothing. It is in no field and in none of
    ///   [`policies`](crate::Decision::policies), [`policy`](crate::Decision::policy),
    ///   [`remaining`](crate::Decision::remaining) and [`delay`](crate::Decision::delay); nobody
    ///   waits for it. Where all limits are in shadow, a decision is of no policy: admitted, with
    ///   the largest `u64` as its limit.
    /// - **What it would do**: an [observer](crate::observe) sees it
    ///   ([`shadows_of`](crate::algorithm::Limit::shadows_of)); it is logged and counted as
    ///   `shadow_refused`.
    /// - **State**: where that of the enforced limit would be, so that it keeps its count when it
    ///   is enforced, and processes of both kinds count together over Redis.
    /// - **Not for** a whole layer: [`enforce`](crate::RateLimitLayer::enforce) is a dry run with
    ///   its costs and keys, for all callers or for some. Nor for
    ///   [`InFlight`](crate::algorithm::InFlight), of which only a layer has a dry run.
    ///
    /// # Example: would a tenth of the daily quota be enough for an hour?
    ///
    /// ```
    /// use tollgate::algorithm::{FixedWindow, Limit};
    /// use tollgate::store::{Ask, LocalStore, Store};
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let daily = FixedWindow::new(Quota::per_day(100)).named("daily");
    /// let hourly = FixedWindow::new(Quota::per_hour(10)).named("hourly").shadow();
    /// let limits = (daily, hourly);
    /// let limiter = RateLimiter::new(limits.clone(), LocalStore::new());
    ///
    /// let decision = limiter.check_cost("bob", 8).now();
    /// assert!(decision.is_admitted());
    /// let decision = limiter.check_cost("bob", 8).now();
    /// assert!(decision.is_admitted(), "the hourly limit would refuse it");
    /// assert_eq!((decision.policies().len(), decision.remaining()), (1, 84));
    /// # let store = LocalStore::<_, String>::new();
    /// # let mut told = Vec::new();
    /// # for _ in 0..2 {
    /// #     use tollgate::store::Answer;
    /// #     let answer = store.decide(&limits, "bob", Ask::Charge(8));
    /// #     let Answer::Now(Ok(verdict)) = answer else { panic!() };
    /// #     limits.shadows_of(&verdict.snapshot, &mut |policy, refuses| {
    /// #         told.push((policy.policy().to_owned(), policy.remaining(), refuses));
    /// #     });
    /// # }
    /// # assert_eq!(told, [("hourly".to_owned(), 2, false), ("hourly".to_owned(), 2, true)]);
    /// ```
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.in_shadow = true;
        self
    }

    /// What a request of this cost is charged.
    #[inline]
    pub(crate) fn units<N: Ord + From<u8>>(&self, cost: N) -> N {
        match self.counts_requests {
            true => cost.min(N::from(1)),
            false => cost,
        }
    }

    #[inline]
    pub(crate) fn counts_requests(&self) -> bool {
        self.counts_requests
    }

    #[inline]
    pub(crate) fn is_in_shadow(&self) -> bool {
        self.in_shadow
    }

    /// The name that it was given, if it was given one.
    pub(crate) fn own_name(&self) -> Option<&PolicyName> {
        (self.id == Self::named_id(&self.name, self.shape)).then_some(&self.name)
    }

    fn named_id(name: &str, shape: PolicyId) -> PolicyId {
        PolicyId::of(1, name).and(shape)
    }

    fn known_as(mut self, name: PolicyName) -> Self {
        self.id = Self::named_id(&name, self.shape);
        self.name = name;
        self
    }

    /// The name, in the characters `A-Z a-z 0-9 _ . -`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of its buckets: those of other policies have others.
    #[inline]
    pub fn id(&self) -> PolicyId {
        self.id
    }

    /// The most that is let through at once: the quota's units, or the burst.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long it takes to win the limit back.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_micros)
    }

    #[inline]
    pub(crate) fn window_micros(&self) -> u64 {
        self.window_micros
    }

    #[inline]
    pub(crate) fn kept_name(&self) -> &PolicyName {
        &self.name
    }
}

/// Whether the name of a policy can have this character.
fn is_of_names(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.-".contains(character)
}

/// A span of time in the largest unit that it is a whole number of: `1m`, `90s`, `100ms`.
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match in_largest_unit(self.0) {
            (days, "day") => write!(f, "{days}d"),
            (minutes, "min") => write!(f, "{minutes}m"),
            (many, unit) => write!(f, "{many}{unit}"),
        }
    }
}

#[cfg(test)]
mod tests;
