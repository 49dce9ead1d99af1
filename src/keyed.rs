//! Which keys a limit asks for.

use crate::{
    algorithm::Algorithm,
    key::{Key, KeyExtractor, Rejection},
    limit::Limit,
};

/// A limit whose keys this extractor finds: an [algorithm](crate::algorithm) has one, [each of
/// several](crate::EachOf) its own.
#[diagnostic::on_unimplemented(
    message = "`{F}` does not find the keys of `{Self}`",
    label = "these keys do not fit these algorithms",
    note = "for each algorithm of an `EachOf((.., ..))` there must be an extractor in an `EachOf((.., ..))` in the key's place; a plain algorithm has one key"
)]
pub trait Keyed<F, Req>: Limit {
    /// The key.
    type Key: Key;
    /// What is answered when there is no key but should be one.
    type Rejection: Rejection;

    /// The key of the request, `None` if no limit applies to it, or a rejection.
    ///
    /// # Errors
    ///
    /// The request has no key and must not pass without: it is answered with the rejection.
    fn extract(extractor: &F, request: &Req) -> Result<Option<Self::Key>, Self::Rejection>;
}

impl<A: Algorithm, Req, F: KeyExtractor<Req>> Keyed<F, Req> for A {
    type Key = F::Key;
    type Rejection = F::Rejection;

    #[inline(always)]
    fn extract(extractor: &F, request: &Req) -> Result<Option<F::Key>, F::Rejection> {
        extractor.extract(request)
    }
}
