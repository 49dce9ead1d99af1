//! Requests that pass without being counted.

/// Says which requests pass without a key, a count or a header.
///
/// A closure `|request: &Request| …` that returns a `bool` implements it.
#[doc(hidden)]
pub trait Exempt<Req> {
    /// Whether the request passes without being counted.
    fn is_exempt(&self, request: &Req) -> bool;
}

/// Counts every request: the default.
impl<Req> Exempt<Req> for () {
    #[inline]
    fn is_exempt(&self, _request: &Req) -> bool {
        false
    }
}

impl<Req, F: Fn(&Req) -> bool> Exempt<Req> for F {
    #[inline]
    fn is_exempt(&self, request: &Req) -> bool {
        self(request)
    }
}
