//! Decisions for the tests of the answers, and what must hold of all of them.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{AsError, Fields, Grpc, Http, Refusal, Refused};
use crate::{
    algorithm::{Judgement, Policy, Status},
    decision::{Decision, PolicyDecision},
};

/// The decision of one policy: its name, limit and window; what is left; when there is more; and
/// its judgement.
pub(super) fn policy(
    (name, limit, window): (&str, u64, Duration),
    remaining: u64,
    replenished_after: Duration,
    judgement: Judgement,
) -> PolicyDecision {
    let policy = Policy::new("sample", &[limit], window).named(name);
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap();
    let status = Status {
        remaining,
        judgement,
        replenished_after_micros: micros(replenished_after),
        reset_after_micros: micros(replenished_after) * (limit.min(1_000) - remaining.min(1_000)),
        delay_micros: 0,
    };
    PolicyDecision::new(&policy.unwrap(), status)
}

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const API: (&str, u64, Duration) = ("api", 40, Duration::from_secs(2));
pub(super) const DAILY: (&str, u64, Duration) = ("daily", 1_000, Duration::from_secs(86_400));

/// An admitting decision with this limit and window, and this much left for this long.
pub(super) fn admitted_with(
    limit: u64,
    window: Duration,
    left: u64,
    more_after: Duration,
) -> Decision {
    Decision::of_one(policy(
        ("p", limit, window),
        left,
        more_after,
        Judgement::Admitted,
    ))
}

/// A token bucket of 20 a second with burst 40, after the first request.
pub(super) fn admitted() -> Decision {
    let each = Duration::from_millis(50);
    Decision::of_one(policy(API, 39, each, Judgement::Admitted))
}

/// A refusal by the same bucket, with nothing left for this long.
pub(super) fn refused_for(wait: Duration) -> Decision {
    let micros = u64::try_from(wait.as_micros()).unwrap();
    Decision::of_one(policy(API, 0, wait, Judgement::RefusedForMicros(micros)))
}

/// A refusal by the same bucket of a cost that never fits.
pub(super) fn hopeless() -> Decision {
    Decision::of_one(policy(API, 39, SECOND, Judgement::NeverFits))
}

/// The decision of a tuple with these judgements, in order.
pub(super) fn both(api: Judgement, daily: Judgement) -> Decision {
    let left = |judgement| 7 * u64::from(judgement == Judgement::Admitted);
    Decision::of_all(vec![
        policy(API, left(api), SECOND / 2, api),
        policy(DAILY, left(daily), SECOND * 87, daily),
    ])
}

/// As many fields as a response can have.
pub(super) fn full() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for number in 0.. {
        let name = HeaderName::try_from(format!("x-{number}")).unwrap();
        let value = HeaderValue::from_static("there");
        if headers.try_insert(name, value).is_err() {
            break;
        }
    }
    assert_eq!(headers.len(), 24_576);
    headers
}

#[test]
fn what_is_public_can_be_shared_between_threads() {
    fn cloned<T: Clone + Send + Sync + 'static>() {}
    cloned::<Http>();
    cloned::<Grpc>();
    cloned::<AsError>();
    cloned::<Fields>();
    cloned::<Refusal<'static>>();
    cloned::<Refused>();
}
