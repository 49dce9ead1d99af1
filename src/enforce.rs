//! Whether a limit is enforced for a request, or only counts it.

/// Says whether a limit is enforced for a request: a `bool`, or a closure over the request and its
/// key.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether a limit is enforced for a request of type `{Req}`",
    label = "neither a `bool` nor a closure over `{Req}` and `{Key}`",
    note = "use `true`, `false` or a closure: `|request: &{Req}, key: Option<&{Key}>| true`"
)]
pub trait Enforce<Req, Key> {
    /// Whether the limit is enforced; `key` is `None` if the extractor rejects the request.
    fn is_enforced(&self, request: &Req, key: Option<&Key>) -> bool;
}

impl<Req, Key> Enforce<Req, Key> for bool {
    #[inline]
    fn is_enforced(&self, _request: &Req, _key: Option<&Key>) -> bool {
        *self
    }
}

// Without this the compiler says "expected a closure" for each type that is neither.
#[diagnostic::do_not_recommend]
impl<Req, Key, F: Fn(&Req, Option<&Key>) -> bool> Enforce<Req, Key> for F {
    #[inline]
    fn is_enforced(&self, request: &Req, key: Option<&Key>) -> bool {
        self(request, key)
    }
}
