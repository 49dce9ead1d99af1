//! `Retry-After` (RFC 9110, section 10.2.3): whole seconds, never too few.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header::RETRY_AFTER};

use crate::decision::Decision;

/// Sets the wait of a refusal. If a longer one is there already, that is kept: the field has one value only.
pub(super) fn set(decision: &Decision, headers: &mut HeaderMap) {
    if let Some(wait) = decision.retry_after() {
        let seconds = whole_seconds(wait).max(1);
        if headers
            .get(RETRY_AFTER)
            .is_none_or(|told| is_sooner(told, seconds))
        {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
    }
}

/// Lengthens the wait that an inner layer announced, where whoever kept it would be refused by this one.
pub(super) fn lengthen(decision: &Decision, headers: &mut HeaderMap) {
    if decision.remaining() > 0 {
        return;
    }
    let Some(told) = headers.get(RETRY_AFTER) else {
        return;
    };
    let policies = decision.policies().iter();
    let exhausted = policies.filter(|policy| policy.remaining() == 0);
    let longest = exhausted.map(|policy| whole_seconds(policy.replenished_after()));
    let seconds = longest.max().unwrap_or(0);
    if is_sooner(told, seconds) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// Whole seconds, rounded up.
#[inline]
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Whether a number of seconds is told that is smaller; a date is left alone.
fn is_sooner(told: &HeaderValue, seconds: u64) -> bool {
    let told = told.to_str().ok().and_then(|told| told.parse::<u64>().ok());
    told.is_some_and(|told| told < seconds)
}
