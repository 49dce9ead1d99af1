//! A policy: its name, and the id of its buckets.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use siphasher::sip::SipHasher24;

use crate::{error::ConfigError, quota::Quota};

mod name;

pub(crate) use name::PolicyName;

const MAX_NAME_LEN: usize = 64;

/// Tells one policy's buckets from another's: a bucket is *(policy, key)*, in every store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PolicyId(u64);

impl PolicyId {
    fn of(namespace: u8, name: &str) -> Self {
        // Processes of other builds must get the same number.
        Self(SipHasher24::new_with_keys(namespace.into(), 0).hash(name.as_bytes()))
    }

    /// The policy that is all of these together, in this order.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        // An odd multiplier and a rotation: a different order is a different policy.
        Self(
            self.0
                .rotate_left(23)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .wrapping_add(other.0),
        )
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

/// The name of a policy, and its numbers on the wire: the most at once, and the time to win it
/// back.
///
/// A policy that is [named](Self::named) is its name and its algorithm: it keeps its buckets when
/// its numbers change. One that is not is its algorithm and its numbers, and its name is made of
/// those.
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
}

impl Policy {
    /// A policy without a name of its own: it is called by its algorithm, its numbers and its
    /// window. The first number is its limit (0 if there is none); the window is the time it takes
    /// to win that back.
    ///
    /// A [named](Self::named) policy keeps its states when its numbers or its window change. If a
    /// state cannot be read with others, as the number of a calendar's window cannot, write what
    /// it depends on into the algorithm: `format!("calendar-{period}-{phase}")`. Such policies
    /// have buckets of their own.
    ///
    /// A character of the algorithm's name that a policy's name cannot have becomes `_`.
    pub fn new(algorithm: &str, numbers: &[u64], window: Duration) -> Self {
        let window_micros = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        let allowed = |character: char| match character {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '.' | '-' => character,
            _ => '_',
        };
        let mut name: String = algorithm.chars().map(allowed).collect();
        for number in numbers {
            // Writing to a `String` does not fail.
            let _ = write!(name, "-{number}");
        }
        let _ = write!(name, "-{}", Span(window_micros));
        Self::described(
            PolicyId::of(2, algorithm),
            PolicyName::of(format_args!("{name}")),
            numbers.first().copied().unwrap_or(0),
            window_micros,
        )
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
    pub(crate) fn of_shape(self, shape: impl fmt::Display) -> Self {
        debug_assert_eq!(self.own_name(), None, "the shape is a part of the id");
        Self {
            shape: PolicyId::of(2, &PolicyName::of(format_args!("{shape}"))),
            ..self
        }
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
        }
    }

    /// This policy, but under the name of the other one if that has a name of its own.
    #[must_use]
    pub(crate) fn named_like(self, other: &Self) -> Self {
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
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_LEN || !name.bytes().all(allowed) {
            return Err(ConfigError::InvalidPolicyName(name.to_owned()));
        }
        Ok(self.known_as(PolicyName::of(format_args!("{name}"))))
    }

    /// The policy that counts requests: another one than this, unless this has a name of its own.
    #[must_use]
    pub(crate) fn per_request(self) -> Self {
        if self.own_name().is_some() {
            return self;
        }
        Self {
            id: self.id.and(PolicyId::of(0, "per-request")),
            name: PolicyName::of(format_args!("{}-per-request", &*self.name)),
            ..self
        }
    }

    /// The name that it was given, if it was given one.
    pub(crate) fn own_name(&self) -> Option<&PolicyName> {
        (self.id == Self::named_id(&self.name, self.shape)).then_some(&self.name)
    }

    fn named_id(name: &str, shape: PolicyId) -> PolicyId {
        PolicyId::of(1, name).and(shape)
    }

    fn known_as(self, name: PolicyName) -> Self {
        Self {
            id: Self::named_id(&name, self.shape),
            name,
            ..self
        }
    }

