//! The details of a refusal are written by hand; here by Google's messages as well.

use std::{convert::Infallible, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{Request, Response};
use tollgate::{
    Decision, PolicyDecision,
    algorithm::{Outcome, Policy, Standing},
    response::{Grpc, Respond},
};
use tollgate_wire::Rng;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, QuotaViolation, StatusExt};

/// The bytes of `grpc-status-details-bin`.
fn ours(decision: Decision) -> Vec<u8> {
    let Ok::<Response<Bytes>, Infallible>(response) =
        Grpc::new().refuse(&Request::new(()), decision);
    let details = &response.headers()["grpc-status-details-bin"];
    STANDARD_NO_PAD.decode(details).unwrap()
}

/// What `tonic-types` writes for the same refusal.
fn theirs(decision: &Decision) -> Status {
    let violations: Vec<_> = (decision.policies().iter())
        .filter(|policy| !policy.is_admitted())
        .map(|policy| {
            let description = match policy.never_fits() {
                true => "the cost is more than the limit",
                false => "the limit is used up",
            };
            let mut violation = QuotaViolation::new(policy.policy(), description);
            violation.quota_id = policy.policy().to_owned();
            violation.quota_value = i64::try_from(policy.limit()).unwrap_or(i64::MAX);
            violation
        })
        .collect();
    let mut details = ErrorDetails::new();
    let text = match decision.retry_after() {
        Some(wait) => {
            details.set_retry_info(Some(wait));
            "rate limit exceeded"
        }
        None => "the request costs more than can ever be let through at once",
    };
    details.set_quota_failure(violations);
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

fn refused_policy(rng: &mut Rng, name: &str) -> PolicyDecision {
    let policy = Policy::new("any", &[rng.edgy()], Duration::from_secs(1));
    let policy = policy.named(name).unwrap();
    let standing = Standing {
        remaining: 0,
        outcome: match rng.below(5) {
            0 => Outcome::NeverFits,
            _ => Outcome::RefusedForMicros(rng.edgy()),
        },
        replenished_after_micros: 0,
        reset_after_micros: 0,
        delay_micros: 0,
    };
    PolicyDecision::new(&policy, standing)
}

#[test]
fn the_details_of_any_refusal_are_the_bytes_that_google_s_messages_are_written_as() {
    let mut rng = Rng::new(71);
    let names = ["a", "daily", "per_key.v2", &"n".repeat(64)];
    for members in (1..=6).cycle().take(3_000) {
        let policies = (0..members).map(|_| {
            let name = names[rng.below(4) as usize];
            refused_policy(&mut rng, name)
        });
        let decision = Decision::of_all(policies.collect());
        let theirs = theirs(&decision);
        assert_eq!(ours(decision), theirs.details());
    }
}

/// The longest `google.protobuf.Duration`: some ten thousand years.
const LONGEST: Duration = Duration::new(315_576_000_000, 999_999_999);

#[test]
fn a_wait_of_any_length_is_read_as_it_was_meant() {
    for micros in [0, 1, 999_999, 1_000_000, 1_500_000, u64::MAX] {
        let policy = Policy::new("any", &[1], Duration::from_secs(1));
        let standing = Standing {
            remaining: 0,
            outcome: Outcome::RefusedForMicros(micros),
            replenished_after_micros: micros,
            reset_after_micros: micros,
            delay_micros: 0,
        };
        let decision = Decision::of_one(PolicyDecision::new(&policy, standing));
        let details = Bytes::from(ours(decision));
        let status = Status::with_details(Code::ResourceExhausted, "", details);
        let retry = status.check_error_details().unwrap().retry_info().cloned();
        let delay = retry.unwrap().retry_delay;
        assert_eq!(delay, Some(Duration::from_micros(micros).min(LONGEST)));
    }
}
