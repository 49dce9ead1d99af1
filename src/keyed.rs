//! Finds the key, or keys, of a request.

use crate::{
    algorithm::limit::{OneKey, OneKeyForEach},
    each_of::EachOf,
    key::{Key, KeyExtractor, Rejection, TupleRejection},
};

/// Finds the keys that a limit needs: a [`KeyExtractor`] finds one, for an algorithm; an
/// [`EachOf`](crate::EachOf) of extractors finds one for each of several algorithms.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not find a key for each algorithm of an `EachOf`",
    label = "not as many keys as there are algorithms",
    note = "in the key's place write an `EachOf((.., ..))` with an extractor for each algorithm: `EachOf((PeerIp::new(), Header::new(\"x-account\")))` for two",
    note = "several algorithms for one key are a plain tuple, without `EachOf`"
)]
pub trait KeysFor<Keys, Req> {
    /// The key.
    type Key: Key;
    /// The answer to a request that has no key and must have one.
    type Rejection: Rejection;

    /// The key of the request, `None` if no limit applies to it, or a rejection.
    ///
    /// # Errors
    ///
    /// The request has no key and must not pass without one: it is answered with the rejection.
    fn find(&self, request: &Req) -> Result<Option<Self::Key>, Self::Rejection>;

    /// The cost of a request with this key, given the cost that the layer says.
    #[inline]
    fn cost(&self, _key: &Self::Key, cost: u32) -> u32 {
        cost
    }
}

impl<F: KeyExtractor<Req>, Req> KeysFor<OneKey, Req> for F {
    type Key = F::Key;
    type Rejection = F::Rejection;

    // Inlined always, as `key/address.rs` says.
    #[inline(always)]
    fn find(&self, request: &Req) -> Result<Option<F::Key>, F::Rejection> {
        self.extract(request)
    }
}

macro_rules! keyed {
    ($count:literal: $($Extractor:ident $Key:ident $place:tt),+) => {
        impl<Req, $($Extractor: KeyExtractor<Req>),+> KeysFor<OneKeyForEach<$count>, Req>
            for EachOf<($($Extractor,)+)>
        {
            type Key = EachOf<($(Option<$Extractor::Key>,)+)>;
            type Rejection = TupleRejection;

            #[inline]
            fn find(&self, request: &Req) -> Result<Option<Self::Key>, TupleRejection> {
                let keys = ($(
                    self.0.$place.extract(request).map_err(TupleRejection::of)?,
                )+);
                let is_anybody = false $(|| keys.$place.is_some())+;
                Ok(is_anybody.then_some(EachOf(keys)))
            }
        }
    };
}

two_to_six!(keyed);
