//! Several extractors together: one bucket per combination.

use bytes::Bytes;
use http::Response;

use super::{KeyExtractor, Rejection};

/// The answer of the first member of a tuple that rejected the request.
///
/// # Example: the member that rejected
///
/// ```
/// use http::Request;
/// use tollgate::key::{Header, KeyExtractor, PeerIp, Rejection};
///
/// let by_key_and_peer = (Header::new("x-api-key"), PeerIp::new());
/// let rejection = by_key_and_peer.extract(&Request::new(())).unwrap_err();
/// assert_eq!(rejection.into_response().status(), 400);
/// ```
#[derive(Debug)]
pub struct TupleRejection(Box<Response<Bytes>>);

impl TupleRejection {
    pub(crate) fn of(rejection: impl Rejection) -> Self {
        Self(Box::new(rejection.into_response()))
    }
}

impl Rejection for TupleRejection {
    fn into_response(self) -> Response<Bytes> {
        *self.0
    }
}

macro_rules! tuple {
    ($count:literal: $($Member:ident $Key:ident $place:tt),+) => {
        /// One bucket per combination of the members' keys.
        ///
        /// The members are asked in order. The first one without a key decides: if it says that no
        /// limit applies, none does; if it rejects the request, that is the answer.
        impl<Req, $($Member: KeyExtractor<Req>),+> KeyExtractor<Req> for ($($Member,)+) {
            type Key = ($($Member::Key,)+);
            type Rejection = TupleRejection;

            fn extract(&self, request: &Req) -> Result<Option<Self::Key>, TupleRejection> {
                Ok(Some(($(
                    match self.$place.extract(request).map_err(TupleRejection::of)? {
                        Some(key) => key,
                        None => return Ok(None),
                    },
                )+)))
            }
        }
    };
}

two_to_six!(tuple);

#[cfg(test)]
mod tests {
    use http::{Request, StatusCode};

    use super::*;
    use crate::key::{Global, Header, HeaderKey, from_fn};

    fn status<K>(extracted: Result<K, TupleRejection>) -> Option<StatusCode> {
        let rejection = extracted.err()?;
        Some(rejection.into_response().status())
    }

    #[test]
    fn where_one_part_ends_and_the_next_begins_makes_a_difference() {
        let by = (Header::new("a"), Header::new("b"));
        let key = |a: &str, b: &str| {
            let request = Request::builder().header("a", a).header("b", b);
            by.extract(&request.body(()).unwrap()).unwrap().unwrap()
        };
        assert_eq!(key("a:b", "c"), key("a:b", "c"));
        assert_ne!(key("a:b", "c"), key("a", "b:c"));
        assert_ne!(key("ab", ""), key("", "ab"));
    }

    #[test]
    fn the_first_member_without_a_key_decides() {
        let skip = from_fn(|_: &u32| Ok::<Option<u8>, StatusCode>(None));
        let teapot = from_fn(|_: &u32| Err::<Option<u8>, _>(StatusCode::IM_A_TEAPOT));
        let gone = from_fn(|_: &u32| Err::<Option<u8>, _>((StatusCode::GONE, "gone")));

        assert_eq!(status((Global, skip).extract(&1)), None);
        assert!(matches!((Global, skip, teapot).extract(&1), Ok(None)));
        assert_eq!(
            status((teapot, skip).extract(&1)),
            Some(StatusCode::IM_A_TEAPOT)
        );
        assert_eq!(
            status((Global, gone, teapot).extract(&1)),
            Some(StatusCode::GONE)
        );
    }

    #[test]
    fn six_members_make_one_key_and_tuples_nest() {
        let request = Request::builder().header("a", "x").body(()).unwrap();
        let a = || Header::new("a");
        let key = (a(), Global, Global, (Global, a()), Global, a()).extract(&request);
        let x = HeaderKey::from("x");
        assert_eq!(key.unwrap(), Some((x, (), (), ((), x), (), x)));
    }
}
