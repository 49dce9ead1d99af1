//! The answers to refused and admitted callers.
//!
//! | responder | a refused request | for |
//! |---|---|---|
//! | [`Http`] | 429, or gRPC's own form if the request is gRPC or gRPC-Web | axum, hyper, tonic: the default |
//! | [`Grpc`] | `RESOURCE_EXHAUSTED` (8) in HTTP status 200 | services that speak only gRPC |
//! | [`AsError`] | an error that can be downcast | any other `Service` |
//!
//! Each says what it sends and by which standard. [`Fields`] has the dialects of the rate-limit
//! fields, [`Http::render`] is for a body of your own, and [`FromBytes`] for a body *type* of your
//! own.
//!
//! # Example: a handler that checks a limit itself
//!
//! ```
//! # use std::time::Duration;
//! # use tollgate::{PolicyDecision, algorithm::{Judgement, Policy, Status}};
//! use bytes::Bytes;
//! use http::Response;
//! use tollgate::{Decision, response::Http};
//!
//! fn answer(decision: &Decision) -> Response<Bytes> {
//!     if !decision.is_admitted() {
//!         return Http::new().response(decision);
//!     }
//!     let mut response = Response::new(Bytes::from_static(b"hello"));
//!     Http::new().add_fields(decision, response.headers_mut());
//!     response
//! }
//! # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
//! # let decision = |remaining, judgement| Decision::of_one(PolicyDecision::new(&policy, Status {
//! #     remaining, judgement,
//! #     replenished_after_micros: 1_500_000, reset_after_micros: 1_500_000, delay_micros: 0,
//! # }));
//! # let admitted = decision(4, Judgement::Admitted);
//! # let refused = decision(0, Judgement::RefusedForMicros(1_500_000));
//!
//! assert_eq!(answer(&admitted).headers()["RateLimit"], r#""trial";r=4;t=2"#);
//! assert_eq!(answer(&refused).status(), 429);
//! ```

mod as_error;
mod body;
pub(crate) mod body_end;
mod field_writer;
mod fields;
mod grpc;
mod head;
mod http;
mod problem_json;
mod refusal;
mod render;
mod retry_after;
mod set_field;

use crate::{decision::Decision, hold::Hold};

pub use self::{
    as_error::{AsError, BoxError, Refused},
    body::FromBytes,
    body_end::BodyEnd,
    fields::Fields,
    grpc::Grpc,
    http::Http,
    refusal::{Reason, Refusal},
};

/// Turns decisions into answers of the service's own type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot answer requests of type `{Req}` with `{Res}`",
    label = "no answer to `{Req}` with `{Res}`",
    note = "`Http`, the default, and `Grpc` answer an `http::Request` with an `http::Response`; for a service that speaks no HTTP use `.respond_with(tollgate::response::AsError::new())`",
    note = "or implement `tollgate::response::Respond<{Req}, {Res}, {Err}>`"
)]
pub trait Respond<Req, Res, Err> {
    /// The error of the limited service.
    type Error;

    /// The answer to a request that does not reach the inner service: it is refused, it has no key
    /// and must have one, or the store failed. `Ok` is a response, `Err` an error of the service.
    ///
    /// # Errors
    ///
    /// If this responder answers with errors.
    fn answer(&self, request: &Req, refusal: Refusal<'_>) -> Result<Res, Self::Error>;

    /// An error of the inner service, as one of the limited service.
    fn inner_error(error: Err) -> Self::Error;

    /// Puts the decision about an admitted request where handlers find it, if it is
    /// [exposed](crate::RateLimitLayer::expose_decision). By default nobody sees it.
    fn expose(&self, request: &mut Req, decision: Decision) {
        let _ = (request, decision);
    }

    /// Gives an admitted request its [`Hold`], which is settled when it is dropped. By default it
    /// is dropped here, and the whole cost is charged at once.
    fn hand_over(&self, request: &mut Req, hold: Hold) {
        let _ = (request, hold);
    }

    /// Keeps what a request holds until the body of its response has ended, if it is [in
    /// flight](crate::algorithm::InFlight) or [settled at the
    /// end](crate::RateLimitLayer::settle_at_end). By default it is dropped here: without a body,
    /// the request ends with the response, and is charged all that it holds.
    fn keep_until_end(&self, response: &mut Res, end: BodyEnd) {
        let _ = (response, end);
    }

    /// Whether [`annotate`](Self::annotate) adds anything. `false`: the `Decision` is not built.
    fn annotates(&self) -> bool {
        false
    }

    /// Adds to the response of an admitted request, for example the rate-limit fields.
    fn annotate(&self, decision: &Decision, response: &mut Res) {
        let _ = (decision, response);
    }
}

#[cfg(test)]
mod tests;
