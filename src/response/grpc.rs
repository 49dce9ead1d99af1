//! The answer in gRPC's own form: a status in the header fields, and no body.

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
#[cfg(feature = "tonic")]
use tonic::{Code, Status, metadata::MetadataMap};

use super::{
    BodyEnd, Reason, Refusal, Respond,
    body::{FromBytes, keep_until_end},
    field_writer::FieldWriter,
    fields::Fields,
    refusal::strip_prefix,
    retry_after,
    set_field::{ascii, set, set_if_absent},
};
use crate::{decision::Decision, hold::Hold};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const GRPC: &str = "application/grpc";

const RESOURCE_EXHAUSTED: u16 = 8;

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
#[derive(Clone, Default)]
pub struct Grpc {
    pub(super) fields: FieldWriter,
    render: Option<Arc<RenderStatus>>,
}

/// The status as header fields; `None`: the built-in status is sent.
type RenderStatus = dyn Fn(&Refusal<'_>) -> Option<HeaderMap> + Send + Sync;

impl Grpc {
    /// The default: with the [fields](Fields::Draft11) of draft 11 in the metadata.
    pub const fn new() -> Self {
        Self {
            fields: FieldWriter::new(Fields::Draft11),
            render: None,
        }
    }

    /// Which rate-limit fields are sent, to admitted and refused callers alike.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = FieldWriter::new(fields);
        self
    }

    /// The status, with the metadata of a refusal that it does not have.
    pub(super) fn response<B: FromBytes>(
        &self,
        content_type: &'static str,
        refusal: &Refusal<'_>,
    ) -> Response<B> {
        let rendered = self.render.as_ref().and_then(|render| render(refusal));
        let mut response = Response::new(B::from_bytes(Bytes::new()));
        *response.headers_mut() = rendered.unwrap_or_else(|| built_in(refusal));
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static(content_type);
        set(headers, header::CONTENT_TYPE, content_type);
        if let Some(millis) = refusal.decision().and_then(pushback_millis) {
            set_if_absent(headers, GRPC_PUSHBACK, HeaderValue::from(millis));
        }
        if let Reason::Rejected(rejection) = refusal.reason() {
            *response.extensions_mut() = rejection.extensions().clone();
        }
        self.fields.complete(refusal, &mut response);
        response
    }
}

impl<ReqB, ResB: FromBytes, E> Respond<Request<ReqB>, Response<ResB>, E> for Grpc {
    type Error = E;

    fn answer(&self, request: &Request<ReqB>, refusal: Refusal<'_>) -> Result<Response<ResB>, E> {
        let refusal = refusal.of_request(request);
        let content_type = content_type(request.headers()).unwrap_or(GRPC);
        Ok(self.response(content_type, &refusal))
    }

    fn inner_error(error: E) -> E {
        error
    }

    /// Puts the decision into the request's extensions.
    fn expose(&self, request: &mut Request<ReqB>, decision: Decision) {
        request.extensions_mut().insert(decision);
    }

    /// Puts the hold into the request's extensions, as one with that of an outer layer.
    fn hand_over(&self, request: &mut Request<ReqB>, hold: Hold) {
        let outer = request.extensions_mut().remove();
        request.extensions_mut().insert(hold.and(outer));
    }

    fn keep_until_end(&self, response: &mut Response<ResB>, end: BodyEnd) {
        keep_until_end(response, end);
    }

    fn annotates(&self) -> bool {
        self.fields.dialect != Fields::Off
    }

    fn annotate(&self, decision: &Decision, response: &mut Response<ResB>) {
        self.fields.add(decision, response.headers_mut());
        retry_after::lengthen(decision, response.headers_mut());
    }
}

/// The content type of the answer to a gRPC or gRPC-Web request: a `POST` with one of theirs. No
/// other method makes a gRPC call, and a cache may keep a 200 for a `GET` and serve it to
/// everybody.
pub(super) fn content_type_of_call<B>(request: &Request<B>) -> Option<&'static str> {
    match *request.method() {
        Method::POST => content_type(request.headers()),
        _ => None,
    }
}

