//! The answer in gRPC's own form: a status in the header fields, and no body.

use http::{Request, Response};

use super::{
    BodyEnd, Refusal, Respond,
    body::{FromBytes, keep_until_end},
    field_writer::FieldWriter,
    fields::Fields,
    grpc_protocol::GrpcProtocol,
    grpc_renderer::GrpcRenderer,
    retry_after,
};
use crate::{decision::Decision, hold::Hold};

/// Answers a refused request with `RESOURCE_EXHAUSTED` (8), whether the request is gRPC or not: for
/// a service that speaks only gRPC.
///
/// [`Http`](super::Http) answers gRPC requests in the same way, and other requests in HTTP. The
/// answer has HTTP status 200, which no cache may keep (`Cache-Control: no-store`), with everything
/// in one block of header fields (*Trailers-Only*) and no message:
///
/// - `grpc-status: 8`, and not `UNAVAILABLE` (14), on which client libraries retry at once. 14 is
///   for a store that is unavailable, `INTERNAL` (13) for one that is misconfigured. A rejection of
///   the key extractor has the code that stands for its status: 14 for 503, 3 for 400.
/// - `grpc-status-details-bin`: a `google.rpc.Status` with `QuotaFailure`, which names each policy
///   that refuses and its limit, and with `RetryInfo`, the wait. There is no wait if the cost can
///   never fit, or if room comes only when a request [in flight](crate::algorithm::InFlight) ends.
/// - `grpc-retry-pushback-ms` (gRFC A6): the wait in milliseconds, rounded up, or `-1` (do not try
///   again) if the cost can never fit. It is left out if room comes only when a request in flight
///   ends.
/// - `Retry-After` and the rate-limit [fields](Self::fields). An admitted call has the fields in
///   its initial metadata.
///
/// A gRPC-Web request is answered with its own content type. Outside or inside of `tonic-web`, the
/// caller sees the same code. A CORS layer must expose `grpc-status`, `grpc-message` and
/// `grpc-status-details-bin`.
///
/// # Example: what a caller over its limit receives
///
/// ```
/// # use std::{convert::Infallible, time::Duration};
/// # use bytes::Bytes;
/// # use http::{Request, Response};
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Judgement, Policy, Status}};
/// use tollgate::response::{Grpc, Reason, Refusal, Respond};
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, judgement: Judgement::RefusedForMicros(1_500_000),
/// #     replenished_after_micros: 1_500_000,
/// #     reset_after_micros: 1_500_000, delay_micros: 0,
/// # }));
/// # let request = Request::new(());
/// let refusal = Refusal::new(Reason::Limited(&decision));
/// let refused: Result<Response<Bytes>, Infallible> = Grpc::new().answer(&request, refusal);
/// let response = refused.unwrap();
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["grpc-status"], "8");
/// assert_eq!(response.headers()["grpc-retry-pushback-ms"], "1500");
/// assert!(response.body().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Grpc {
    pub(super) fields: FieldWriter,
    pub(super) status: GrpcRenderer,
}

impl Grpc {
    /// The default: with the [fields](Fields::Draft11) of draft 11 in the metadata.
    pub const fn new() -> Self {
        Self {
            fields: FieldWriter::new(Fields::Draft11),
            status: GrpcRenderer { closure: None },
        }
    }

    /// Which rate-limit fields are sent, to admitted and refused callers alike.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = FieldWriter::new(fields);
        self
    }
}

impl<ReqB, ResB: FromBytes, E> Respond<Request<ReqB>, Response<ResB>, E> for Grpc {
    type Error = E;

    fn answer(&self, request: &Request<ReqB>, refusal: Refusal<'_>) -> Result<Response<ResB>, E> {
        let refusal = refusal.of_request(request);
        let protocol = GrpcProtocol::of_content_type(request.headers());
        let protocol = protocol.unwrap_or(GrpcProtocol::Grpc);
        Ok(self.status.answer(protocol, &refusal, &self.fields))
    }

    fn inner_error(error: E) -> E {
        error
    }

    /// Puts the hold into the request's extensions.
    fn hand_over(&self, request: &mut Request<ReqB>, hold: Hold) {
        request.extensions_mut().insert(hold);
    }

    fn keep_until_end(&self, response: &mut Response<ResB>, end: BodyEnd) {
        keep_until_end(response, end);
    }

    fn annotates(&self) -> bool {
        self.fields.dialect() != Fields::Off
    }

