//! `HEAD`: the answer to `GET`, without its body.

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};

use super::{body::FromBytes, set_field::set_if_absent};

/// For `HEAD`, the length of the body is sent instead of it (RFC 9110, section 9.3.2).
pub(super) fn for_method<B: FromBytes>(
    method: &Method,
    mut response: Response<Bytes>,
) -> Response<B> {
    if method != Method::HEAD {
        return response.map(B::from_bytes);
    }
    let may_have_length = !matches!(
        response.status(),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if may_have_length && !response.status().is_informational() {
        let length = HeaderValue::from(response.body().len());
        set_if_absent(response.headers_mut(), header::CONTENT_LENGTH, length);
    }
    response.map(|_| B::from_bytes(Bytes::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method, status: u16) -> Response<Bytes> {
        let response = Response::builder()
            .status(status)
            .body(Bytes::from_static(b"no"));
        for_method(&method, response.unwrap())
    }

    #[test]
    fn only_head_loses_the_body_and_gets_its_length() {
        let head = answer(Method::HEAD, 429);
        assert_eq!(
            (head.body().len(), &head.headers()["content-length"]),
            (0, &HeaderValue::from(2))
        );
        for method in [Method::GET, Method::POST, Method::OPTIONS, Method::CONNECT] {
            let response = answer(method, 429);
            assert_eq!(
                (&**response.body(), response.headers().len()),
                (&b"no"[..], 0)
            );
        }
    }

    #[test]
    fn a_status_that_has_no_body_gets_no_length() {
        for status in [101, 204, 304] {
            assert!(answer(Method::HEAD, status).headers().is_empty());
        }
    }
}