/// The content type of the answer to a request with one of gRPC's content types.
fn content_type(request: &HeaderMap) -> Option<&'static str> {
    let asked = request.get(header::CONTENT_TYPE)?.as_bytes();
    let subtype = strip_prefix(asked, GRPC.as_bytes())?;
    // `application/grpc`, with `+proto` or another encoding, or with parameters.
    let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
    let answers = [
        ("", GRPC),
        ("-web", "application/grpc-web+proto"),
        ("-web-text", "application/grpc-web-text+proto"),
    ];
    let is_asked = |suffix: &str| strip_prefix(subtype, suffix.as_bytes()).is_some_and(ends);
    let (_, answer) = answers.into_iter().find(|(suffix, _)| is_asked(suffix))?;
    Some(answer)
}

/// The built-in status, with the gRPC code for its HTTP status.
fn built_in(refusal: &Refusal<'_>) -> HeaderMap {
    let message = refusal.message();
    let mut headers = HeaderMap::new();
    let code = HeaderValue::from(code_of(refusal.status()));
    set(&mut headers, GRPC_STATUS, code);
    set(&mut headers, GRPC_MESSAGE, percent_encoded(&message));
    if let Some(decision) = refusal.decision() {
        let details = STANDARD_NO_PAD.encode(refusal_details(decision, &message));
        set(&mut headers, GRPC_DETAILS, ascii(details));
    }
    headers
}

/// The bytes of `grpc-status-details-bin`: only policy names and numbers, and nothing that a caller
/// has sent.
fn refusal_details(decision: &Decision, message: &str) -> Vec<u8> {
    let policies = decision.policies().iter();
    let violations = policies
        .filter(|policy| !policy.is_admitted())
        .map(|policy| {
            let description = match () {
                () if policy.never_fits() => "the cost is more than the limit",
                () if policy.counts_in_flight() => "as many requests are in flight as may be",
                () => "the limit is used up",
            };
            (policy.policy(), description, policy.limit())
        });
    let retry_info = decision.retry_after().map(retry_info);
    let quota_failure = quota_failure(violations);
    let details: Vec<_> = retry_info.into_iter().chain([quota_failure]).collect();
    status_message(RESOURCE_EXHAUSTED, message, &details)
}

/// The wait in whole milliseconds, rounded up; negative means never (gRFC A6). `None` if the wait
/// is not known: callers then use their own backoff.
fn pushback_millis(decision: &Decision) -> Option<i32> {
    match decision.retry_after() {
        Some(wait) => Some(i32::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX)),
        None => decision.never_fits().then_some(-1),
    }
}

fn code_of(status: StatusCode) -> u16 {
    match status.as_u16() {
        400 => 3,  // INVALID_ARGUMENT
        401 => 16, // UNAUTHENTICATED
        403 => 7,  // PERMISSION_DENIED
        404 => 5,  // NOT_FOUND
        429 => RESOURCE_EXHAUSTED,
        503 => 14,       // UNAVAILABLE
        500..=599 => 13, // INTERNAL
        _ => 2,          // UNKNOWN
    }
}

/// A text in the encoding of `grpc-message`, where anything but printable ASCII becomes `%XX`.
fn percent_encoded(text: &str) -> HeaderValue {
    let mut message = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => message.push(char::from(byte)),
            _ => message.push_str(&format!("%{byte:02X}")),
        }
    }
    ascii(message)
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc")
            .field("fields", &self.fields)
            .field("has_closure", &self.render.is_some())
            .finish()
    }
}

// A refusal as tonic's status: written by the user's closure, and for handlers and streams that
// check limits themselves.

