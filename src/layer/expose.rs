//! Whether handlers see the decision about their request.

use http::Request;

use crate::decision::Decision;

/// Puts the decision about an admitted request where handlers find it.
#[diagnostic::on_unimplemented(
    message = "the decision about a request of type `{Req}` cannot be exposed",
    label = "`{Req}` has no extensions to put a decision into",
    note = "leave `.expose_decision()` out: only an `http::Request` has extensions"
)]
pub trait Expose<Req> {
    /// Whether there is anything to do; if not, the decision is never made up.
    const EXPOSES: bool;

    /// Puts the decision into the request.
    fn expose(&self, request: &mut Req, decision: Decision);
}

/// Handlers don't see the decision: the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hidden;

impl<Req> Expose<Req> for Hidden {
    const EXPOSES: bool = false;

    #[inline]
    fn expose(&self, _request: &mut Req, _decision: Decision) {}
}

/// Handlers find the [`Decision`] in the request's extensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exposed;

impl<B> Expose<Request<B>> for Exposed {
    const EXPOSES: bool = true;

    fn expose(&self, request: &mut Request<B>, decision: Decision) {
        request.extensions_mut().insert(decision);
    }
}
