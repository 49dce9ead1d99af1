//! A refusal as tonic's status: written by the user's closure, and for handlers and streams that
//! check limits themselves.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, header::CONTENT_TYPE};
use tonic::{Code, Status, metadata::MetadataMap};

use crate::decision::Decision;

use super::{GRPC, Grpc, RenderStatus};
use crate::response::{Http, Reason, Refusal};

impl Http {
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
        self.render = Some(closure(status_of));
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
        fields.remove(CONTENT_TYPE);
        Status::from_header_map(&fields)
            .unwrap_or_else(|| Status::resource_exhausted(refusal.message()))
    }
}

/// Sends the closure's status. `OK` counts as none: it would end the call as if it had succeeded.
fn closure(
    status_of: impl Fn(&Refusal<'_>) -> Status + Send + Sync + 'static,
) -> Arc<RenderStatus> {
    Arc::new(move |refusal| {
        let status = status_of(refusal);
        let mut headers = HeaderMap::new();
        status.add_header(&mut headers).ok()?;
        (status.code() != Code::Ok).then_some(headers)
    })
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use http::Request;

    use super::*;
    use crate::{
        algorithm::Judgement,
        error::{StoreError, StoreErrorKind},
        response::{
            Fields, Respond,
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