#[cfg(feature = "tonic")]
impl super::Http {
    /// Lets a closure write the status of a gRPC call that is refused, whatever the reason; see
    /// [`Grpc::render`].
    #[must_use]
    pub fn render_grpc(
        mut self,
        status_of: impl Fn(&Refusal<'_>) -> Status + Send + Sync + 'static,
    ) -> Self {
        self.grpc = self.grpc.render(status_of);
        self
    }
}

#[cfg(feature = "tonic")]
impl Grpc {
    /// Lets a closure write the status of a call that is refused, whatever the reason: it is over
    /// its limit, it has no key, or the store failed.
    ///
    /// If the call is over its limit, the rate-limit fields, `Retry-After` and
    /// `grpc-retry-pushback-ms` are added to the metadata, unless the closure has set them. A
    /// status of `OK` would end the call as if it had succeeded: the built-in status is sent
    /// instead.
    ///
    /// # Example: a message of your own
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use bytes::Bytes;
    /// use http::{Request, Response, StatusCode};
    /// use tollgate::response::{Grpc, Reason, Refusal, Respond};
    /// use tonic::{Code, Status};
    ///
    /// let respond = Grpc::new().render(|refusal| match refusal.status() {
    ///     StatusCode::UNAUTHORIZED => Status::unauthenticated("ask sales for a key"),
    ///     _ => Status::unavailable(refusal.message()),
    /// });
    ///
    /// let rejection = Response::builder().status(401).body(Bytes::new()).unwrap();
    /// let call = Request::post("/pkg.Service/Call").body(()).unwrap();
    /// let refusal = Refusal::new(Reason::Rejected(&rejection));
    /// let Ok::<Response<Bytes>, Infallible>(answer) = respond.answer(&call, refusal);
    /// let status = Status::from_header_map(answer.headers()).unwrap();
    /// assert_eq!(status.code(), Code::Unauthenticated);
    /// assert_eq!(status.message(), "ask sales for a key");
    /// ```
    #[must_use]
    pub fn render(
        mut self,
        status_of: impl Fn(&Refusal<'_>) -> Status + Send + Sync + 'static,
    ) -> Self {
        self.render = Some(Arc::new(move |refusal| {
            let status = status_of(refusal);
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).ok()?;
            // It would end the call as if it had succeeded.
            (status.code() != Code::Ok).then_some(headers)
        }));
        self
    }

