//! Which keys a limit asks for.

use crate::{
    algorithm::Algorithm,
    each_of::EachOf,
    key::{Key, KeyExtractor, Rejection, TupleRejection},
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

/// Implements the trait for tuples: Rust has no other way to say "a tuple of any length".
macro_rules! keyed {
    ($($Algorithm:ident $Extractor:ident $place:tt),+) => {
        impl<Req, $($Algorithm: Algorithm, $Extractor: KeyExtractor<Req>),+>
            Keyed<EachOf<($($Extractor,)+)>, Req> for EachOf<($($Algorithm,)+)>
        {
            type Key = EachOf<($(Option<$Extractor::Key>,)+)>;
            type Rejection = TupleRejection;

            #[inline]
            fn extract(
                extractors: &EachOf<($($Extractor,)+)>,
                request: &Req,
            ) -> Result<Option<Self::Key>, TupleRejection> {
                let keys = ($(
                    extractors.0.$place.extract(request).map_err(TupleRejection::of)?,
                )+);
                let is_anybody = false $(|| keys.$place.is_some())+;
                Ok(is_anybody.then_some(EachOf(keys)))
            }
        }
    };
}

keyed!(A F 0, B G 1);
keyed!(A F 0, B G 1, C H 2);
keyed!(A F 0, B G 1, C H 2, D I 3);
keyed!(A F 0, B G 1, C H 2, D I 3, E J 4);
keyed!(A F 0, B G 1, C H 2, D I 3, E J 4, K L 5);
