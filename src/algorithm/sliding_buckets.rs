//! The sliding buckets. Their rule is in `log.rs`: they are a log of slots.

use std::time::Duration;

use crate::{
    algorithm::{Policy, log::Log},
    error::{ConfigError, or_panic},
    policy::Span,
    quota::{Quota, micros_rounded_up},
};

use super::{
    described::{Described, Field, Given, Kind, QUOTA, SpanText, in_field},
    same_rule::{SameAdditiveRule, SameRule},
    setters::setters,
};

/// Admits a request if the last period, counted in steps of `precision`, has room for its cost;
/// refuses it otherwise.
///
/// The period is cut into sub-counters of `precision`; the last P/precision of them count, the
/// running one included. With [`strict`](Self::strict) one more counts.
///
/// - **Bound**: n units in any span of P − precision; in a span of a whole period up to 2n (all of
///   it in the sub-counter that was just dropped). With `strict`, n in any span of a period, and
///   room comes back at worst one precision late.
/// - **Memory**: 56 bytes per key, enough for one sub-counter in which something was admitted.
///   Further ones take 16 to 32 for each, and no less than 64.
/// - **Not for** a handful of units: [`SlidingLog`](super::SlidingLog) is exact and as small.
///
/// ![Ten a second in steps of a tenth][sliding_buckets]
///
/// Source: the sliding window with sub-counters, as known from Redis's documentation.
///
/// # Example: strict, in steps of a tenth
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::SlidingBuckets, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(50_000));
/// let store = LocalStore::builder().clock(clock).build();
/// let precision = Duration::from_millis(100);
/// let rule = SlidingBuckets::new(Quota::per_second(5), precision).strict();
/// let limiter = RateLimiter::new(rule, store);
///
/// assert!(limiter.check_cost("bob", 5).await?.is_admitted());
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(1_050)));
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/sliding_buckets.md")]
#[derive(Debug, Clone)]
pub struct SlidingBuckets(Log);

setters!(additive SlidingBuckets, 0.policy);

impl SameRule for SlidingBuckets {
    type Rule = Log;

    #[inline]
    fn rule(&self) -> &Log {
        &self.0
    }
}

impl SameAdditiveRule for SlidingBuckets {}

const MAX_SUB_COUNTERS: u64 = 1024;

impl SlidingBuckets {
    /// Sub-counters of this precision; at most 1 024 to the period.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(quota: Quota, precision: Duration) -> Self {
        or_panic(Self::try_new(quota, precision))
    }

    /// Sub-counters of this precision; at most 1 024 to the period.
    ///
    /// # Errors
    ///
    /// The precision is shorter than 1 µs, does not divide the period, or cuts it into more than 1
    /// 024; or the quota is of more than 2<sup>53</sup> − 2<sup>32</sup> units.
    pub fn try_new(quota: Quota, precision: Duration) -> Result<Self, ConfigError> {
        let period = quota.period();
        if precision < Duration::from_micros(1) {
            return Err(ConfigError::PeriodTooShort { period: precision });
        }
        let is_whole = precision.subsec_nanos().is_multiple_of(1_000);
        if !is_whole || !period.as_nanos().is_multiple_of(precision.as_nanos()) {
            return Err(ConfigError::PrecisionDoesNotDivide { precision, period });
        }
        let precision_micros = micros_rounded_up(precision);
        let sub_counters = quota.period_micros() / precision_micros;
        let max = MAX_SUB_COUNTERS;
        if sub_counters > max {
            return Err(ConfigError::TooManySubCounters { sub_counters, max });
        }
        let policy = Self::policy("sliding-buckets", quota, precision_micros);
        Log::new(policy, quota, precision_micros, quota.period_micros()).map(Self)
    }

    /// Keeps one more sub-counter: then the quota holds in any span of a period.
    #[must_use]
    pub fn strict(self) -> Self {
        let (quota, precision) = (self.0.quota, self.0.slot_micros);
        let policy = Self::policy("strict-buckets", quota, precision).like(&self.0.policy);
        let rule = Log::new(policy, quota, precision, quota.period_micros() + precision);
        Self(rule.expect("the quota was accepted before"))
    }

    fn policy(algorithm: &str, quota: Quota, precision_micros: u64) -> Policy {
        Policy::of_window(algorithm, quota, &format!("-{}", Span(precision_micros)))
    }
}

impl Described for SlidingBuckets {
    const NAME: &'static str = "sliding-buckets";

    fn fields() -> Vec<Field> {
        vec![
            QUOTA,
            Field::new("precision", Kind::Span, "100ms"),
            Field::new("strict", Kind::Flag, "true").with_default("false"),
        ]
    }

    fn build(given: &Given) -> Result<Self, String> {
        let (quota, SpanText(precision)) = (given.needed("quota")?, given.needed("precision")?);
        let rule = Self::try_new(quota, precision).map_err(|error| match error {
            ConfigError::QuotaTooLarge { .. } => in_field("quota", &error),
            _ => in_field("precision", &error),
        })?;
        Ok(match given.get("strict")? {
            Some(true) => rule.strict(),
            _ => rule,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_is_whole_microseconds_that_cut_the_period_into_up_to_1024() {
        let sub_counters = |period_micros, precision_nanos| {
            let quota = Quota::new(5, Duration::from_micros(period_micros));
            SlidingBuckets::try_new(quota, Duration::from_nanos(precision_nanos))
        };
        for (period, precision) in [(6, 1_000), (6, 2_000), (6, 6_000), (2_048, 2_000)] {
            assert!(
                sub_counters(period, precision).is_ok(),
                "{period} µs, {precision} ns"
            );
        }
        for precision in [0, 999] {
            let error = sub_counters(6, precision).unwrap_err();
            assert!(
                matches!(error, ConfigError::PeriodTooShort { .. }),
                "{error:?}"
            );
        }
        for precision in [1_500, 4_000, 12_000] {
            let error = sub_counters(6, precision).unwrap_err();
            assert!(
                matches!(error, ConfigError::PrecisionDoesNotDivide { .. }),
                "{error:?}"
            );
        }
        let error = sub_counters(2_050, 2_000).unwrap_err();
        assert!(
            matches!(
                error,
                ConfigError::TooManySubCounters {
                    sub_counters: 1_025,
                    ..
                }
            ),
            "{error:?}"
        );
    }
}
