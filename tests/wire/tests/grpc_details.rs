//! The details of a gRPC status, which are written by hand: another's encoder writes the same
//! bytes.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use tollgate::{
    Decision, PolicyDecision, RateLimiter,
    algorithm::{self, InFlight, Judgement, Policy},
    response::{Grpc, Reason, Refusal, Respond},
    store::LocalStore,
};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, QuotaViolation, StatusExt};

/// The status that tonic reads from what is sent about a decision.
fn read(decision: Decision) -> Status {
    let request = Request::new(());
    let answer: Result<Response<Bytes>, Infallible> =
        Grpc::new().answer(&request, Refusal::new(Reason::Limited(&decision)));
    Status::from_header_map(answer.unwrap().headers()).unwrap()
}

#[test]
fn the_details_are_byte_for_byte_what_tonic_types_writes() {
    let micros = [1, 999_999, 1_000_000, 1_500_000, 86_400_000_000, u64::MAX];
    let judgements = micros.map(Judgement::RefusedForMicros);
    for limit in [0, 1, 127, 128, (1 << 32) - 1, (1 << 63) - 1, u64::MAX] {
        for judgement in judgements.into_iter().chain([Judgement::NeverFits]) {
            let of = |name: &str, judgement| {
                let policy = Policy::new("policy", &[limit], Duration::from_secs(60));
                let standing = algorithm::Status {
                    remaining: 0,
                    judgement,
                    replenished_after_micros: 1,
                    reset_after_micros: 1,
                    delay_micros: 0,
                };
                PolicyDecision::new(&policy.named(name).unwrap(), standing)
            };
            let second = Judgement::RefusedForMicros(5);
            let decision = Decision::of_all(vec![
                of("first", judgement),
                of("admits", Judgement::Admitted),
                of("second", second),
            ]);
            let status = read(decision.clone());

            let policies = decision.policies().iter();
            let violations = policies.filter(|policy| !policy.is_admitted());
            let violations: Vec<_> = violations
                .map(|policy| QuotaViolation {
                    subject: policy.policy().to_owned(),
                    description: match policy.never_fits() {
                        true => "the cost is more than the limit".to_owned(),
                        false => "the limit is used up".to_owned(),
                    },
                    quota_id: policy.policy().to_owned(),
                    quota_value: i64::try_from(limit).unwrap_or(i64::MAX),
                    ..QuotaViolation::default()
                })
                .collect();
            let mut details = ErrorDetails::with_quota_failure(violations);
            if let Some(wait) = decision.retry_after() {
                details.set_retry_info(Some(wait));
            }
            let code = Code::ResourceExhausted;
            let theirs = Status::with_error_details(code, status.message(), details);
            assert_eq!(status.details(), theirs.details());
            assert_eq!(status.code(), code);
        }
    }
}

#[test]
fn a_refusal_of_what_is_in_flight_says_so_and_a_handler_sees_an_exposed_decision() {
    let limiter = RateLimiter::new(InFlight::new(1), LocalStore::new());
    let running = limiter.hold(&"ann", 1).now().unwrap();
    let refused = *limiter.hold(&"ann", 1).now().unwrap_err();
    let quota = read(refused.clone()).get_details_quota_failure();
    let says = &quota.unwrap().violations[0].description;
    assert_eq!(says, "as many requests are in flight as may be");
    drop(running);

    let mut request = Request::new(());
    Respond::<_, Response<Bytes>, Infallible>::expose(&Grpc::new(), &mut request, refused.clone());
    assert_eq!(request.extensions().get(), Some(&refused));
}