    fn annotate(&self, decision: &Decision, response: &mut Response<ResB>) {
        self.fields.add(decision, response.headers_mut());
        retry_after::lengthen(decision, response.headers_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;
    use crate::{
        error::{StoreError, StoreErrorKind},
        response::{
            Reason,
            tests::{admitted, hopeless, refused_for},
        },
    };

    fn request(content_type: &str) -> Request<()> {
        let request = Request::post("/pkg.Service/Call");
        request
            .header("content-type", content_type)
            .body(())
            .unwrap()
    }

    fn refused(content_type: &str, decision: Decision) -> Response<Bytes> {
        let Ok::<_, Infallible>(response) = Grpc::new().answer(
            &request(content_type),
            Refusal::new(Reason::Limited(&decision)),
        );
        response
    }

    #[test]
    fn a_refused_call_gets_resource_exhausted_in_the_header_fields_and_no_body() {
        let response = refused(
            "application/grpc",
            refused_for(Duration::from_micros(1_500_000)),
        );
        assert_eq!(response.status(), 200);
        assert!(response.body().is_empty());
        let mut fields: Vec<_> = response.headers().iter().collect();
        fields.sort_by_key(|(name, _)| name.as_str());
        // The details were encoded by another program, from the .proto files.
        let details = "CAgSE3JhdGUgbGltaXQgZXhjZWVkZWQaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5\
                       SW5mbxIKCggIARCAyrXuARpTCit0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUXVvdGFGYWlsdXJl\
                       EiQKIgoDYXBpEhR0aGUgbGltaXQgaXMgdXNlZCB1cCoDYXBpOCg";
        let expected = [
            ("cache-control", "no-store"),
            ("content-type", "application/grpc"),
            ("grpc-message", "rate limit exceeded"),
            ("grpc-retry-pushback-ms", "1500"),
            ("grpc-status", "8"),
            ("grpc-status-details-bin", details),
            ("ratelimit", r#""api";r=0;t=2"#),
            ("ratelimit-policy", r#""api";q=40;w=2"#),
            ("retry-after", "2"),
        ];
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), text(value)))
            .collect();
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(fields, expected);
    }

    #[test]
    fn a_call_that_can_never_fit_is_told_not_to_try_again_and_has_no_retry_info() {
        let response = refused("application/grpc", hopeless());
        assert_eq!(response.headers()["grpc-status"], "8");
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
        assert!(!response.headers().contains_key("retry-after"));
        let details = response.headers()["grpc-status-details-bin"].as_bytes();
        let details = STANDARD_NO_PAD.decode(details).unwrap();
        let holds = |text: &[u8]| details.windows(text.len()).any(|window| window == text);
        assert!(holds(b"google.rpc.QuotaFailure") && !holds(b"google.rpc.RetryInfo"));
        assert!(holds(b"the cost is more than the limit"));
    }

    #[test]
    fn a_grpc_web_call_is_answered_with_its_own_content_type() {
        for (asked, answered) in [
            ("application/grpc-web", "application/grpc-web+proto"),
            (
                "application/grpc-web-text",
                "application/grpc-web-text+proto",
            ),
            ("application/json", "application/grpc"),
        ] {
            let response = refused(asked, hopeless());
            assert_eq!(response.headers()["content-type"], answered);
            assert_eq!(response.headers()["grpc-status"], "8");
        }
    }

    #[test]
    fn a_failure_that_no_retry_fixes_is_internal_and_not_unavailable() {
        for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::InvalidInput] {
            let error = StoreError::new(kind, "redis://s3cret");
            let request = request("application/grpc");
            let Ok::<Response<Bytes>, Infallible>(response) =
                Grpc::new().answer(&request, Refusal::new(Reason::StoreFailed(error.kind())));
            assert_eq!(response.headers()["grpc-status"], "13");
            assert!(!format!("{response:?}").contains("s3cret"));
        }
    }

    #[test]
    fn a_store_that_cannot_decide_is_unavailable_without_numbers_or_reasons() {
        let error = StoreError::new(StoreErrorKind::Unavailable, "redis://s3cret");
        let request = request("application/grpc");
        let Ok::<Response<Bytes>, Infallible>(response) =
            Grpc::new().answer(&request, Refusal::new(Reason::StoreFailed(error.kind())));
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "14");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers().len(), 4, "{:?}", response.headers());
        assert!(!format!("{response:?}").contains("s3cret"));
    }

    #[test]
    fn the_decision_rides_along_and_fields_that_are_off_are_not_sent() {
        let request = request("application/grpc");
        let responder = Grpc::new().fields(Fields::Off);
        let Ok::<Response<Bytes>, Infallible>(response) =
            responder.answer(&request, Refusal::new(Reason::Limited(&hopeless())));
        assert_eq!(response.extensions().get(), Some(&hopeless()));
        assert!(!response.headers().contains_key("ratelimit"));
        assert!(!Respond::<Request<()>, Response<Bytes>, Infallible>::annotates(&responder));
    }

    #[test]
    fn an_admitted_call_has_the_fields_among_its_metadata() {
        let mut response = Response::new(Bytes::new());
        Respond::<Request<()>, _, Infallible>::annotate(&Grpc::new(), &admitted(), &mut response);
        assert_eq!(response.headers()["ratelimit"], r#""api";r=39;t=1"#);
    }

    #[cfg(feature = "tonic")]
    #[test]
    fn tonic_reads_the_status_and_its_details() {
        let response = refused("application/grpc", hopeless());
        let status = tonic::Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        let message = "the request costs more than can ever be let through at once";
        assert_eq!(status.message(), message);
        assert!(status.details().starts_with(b"\x08\x08\x12\x3Bthe request"));
    }
}