    /// The name, in the characters `A-Z a-z 0-9 _ . -`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells this policy's buckets from another's.
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

/// A span of time in the largest unit that it is a whole number of: `1m`, `90s`, `100ms`.
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1_000, "ms"),
        ];
        let whole = |&&(micros, _): &&(u64, &str)| self.0 > 0 && self.0.is_multiple_of(micros);
        match UNITS.iter().find(whole) {
            Some((micros, unit)) => write!(f, "{}{unit}", self.0 / micros),
            None => write!(f, "{}us", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_header_field_could_carry_is_refused_by_value() {
        let too_long = "n".repeat(65);
        for name in ["", "a b", "a\"b", "{a}", "naïve", "a\nb", "a:b", &too_long] {
            let error = Policy::new("x", &[1], Duration::from_secs(1))
                .named(name)
                .unwrap_err();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }

    #[test]
    fn a_name_of_one_to_64_characters_is_kept_and_makes_other_buckets_and_numbers() {
        let unnamed = Policy::new("x", &[1], Duration::from_secs(1));
        for name in ["n", "aZ09_.-", &"n".repeat(64)] {
            let named = unnamed.clone().named(name).unwrap();
            assert_eq!(named.name(), name);
            assert_ne!(named.id(), unnamed.id());
            let others = Policy::new("x", &[2], Duration::from_secs(1));
            let others = others.named(name).unwrap();
            assert_eq!(others.id(), named.id());
            let other_shape = Policy::new("y", &[1], Duration::from_secs(1));
            assert_ne!(other_shape.named(name).unwrap().id(), named.id());
        }
    }

    #[test]
    fn a_policy_takes_over_a_name_but_not_what_others_are_called_without_one() {
        let policy = |n| Policy::new("x", &[n], Duration::from_secs(1));
        let named = policy(1).named("daily").unwrap();
        let taken_over = policy(2).named_like(&named);
        assert_eq!((taken_over.name(), taken_over.id()), ("daily", named.id()));
        let kept = policy(2).named_like(&policy(1));
        assert_eq!((kept.name(), kept.id()), ("x-2-1s", policy(2).id()));
    }

    #[test]
    fn what_counts_requests_is_another_policy_or_other_numbers_of_the_same_name() {
        let unnamed = Policy::new("x", &[1], Duration::from_secs(1));
        let requests = unnamed.clone().per_request();
        assert_eq!(requests.name(), "x-1-1s-per-request");
        assert_ne!(requests.id(), unnamed.id());
        assert_eq!(
            (requests.limit(), requests.window()),
            (1, Duration::from_secs(1))
        );

        let named = unnamed.named("rpm").unwrap();
        let requests = named.clone().per_request();
        assert_eq!((requests.name(), requests.id()), ("rpm", named.id()));
        let named_later = Policy::new("x", &[1], Duration::from_secs(1)).per_request();
        assert_eq!(named_later.named("rpm").unwrap(), requests);
    }

    #[test]
    fn a_window_is_as_long_as_it_was_given_in_whole_microseconds() {
        for window in [0, 1, 1_500_000].map(Duration::from_micros) {
            assert_eq!(Policy::new("x", &[1], window).window(), window);
        }
        let longest = Policy::new("x", &[1], Duration::MAX);
        assert_eq!(longest.window(), Duration::from_micros(u64::MAX));
    }

    #[test]
    fn a_name_makes_the_same_id_in_every_build() {
        assert_eq!(PolicyId::of(0, "daily").as_u64(), 0x13d8_1f56_9eb8_3c1d);
        assert_eq!(PolicyId::of(1, "daily").as_u64(), 0xf93f_3805_6667_d003);
    }

    #[test]
    fn whatever_an_algorithm_is_called_its_policy_has_a_name_that_can_be_sent() {
        let policy = Policy::new("a\nb\"ü", &[1], Duration::from_secs(1));
        assert_eq!(policy.name(), "a_b__-1-1s");
    }

    #[test]
    fn the_order_of_the_members_makes_a_different_policy() {
        let [a, b] = [1, 2].map(|n| Policy::new("x", &[n], Duration::from_secs(1)).id());
        assert_ne!(a.and(b), b.and(a));
        assert_ne!(a.and(b), a);
        assert_ne!(a.and(a), a);
    }

    #[test]
    fn a_span_is_printed_in_its_largest_whole_unit() {
        let told: Vec<String> = [
            0,
            1,
            1_500,
            2_000,
            90_000_000,
            3_600_000_000,
            172_800_000_000,
        ]
        .map(|micros| Span(micros).to_string())
        .into();
        assert_eq!(told, ["0us", "1us", "1500us", "2ms", "90s", "1h", "2d"]);
    }
}
