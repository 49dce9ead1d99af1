//! Sets a header of a response, if there is room for it.

use http::{HeaderMap, HeaderName, HeaderValue, header::CACHE_CONTROL};

/// Sets the field. A response that already has the most fields there can be (24 576) is left as it
/// is.
pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    let _ = headers.try_insert(name, value);
}

/// Sets the field, if there is none of this name and there is room.
pub(super) fn set_if_absent(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    if !headers.contains_key(&name) {
        set(headers, name, value);
    }
}

/// The header value of an ASCII text without line breaks: it always is one.
pub(super) fn ascii(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Forbids caches to keep the answer, unless it has a `Cache-Control` of its own.
pub(super) fn set_no_store(headers: &mut HeaderMap) {
    set_if_absent(headers, CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::tests::full;

    #[test]
    fn a_response_with_as_many_fields_as_there_can_be_is_left_as_it_is() {
        let mut headers = full();
        set(
            &mut headers,
            CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        );
        set_no_store(&mut headers);
        assert_eq!(headers, full());
    }

    #[test]
    fn what_is_there_is_replaced_or_kept_as_was_asked_for() {
        let mut headers = HeaderMap::new();
        set_no_store(&mut headers);
        assert_eq!(headers[CACHE_CONTROL], "no-store");
        set(
            &mut headers,
            CACHE_CONTROL,
            HeaderValue::from_static("private"),
        );
        set_no_store(&mut headers);
        assert_eq!(headers[CACHE_CONTROL], "private");
    }
}
