//! A value that an outer layer has put into the request's extensions: a user, a plan.

use std::{any::type_name, fmt, marker::PhantomData, sync::Once};

use http::{Request, StatusCode};

use super::{Key, KeyExtractor, MissingKey};

/// Charges a request to a value that an outer layer has put into its extensions; answers 500 if the
/// value is missing.
///
/// Use it to limit by the user that an authentication layer has found: that name is verified, so
/// nobody can make one up. That layer must run before this one. If it did not, the request is
/// answered with 500, and the missing type is logged once as an error. If some requests have no
/// value on purpose, use [`or_skip`](Self::or_skip), or give them a shared bucket with
/// [`from_fn`](super::from_fn()).
///
/// With [`new`](Self::new) the whole `T` is the key, with [`by`](Self::by) the value that a closure
/// returns for it.
///
/// # Example: one bucket per user
///
/// ```
/// use http::Request;
/// use tollgate::key::{FromExtension, KeyExtractor};
///
/// #[derive(Clone, PartialEq, Eq, Hash, Debug)]
/// struct UserId(u64);
///
/// let request = Request::builder().extension(UserId(7)).body(()).unwrap();
/// let by_user = FromExtension::<UserId>::new();
/// assert_eq!(by_user.extract(&request), Ok(Some(UserId(7))));
/// assert_eq!(by_user.extract(&Request::new(())).unwrap_err().status(), 500);
/// ```
#[derive(Clone)]
pub struct FromExtension<T, F = fn(&T) -> T> {
    find: F,
    skip: bool,
    extension: PhantomData<fn(&T)>,
}

impl<T: Key> FromExtension<T> {
    /// Charges a request to the `T` in its extensions.
    pub fn new() -> Self {
        Self::by(T::clone)
    }
}

impl<T: Key> Default for FromExtension<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, F> FromExtension<T, F> {
    /// Charges a request to the key that the closure returns for the `T` in its extensions.
    ///
    /// # Example: everybody in one organisation shares a bucket
    ///
    /// ```
    /// use http::Request;
    /// use tollgate::key::{FromExtension, KeyExtractor};
    ///
    /// #[derive(Clone)]
    /// struct Session {
    ///     user: String,
    ///     organisation: u32,
    /// }
    ///
    /// let by_organisation = FromExtension::by(|session: &Session| session.organisation);
    /// let session = Session { user: "ann".to_owned(), organisation: 12 };
    /// let request = Request::builder().extension(session).body(()).unwrap();
    /// assert_eq!(by_organisation.extract(&request), Ok(Some(12)));
    /// ```
    pub fn by<K>(find: F) -> Self
    where
        F: Fn(&T) -> K,
    {
        Self {
            find,
            skip: false,
            extension: PhantomData,
        }
    }

    /// Lets a request without a `T` in its extensions pass: no limit applies to it.
    ///
    /// A layer in the wrong order then limits nobody, so write a test in which somebody is refused.
    ///
    /// # Example: only those who are signed in are limited
    ///
    /// ```
    /// use http::Request;
    /// use tollgate::key::{FromExtension, KeyExtractor};
    ///
    /// let by_user = FromExtension::<u64>::new().or_skip();
    /// assert_eq!(by_user.extract(&Request::new(())), Ok(None));
    /// ```
    #[must_use]
    pub fn or_skip(mut self) -> Self {
        self.skip = true;
        self
    }
}

impl<T: Send + Sync + 'static, F: Fn(&T) -> K, K: Key, B> KeyExtractor<Request<B>>
    for FromExtension<T, F>
{
    type Key = K;
    type Rejection = MissingKey;

    fn extract(&self, request: &Request<B>) -> Result<Option<K>, MissingKey> {
        match request.extensions().get() {
            Some(extension) => Ok(Some((self.find)(extension))),
            None if self.skip => Ok(None),
            None => Err(missing(type_name::<T>())),
        }
    }
}

impl<T, F> fmt::Debug for FromExtension<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromExtension")
            .field("extension", &type_name::<T>())
            .field("skip", &self.skip)
            .finish_non_exhaustive()
    }
}

pub(crate) fn missing(extension: &'static str) -> MissingKey {
    static LOGGED: Once = Once::new();

    LOGGED.call_once(|| {
        tracing::error!(
            target: "tollgate::from_extension",
            extension,
            "requests carry no such extension and are answered with 500: the layer that inserts it must be \
             outside of the rate limit, so that it runs before"
        );
    });
    MissingKey::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "who sent the request is not known",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_of_another_type_is_no_key() {
        let request = Request::builder().extension(7_u32).body(()).unwrap();
        let by = FromExtension::<u64>::new();
        assert_eq!(by.extract(&request).unwrap_err().status(), 500);
    }

    #[test]
    fn skipping_concerns_only_requests_without_the_extension() {
        let request = Request::builder().extension(7_u32).body(()).unwrap();
        let by = FromExtension::<u32>::new().or_skip();
        assert_eq!(by.extract(&request), Ok(Some(7)));
        assert_eq!(by.extract(&Request::new(())), Ok(None));
    }

    #[test]
    fn the_debug_form_names_the_extension_and_whether_requests_without_it_pass() {
        let by = FromExtension::by(|plan: &u64| plan + 1).or_skip();
        let expected = r#"FromExtension { extension: "u64", skip: true, .. }"#;
        assert_eq!(format!("{by:?}"), expected);
    }

    #[test]
    fn an_extension_that_is_no_key_itself_can_still_give_one() {
        #[derive(Clone)]
        struct Plan {
            share: f64,
        }

        let by = FromExtension::by(|plan: &Plan| plan.share > 0.5);
        let request = Request::builder()
            .extension(Plan { share: 0.7 })
            .body("any body")
            .unwrap();
        assert_eq!(by.clone().extract(&request), Ok(Some(true)));
    }
}
