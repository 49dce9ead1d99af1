//! The gRPC protocol of a request, by its content type.

use http::{HeaderMap, HeaderValue, Method, Request, header};

/// The protocol of a gRPC request, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrpcProtocol {
    Grpc,
    Web,
    WebText,
}

impl GrpcProtocol {
    /// The protocol of a `POST` with one of gRPC's content types. No other method makes a gRPC
    /// call, and a cache may keep a 200 for a `GET` and serve it to everybody.
    pub(super) fn of_request<B>(request: &Request<B>) -> Option<Self> {
        (request.method() == Method::POST)
            .then(|| Self::of_content_type(request.headers()))
            .flatten()
    }

    /// The protocol of a content type.
    pub(super) fn of_content_type(headers: &HeaderMap) -> Option<Self> {
        let content_type = headers.get(header::CONTENT_TYPE)?.as_bytes();
        let subtype = strip_prefix(content_type, b"application/grpc")?;
        // `application/grpc`, with `+proto` or another encoding, or with parameters.
        let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
        if ends(subtype) {
            return Some(Self::Grpc);
        }
        let subtype = strip_prefix(subtype, b"-web")?;
        if ends(subtype) {
            return Some(Self::Web);
        }
        ends(strip_prefix(subtype, b"-text")?).then_some(Self::WebText)
    }

    /// The content type of an answer.
    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Grpc => "application/grpc",
            Self::Web => "application/grpc-web+proto",
            Self::WebText => "application/grpc-web-text+proto",
        })
    }
}

/// Media types are case-insensitive (RFC 9110, section 8.3.1).
pub(super) fn strip_prefix<'a>(value: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = value.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_of_a_post_is_known_by_its_content_type() {
        let protocol = |content_type| {
            let request = Request::post("/").header(header::CONTENT_TYPE, content_type);
            GrpcProtocol::of_request(&request.body(()).unwrap())
        };
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC;v=1",
        ] {
            assert_eq!(
                protocol(content_type),
                Some(GrpcProtocol::Grpc),
                "{content_type}"
            );
        }
        for content_type in [
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web; v=1",
        ] {
            assert_eq!(
                protocol(content_type),
                Some(GrpcProtocol::Web),
                "{content_type}"
            );
        }
        for content_type in [
            "application/grpc-web-text",
            "application/grpc-web-text+proto",
        ] {
            assert_eq!(
                protocol(content_type),
                Some(GrpcProtocol::WebText),
                "{content_type}"
            );
        }
        for content_type in [
            "",
            "application/json",
            "application/grpcx",
            "application/grpc-webs",
            "application/grpc-web-texts",
            "text/plain",
        ] {
            assert_eq!(protocol(content_type), None, "{content_type}");
        }
        assert_eq!(
            GrpcProtocol::of_request(&Request::post("/").body(()).unwrap()),
            None
        );
    }

    #[test]
    fn a_request_that_is_no_post_is_not_grpc_whatever_its_content_type() {
        for method in [
            Method::GET,
            Method::HEAD,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
            Method::CONNECT,
            Method::TRACE,
            Method::from_bytes(b"post").unwrap(),
        ] {
            for content_type in [
                "application/grpc",
                "application/grpc-web",
                "application/grpc-web-text",
            ] {
                let request = Request::builder().method(&method);
                let request = request.header(header::CONTENT_TYPE, content_type);
                assert_eq!(
                    GrpcProtocol::of_request(&request.body(()).unwrap()),
                    None,
                    "{method}"
                );
            }
        }
    }
}