    /// Ends a call or a stream with `RESOURCE_EXHAUSTED`, if the decision refuses: with the same
    /// message, details and metadata that the layer sends.
    ///
    /// So a stream can charge for each of its messages, and a handler for costs that the layer
    /// could not know. For a decision that admits, the status is `OK`, with the
    /// [fields](Self::fields) as its metadata. Check [`is_admitted`](Decision::is_admitted) first:
    /// an `Err` with `OK` ends a stream as if it were complete.
    ///
    /// # Example: a stream that is charged by the message
    ///
    /// ```
    /// use tollgate::{LocalRateLimiter, Quota, RateLimiter};
    /// use tollgate::{algorithm::TokenBucket, response::Grpc, store::LocalStore};
    /// use tonic::{Code, Status};
    ///
    /// struct Prices {
    ///     limit: LocalRateLimiter<TokenBucket, String>,
    ///     refusal: Grpc,
    /// }
    ///
    /// impl Prices {
    ///     fn next_message(&self, caller: &str) -> Result<u64, Status> {
    ///         let decision = self.limit.check(caller).now();
    ///         match decision.is_admitted() {
    ///             true => Ok(42),
    ///             false => Err(self.refusal.status(&decision)),
    ///         }
    ///     }
    /// }
    ///
    /// let bucket = TokenBucket::new(Quota::per_minute(2));
    /// let limit = RateLimiter::new(bucket, LocalStore::new());
    /// let prices = Prices { limit, refusal: Grpc::new() };
    /// assert_eq!(prices.next_message("bob").unwrap(), 42);
    /// assert_eq!(prices.next_message("bob").unwrap(), 42);
    /// let status = prices.next_message("bob").unwrap_err();
    /// assert_eq!(status.code(), Code::ResourceExhausted);
    /// assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
    /// ```
    pub fn status(&self, decision: &Decision) -> Status {
        let mut fields = HeaderMap::new();
        if decision.is_admitted() {
            self.fields.add(decision, &mut fields);
            return Status::with_metadata(Code::Ok, "", MetadataMap::from_headers(fields));
        }
        let refusal = Refusal::new(Reason::Limited(decision));
        let answer: Response<Bytes> = self.response(GRPC, &refusal);
        let mut fields = answer.into_parts().0.headers;
        // The server sets it.
        fields.remove(header::CONTENT_TYPE);
        Status::from_header_map(&fields)
            .unwrap_or_else(|| Status::resource_exhausted(refusal.message()))
    }
}

// `google.rpc.Status` with its details, in the protobuf wire format: the three messages that a
// refusal needs. The field numbers are from `google/rpc/status.proto` and
// `google/rpc/error_details.proto`.

/// The longest `google.protobuf.Duration`: some ten thousand years.
const MAX_DURATION: Duration = Duration::new(315_576_000_000, 999_999_999);

/// `google.rpc.Status { code = 1, message = 2, details = 3 }`
fn status_message(code: u16, text: &str, details: &[Vec<u8>]) -> Vec<u8> {
    let status = Message::default().integer(1, code.into());
    let status = status.bytes(2, text.as_bytes());
    let details = details.iter();
    details.fold(status, |all, detail| all.bytes(3, detail)).0
}

/// `google.rpc.RetryInfo { retry_delay = 1 }` in a `google.protobuf.Any`.
fn retry_info(delay: Duration) -> Vec<u8> {
    let delay = delay.min(MAX_DURATION);
    let duration = Message::default().integer(1, delay.as_secs());
    let duration = duration.integer(2, delay.subsec_nanos().into());
    any("RetryInfo", Message::default().bytes(1, &duration.0))
}

/// `google.rpc.QuotaFailure { violations = 1 }` in a `google.protobuf.Any`; of each violation the
/// policy, a description and the limit.
fn quota_failure<'a>(violations: impl Iterator<Item = (&'a str, &'a str, u64)>) -> Vec<u8> {
    let violations = violations.map(|(policy, description, limit)| {
        Message::default()
            .bytes(1, policy.as_bytes()) // subject
            .bytes(2, description.as_bytes())
            .bytes(5, policy.as_bytes()) // quota_id
            .integer(7, limit.min(i64::MAX.unsigned_abs())) // quota_value, an int64
    });
    let all = violations.fold(Message::default(), |all, one| all.bytes(1, &one.0));
    any("QuotaFailure", all)
}

/// `google.protobuf.Any { type_url = 1, value = 2 }` of a message of `google.rpc`.
fn any(name: &str, message: Message) -> Vec<u8> {
    let url = format!("type.googleapis.com/google.rpc.{name}");
    let any = Message::default().bytes(1, url.as_bytes());
    any.bytes(2, &message.0).0
}

