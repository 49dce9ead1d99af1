//! A key that a closure finds.

use std::fmt;

use super::{Key, KeyExtractor, Rejection};

/// Charges a request to the key that the closure returns; without a key the closure chooses the
/// answer.
///
/// `Ok(Some(key))` is the key, `Ok(None)` says that no limit applies, and an `Err`, which is a
/// [`Rejection`], is the answer: so do not wrap a key in `Err`, even if the compiler advises that.
/// A closure alone is not a key extractor: if it were, the compiler would say "expected a closure"
/// for every type that is not an extractor. If the closure panics, the panic reaches the caller of
/// the service, and nothing has been charged.
///
/// # Example: one bucket per user, in upper or lower case
///
/// ```
/// use http::{Request, StatusCode};
/// use tollgate::key::{KeyExtractor, from_fn};
///
/// let by_user = from_fn(|request: &Request<()>| {
///     let user = request.headers().get("x-user").ok_or(StatusCode::UNAUTHORIZED)?;
///     let user = user.to_str().map_err(|_| StatusCode::BAD_REQUEST)?;
///     Ok::<_, StatusCode>((user != "admin").then(|| user.to_lowercase()))
/// });
///
/// let from = |user: &str| Request::builder().header("x-user", user).body(()).unwrap();
/// assert_eq!(by_user.extract(&from("Bob")), Ok(Some("bob".to_owned())));
/// assert_eq!(by_user.extract(&from("admin")), Ok(None));
/// assert_eq!(by_user.extract(&Request::new(())), Err(StatusCode::UNAUTHORIZED));
/// ```
///
/// # Example: a closure that never fails says so
///
/// ```
/// use std::convert::Infallible;
/// use tollgate::key::{KeyExtractor, from_fn};
///
/// let by_parity = from_fn(|number: &u32| Ok::<_, Infallible>(Some(number % 2)));
/// assert_eq!(by_parity.extract(&7), Ok(Some(1)));
/// ```
pub fn from_fn<F, Req, K, R>(find: F) -> FromFn<F>
where
    F: Fn(&Req) -> Result<Option<K>, R>,
    // The compiler shows the next line if the type of the rejection is not known.
    R: Rejection, // always a key? `Ok::<_, std::convert::Infallible>(Some(key))`
{
    FromFn { find }
}

/// The extractor that [`from_fn`] makes of a closure.
#[derive(Clone, Copy)]
pub struct FromFn<F> {
    find: F,
}

impl<Req, F, K, R> KeyExtractor<Req> for FromFn<F>
where
    F: Fn(&Req) -> Result<Option<K>, R>,
    K: Key,
    R: Rejection,
{
    type Key = K;
    type Rejection = R;

    fn extract(&self, request: &Req) -> Result<Option<K>, R> {
        (self.find)(request)
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use http::{Request, StatusCode};

    use super::*;

    fn by_path<B>(request: &Request<B>) -> Result<Option<String>, StatusCode> {
        Ok(Some(request.uri().path().to_owned()))
    }

    #[test]
    fn a_function_over_any_body_serves_whichever_the_layer_has() {
        let by = from_fn(by_path::<u8>);
        let request = Request::builder().uri("/a").body(1_u8).unwrap();
        assert_eq!(by.extract(&request), Ok(Some("/a".to_owned())));
    }

    #[test]
    fn the_debug_form_needs_none_of_the_closure() {
        let by = from_fn(|_: &u32| Ok::<_, StatusCode>(Some(1_u8)));
        assert_eq!(format!("{by:?}"), "FromFn { .. }");
    }

    #[test]
    fn the_closure_s_own_rejection_is_the_answer() {
        let by = from_fn(|_: &u32| Err::<Option<u8>, _>((StatusCode::IM_A_TEAPOT, "short")));
        let response = by.extract(&1).unwrap_err().into_response();
        assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    }

    #[test]
    fn a_panic_in_the_closure_goes_on_and_the_extractor_stays_usable() {
        let by = from_fn(|number: &u32| {
            assert_ne!(*number, 13, "unlucky");
            Ok::<_, StatusCode>(Some(*number))
        });
        assert!(catch_unwind(AssertUnwindSafe(|| by.extract(&13))).is_err());
        assert_eq!(by.extract(&14), Ok(Some(14)));
    }
}
