//! `Retry-After` (RFC 9110, section 10.2.3): whole seconds, rounded up.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header::RETRY_AFTER};

use super::set_field;
use crate::decision::Decision;

/// Sets the wait of a refusal, unless the response has a longer one: the field has a single value.
pub(super) fn set(decision: &Decision, headers: &mut HeaderMap) {
    if let Some(wait) = decision.retry_after() {
        let seconds = whole_seconds(wait).max(1);
        let announced = headers.get(RETRY_AFTER);
        if announced.is_none_or(|announced| is_sooner(announced, seconds)) {
            set_field::set(headers, RETRY_AFTER, HeaderValue::from(seconds));
        }
    }
}

/// Lengthens the wait that an inner layer announced, if this layer would refuse a caller who waited
/// only for that, whatever the cost.
pub(super) fn lengthen(decision: &Decision, headers: &mut HeaderMap) {
    let policies = decision.policies().iter();
    let exhausted = policies.filter(|policy| policy.remaining() == 0);
    let longest = exhausted.map(|policy| whole_seconds(policy.replenished_after()));
    let Some(seconds) = longest.max() else {
        return;
    };
    let announced = headers.get(RETRY_AFTER);
    if announced.is_some_and(|announced| is_sooner(announced, seconds)) {
        set_field::set(headers, RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// Whole seconds, rounded up.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Whether the announced wait is a smaller number of seconds; a date is kept.
fn is_sooner(announced: &HeaderValue, seconds: u64) -> bool {
    let announced = announced.to_str().map(str::parse::<u64>);
    matches!(announced, Ok(Ok(announced)) if announced < seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algorithm::Judgement,
        response::tests::{admitted, both, hopeless, refused_for},
    };

    fn announced(decision: &Decision) -> Option<HeaderValue> {
        let mut headers = HeaderMap::new();
        set(decision, &mut headers);
        headers.remove(RETRY_AFTER)
    }

    #[test]
    fn retry_after_is_rounded_up_and_never_zero() {
        for (wait, seconds) in [
            (Duration::ZERO, "1"),
            (Duration::from_micros(1), "1"),
            (Duration::from_millis(999), "1"),
            (Duration::from_secs(1), "1"),
            (Duration::from_micros(1_000_100), "2"),
            (Duration::from_secs(60), "60"),
        ] {
            assert_eq!(announced(&refused_for(wait)).unwrap(), seconds, "{wait:?}");
        }
    }

    #[test]
    fn retry_after_is_never_capped() {
        let century = Duration::from_secs(100 * 365 * 86_400);
        let decision = both(
            Judgement::RefusedForMicros(u64::MAX),
            Judgement::RefusedForMicros(u64::try_from(century.as_micros()).unwrap()),
        );
        assert_eq!(announced(&decision).unwrap(), "18446744073710");
    }

    #[test]
    fn what_can_never_fit_and_what_is_admitted_have_no_retry_after() {
        assert_eq!(announced(&hopeless()), None);
        assert_eq!(announced(&admitted()), None);
        let decision = both(Judgement::RefusedForMicros(1), Judgement::NeverFits);
        assert_eq!(announced(&decision), None);
    }

    #[test]
    fn of_two_violated_policies_the_longer_wait_is_sent() {
        let [short, long] = [3_000_000, 7_000_001].map(Judgement::RefusedForMicros);
        assert_eq!(announced(&both(short, long)).unwrap(), "8");
        assert_eq!(announced(&both(long, short)).unwrap(), "8");
    }

    #[test]
    fn a_longer_wait_or_a_date_that_is_there_is_kept() {
        let date = "Fri, 31 Dec 1999 23:59:59 GMT";
        for (there, then) in [("1", "5"), ("5", "5"), ("9", "9"), (date, date)] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(there));
            set(&refused_for(Duration::from_secs(5)), &mut headers);
            assert_eq!(headers.get_all(RETRY_AFTER).iter().count(), 1);
            assert_eq!(headers[RETRY_AFTER], then);
        }
    }

    #[test]
    fn an_inner_wait_is_lengthened_only_where_this_layer_would_refuse_again() {
        let lengthened = |decision: &Decision, announced: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(announced));
            lengthen(decision, &mut headers);
            headers[RETRY_AFTER].to_str().unwrap().to_owned()
        };
        let used_up = refused_for(Duration::from_millis(4_500));
        assert_eq!(lengthened(&used_up, "3"), "5");
        assert_eq!(lengthened(&used_up, "6"), "6");
        assert_eq!(lengthened(&admitted(), "3"), "3");
        let mut none = HeaderMap::new();
        lengthen(&used_up, &mut none);
        assert!(none.is_empty());
    }
}
