use super::{Algorithm, Policy, Shadow, same_rule::SameRule, setters::Named};

/// Charges each request 1, whatever it costs, and admits it if the algorithm inside admits a cost
/// of 1: so that one tuple limits requests *and* what they cost.
///
/// A request of cost 0 is admitted and charges nothing, here too. The method `per_request` of every
/// algorithm makes one: [`TokenBucket::per_request`](super::TokenBucket::per_request).
///
/// - **Bound**: as many requests (of a cost of 1 or more) as the algorithm inside lets units
///   through.
/// - **Memory**: that of the algorithm inside.
/// - **Not for** a refund of a part: a refund of 1 or more gives one request back.
/// - **Decision**: the limit and what remains are requests.
/// - **Policy**: without a name of its own it has the name of the algorithm inside with
///   `-per-request` appended, and buckets of its own. With a [name](super::TokenBucket::named),
///   given before or after, it *is* that name: a plain limit of that name over the same Redis
///   shares its buckets, as if this one's requests all had a cost of 1.
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
///
/// # Example: an algorithm of your own
///
/// ```
/// use tollgate::algorithm::{FixedWindow, PerRequest};
/// use tollgate::{Quota, RateLimiter, store::LocalStore};
///
/// // This stands for your own algorithm. Its policy keeps its name.
/// let own = FixedWindow::new(Quota::per_day(1)).named("daily-requests");
/// let limiter = RateLimiter::new(PerRequest::new(own), LocalStore::new());
/// assert!(limiter.check_cost("bob", 70).now().is_admitted());
/// assert!(!limiter.check("bob").now().is_admitted());
/// ```
#[derive(Debug, Clone)]
pub struct PerRequest<A>(pub(super) A);

impl<A: Algorithm> PerRequest<A> {
    /// Counts requests by this algorithm. Its policy stays the same: name it differently if the
    /// plain algorithm is in use too. (The algorithms of this crate have a method for it.)
    pub const fn new(algorithm: A) -> Self {
        Self(algorithm)
    }

    /// Rehearses the limit: it counts, and neither refuses nor delays. See [`Shadow`].
    #[must_use]
    pub const fn shadow(self) -> Shadow<Self> {
        Shadow::of(self)
    }
}

impl<A: Named> PerRequest<A> {
    /// Names the policy. A named policy keeps its buckets when its numbers change.
    ///
    /// # Panics
    ///
    /// The name is not 1 to 64 of the characters `A-Z a-z 0-9 _ . -`.
    #[must_use]
    #[track_caller]
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.try_named(name)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl<A: Named> Named for PerRequest<A> {
    fn policy_mut(&mut self) -> &mut Policy {
        self.0.policy_mut()
    }
}

impl<A: Algorithm> SameRule for PerRequest<A> {
    type Rule = A;

    const COUNTS_REQUESTS: bool = true;

    #[inline]
    fn rule(&self) -> &A {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        Quota, Timestamp,
        algorithm::{FixedWindow, KeyLimit, LeakyBucket, Limit, Scripted},
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn left<A: KeyLimit>(rule: &A, state: &A::State) -> u64 {
        let snapshot = rule.snapshot(state, 0, true, NOW);
        rule.decision_of(&snapshot).remaining()
    }

    #[test]
    fn a_debit_of_many_units_is_one_request() {
        let rule = FixedWindow::new(Quota::per_day(9)).per_request();
        let mut state = rule.fresh(NOW);
        for (units, remaining) in [(1, 8), (70, 7), (u64::MAX, 6)] {
            rule.debit(&mut state, units, NOW);
            assert_eq!(left(&rule, &state), remaining);
        }
    }

    #[test]
    fn a_request_waits_for_those_before_it_and_tells_its_turn_whatever_they_cost() {
        let plain = LeakyBucket::new(Quota::per_second(10)).queue();
        let rule = plain.clone().per_request();
        let (mut state, mut ones) = (rule.fresh(NOW), plain.fresh(NOW));
        for waits_millis in [0, 100, 200] {
            let (_, admission) = rule.step(&mut state, 5, NOW);
            let (_, one) = plain.step(&mut ones, 1, NOW);
            assert_eq!(
                rule.delay_of(&admission),
                Duration::from_millis(waits_millis)
            );
            let (mut told, mut told_of_one) = (Vec::new(), Vec::new());
            rule.admission(&admission, &mut |number| told.push(number));
            plain.admission(&one, &mut |number| told_of_one.push(number));
            assert_eq!(told, told_of_one);
            assert_eq!(told.len(), 2);
        }
    }
}