/// A message that is written field by field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// A field of wire type 0; 0 is left out, as in proto3.
    fn integer(mut self, field: u8, value: u64) -> Self {
        if value != 0 {
            self.0.push(field << 3);
            self.varint(value);
        }
        self
    }

    /// A field of wire type 2: a string, bytes or a message.
    fn bytes(mut self, field: u8, value: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod protobuf_tests {
    use super::*;

    #[test]
    fn integers_are_written_seven_bits_at_a_time_from_the_low_end() {
        let written = |value| {
            let mut message = Message::default();
            message.varint(value);
            message.0
        };
        assert_eq!(written(0), [0]);
        assert_eq!(written(127), [0x7F]);
        assert_eq!(written(128), [0x80, 0x01]);
        assert_eq!(written(300), [0xAC, 0x02]);
        let largest = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(written(u64::MAX), largest);
    }

    #[test]
    fn retry_info_is_these_bytes() {
        let mut expected = b"\x0A\x28type.googleapis.com/google.rpc.RetryInfo".to_vec();
        // RetryInfo of 9 bytes; retry_delay of 7; 1 second; 500_000_000 ns = 0x1DCD6500.
        expected.extend([0x12, 0x0A, 0x0A, 0x08, 0x08, 0x01]);
        expected.extend([0x10, 0x80, 0xCA, 0xB5, 0xEE, 0x01]);
        assert_eq!(retry_info(Duration::from_millis(1_500)), expected);
    }

    #[test]
    fn a_delay_of_nothing_is_still_a_delay() {
        let mut expected = b"\x0A\x28type.googleapis.com/google.rpc.RetryInfo".to_vec();
        expected.extend([0x12, 0x02, 0x0A, 0x00]);
        assert_eq!(retry_info(Duration::ZERO), expected);
    }

    #[test]
    fn a_delay_beyond_what_protobuf_knows_is_the_longest_it_knows() {
        assert_eq!(retry_info(Duration::MAX), retry_info(MAX_DURATION));
    }

    #[test]
    fn a_quota_failure_is_these_bytes() {
        let violation = ("api", "no", 300);
        let mut expected = b"\x0A\x2Btype.googleapis.com/google.rpc.QuotaFailure".to_vec();
        // QuotaFailure of 19 bytes; one violation of 17.
        expected.extend([0x12, 0x13, 0x0A, 0x11]);
        expected.extend(b"\x0A\x03api\x12\x02no\x2A\x03api\x38\xAC\x02");
        assert_eq!(quota_failure([violation].into_iter()), expected);
    }

    #[test]
    fn a_status_holds_its_code_its_message_and_its_details() {
        let written = status_message(8, "slow", &[vec![1, 2], vec![3]]);
        assert_eq!(written, b"\x08\x08\x12\x04slow\x1A\x02\x01\x02\x1A\x01\x03");
    }
}

#[cfg(all(test, feature = "tonic"))]
mod status_tests {
    use std::convert::Infallible;

    use super::*;
    use crate::{
        algorithm::Judgement,
        error::{StoreError, StoreErrorKind},
        response::{
            Http,
            tests::{admitted, both, hopeless, refused_for},
        },
    };

    /// The headers without those that only an HTTP response has.
    fn without_the_head(mut headers: HeaderMap) -> HeaderMap {
        headers.remove("content-type");
        headers
    }

    #[test]
    fn a_status_is_what_a_caller_reads_from_a_refusal_of_the_layer() {
        let refused = Judgement::RefusedForMicros(9_000_000);
        for fields in Fields::ALL {
            let grpc = Grpc::new().fields(fields);
            for decision in [
                refused_for(Duration::from_micros(1_500_000)),
                hopeless(),
                both(Judgement::Admitted, refused),
            ] {
                let request = Request::post("/pkg.Service/Call").body(()).unwrap();
                let Ok::<Response<Bytes>, Infallible>(response) =
                    grpc.answer(&request, Refusal::new(Reason::Limited(&decision)));
                let read = Status::from_header_map(response.headers()).unwrap();
                let status = grpc.status(&decision);
                assert_eq!(status.code(), Code::ResourceExhausted);
                assert_eq!(status.message(), read.message());
                assert_eq!(status.details(), read.details());
                assert!(!status.details().is_empty());
                assert_eq!(
                    without_the_head(status.metadata().clone().into_headers()),
                    without_the_head(read.metadata().clone().into_headers())
                );
            }
        }
    }

    #[test]
    fn an_admitted_decision_is_ok_and_tells_what_remains() {
        let status = Grpc::new().status(&admitted());
        assert_eq!((status.code(), status.message()), (Code::Ok, ""));
        assert!(status.details().is_empty());
        let told = status.metadata().get("ratelimit").unwrap();
        assert_eq!(told, r#""api";r=39;t=1"#);
        let off = Grpc::new().fields(Fields::Off).status(&admitted());
        assert!(off.metadata().is_empty());
    }

    #[test]
    fn a_status_of_ones_own_has_what_the_layer_adds_and_keeps_what_it_has() {
        let own = |refusal: &Refusal<'_>| {
            let mut status = Status::aborted(format!("no: {}", refusal.message()));
            let pushback = "7".parse().unwrap();
            status
                .metadata_mut()
                .insert("grpc-retry-pushback-ms", pushback);
            status
        };
        let decision = refused_for(Duration::from_micros(1_500_000));
        let call = Request::post("/").header("content-type", "application/grpc");
        let call = call.body(()).unwrap();
        let answers: [Result<Response<Bytes>, Infallible>; 2] = [
            Grpc::new()
                .render(own)
                .answer(&call, Refusal::new(Reason::Limited(&decision))),
            Http::new()
                .render_grpc(own)
                .answer(&call, Refusal::new(Reason::Limited(&decision))),
        ];
        for answer in answers {
            let Ok(answer) = answer;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["grpc-status"], "10");
            assert_eq!(answer.headers()["grpc-retry-pushback-ms"], "7");
            assert_eq!(answer.headers()["retry-after"], "2");
            assert_eq!(answer.headers()["ratelimit"], r#""api";r=0;t=2"#);
            assert_eq!(answer.headers()["cache-control"], "no-store");
            assert_eq!(answer.headers()["content-type"], "application/grpc");
            assert_eq!(answer.extensions().get(), Some(&decision));
        }
        let status = Grpc::new().render(own).status(&decision);
        assert_eq!(status.code(), Code::Aborted);
        assert!(
            status
                .message()
                .starts_with("no: The rate limit is exceeded.")
        );
        assert!(status.metadata().contains_key("ratelimit"));
    }

    #[test]
    fn a_status_of_ones_own_that_says_ok_is_not_sent() {
        let grpc = Grpc::new().render(|_| Status::new(Code::Ok, "done"));
        let call = Request::post("/").body(()).unwrap();
        let Ok::<Response<Bytes>, Infallible>(answer) =
            grpc.answer(&call, Refusal::new(Reason::Limited(&hopeless())));
        assert_eq!(answer.headers()["grpc-status"], "8");
        assert_eq!(grpc.status(&hopeless()).code(), Code::ResourceExhausted);
    }

    #[test]
    fn the_debug_form_says_whether_there_is_a_closure() {
        let own = Http::new().render_grpc(|_| Status::aborted("no"));
        assert!(format!("{own:?}").contains("has_closure: true"));
        assert!(format!("{:?}", Http::new()).contains("has_closure: false"));
    }

    #[test]
    fn each_reason_reaches_the_closure() {
        let grpc = Grpc::new().render(|refusal| Status::aborted(refusal.message()));
        let call = Request::post("/").body(()).unwrap();
        let rejection = Response::builder().status(401).body(Bytes::new()).unwrap();
        let down = StoreError::new(StoreErrorKind::Unavailable, "redis://s3cret");
        let answers: [Result<Response<Bytes>, Infallible>; 2] = [
            grpc.answer(&call, Refusal::new(Reason::Rejected(&rejection))),
            grpc.answer(&call, Refusal::new(Reason::StoreFailed(down.kind()))),
        ];
        let messages = ["Unauthorized", "Rate limiting is temporarily unavailable."];
        for (answer, message) in answers.into_iter().zip(messages) {
            let Ok(answer) = answer;
            let status = Status::from_header_map(answer.headers()).unwrap();
            assert_eq!((status.code(), status.message()), (Code::Aborted, message));
            assert!(!answer.headers().contains_key("ratelimit"));
        }
    }
}
