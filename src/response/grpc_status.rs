//! A decision as tonic's status, for handlers and streams that check by themselves.

use http::HeaderMap;
use tonic::{Code, Status, metadata::MetadataMap};

use crate::decision::Decision;

use super::{
    Grpc,
    grpc_protocol::{add_refusal_fields, refusal_details, refusal_text},
    set_field::set_no_store,
};

impl Grpc {
    /// Ends a call or a stream with `RESOURCE_EXHAUSTED`, if the decision refuses: with the same
    /// message, details and metadata that the layer sends.
    ///
    /// So a stream can charge for each of its messages, and a handler for what it learns too late
    /// for the layer. A decision that admits is `OK`, with the [fields](Self::fields) as its
    /// metadata: look at [`is_admitted`](Decision::is_admitted) first, since an `Err` with `OK`
    /// ends a stream as if all had been sent.
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
        set_no_store(&mut fields);
        add_refusal_fields(decision, &self.fields, &mut fields);
        Status::with_details_and_metadata(
            Code::ResourceExhausted,
            refusal_text(decision),
            refusal_details(decision).into(),
            MetadataMap::from_headers(fields),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use bytes::Bytes;
    use http::{Request, Response};

    use super::*;
    use crate::{
        algorithm::Outcome,
        response::{
            Fields, Respond,
            sample::{admitted, both, hopeless, refused_for},
        },
    };

    /// What the header fields say that an HTTP response has, and a status has not.
    fn without_the_head(mut headers: HeaderMap) -> HeaderMap {
        headers.remove("content-type");
        headers
    }

    #[test]
    fn a_status_is_what_a_caller_reads_from_a_refusal_of_the_layer() {
        let refused = Outcome::RefusedForMicros(9_000_000);
        for fields in [Fields::Draft11, Fields::XRateLimit, Fields::Off] {
            let grpc = Grpc::new().fields(fields);
            for decision in [
                refused_for(Duration::from_micros(1_500_000)),
                hopeless(),
                both(Outcome::Admitted, refused),
            ] {
                let request = Request::post("/pkg.Service/Call").body(()).unwrap();
                let Ok::<Response<Bytes>, Infallible>(response) =
                    grpc.refuse(&request, decision.clone());
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
}
