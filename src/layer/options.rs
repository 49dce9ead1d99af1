//! The options of a layer.

use http::Request;

use crate::{
    decision::Decision, enforce::Enforced, exempt::NoExemption, observe::Silent, response::Http,
    store_error::OnStoreError,
};

use super::max_waiting::MaxWaiting;

/// The options of a layer; the layer's setters replace them.
// Elsewhere in `layer` the parameters have one letter each: C, R, X, E, D (whether the decision is
// exposed), Z (how holds are settled), N, W (who watches), in this order. A, S and F are the
// algorithm, the store and the key extractor. A setter's new type ends in 2: `C2`.
#[derive(Debug, Clone)]
pub struct Options<
    CostFn = u32,
    Resp = Http,
    ExemptFn = NoExemption,
    OnError = OnStoreError,
    Expose = Hidden,
    SettleFn = Unsettled,
    EnforceFn = Enforced,
    Observer = Silent,
> {
    pub(super) cost: CostFn,
    pub(super) respond: Resp,
    pub(super) exempt: ExemptFn,
    pub(super) on_store_error: OnError,
    pub(super) expose: Expose,
    pub(super) max_waiting: MaxWaiting,
    pub(super) settle: SettleFn,
    pub(super) enforce: EnforceFn,
    pub(super) observe: Observer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cost: 1,
            respond: Http::default(),
            exempt: NoExemption,
            on_store_error: OnStoreError::default(),
            expose: Hidden,
            max_waiting: MaxWaiting::default(),
            settle: Unsettled,
            enforce: Enforced,
            observe: Silent,
        }
    }
}

/// Makes for each option a method that replaces it, which changes its type: `Options { cost, ..self
/// }` could not.
macro_rules! replaceable {
    ([$($before:ident: $Before:ident,)*]) => {};
    ([$($before:ident: $Before:ident,)*] $field:ident: $Field:ident, $($after:ident: $After:ident,)*) => {
        impl<$($Before,)* $Field, $($After,)*> Options<$($Before,)* $Field, $($After,)*> {
            pub(super) fn $field<New>(self, $field: New) -> Options<$($Before,)* New, $($After,)*> {
                Options {
                    $($before: self.$before,)* $field, $($after: self.$after,)*
                    max_waiting: self.max_waiting,
                }
            }
        }
        replaceable!([$($before: $Before,)* $field: $Field,] $($after: $After,)*);
    };
}

replaceable!([] cost: C, respond: R, exempt: X, on_store_error: E, expose: D, settle: Z, enforce: N, observe: W,);

/// Puts the decision about an admitted request where handlers find it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the decision about a request of type `{Req}` cannot be exposed",
    label = "`{Req}` has no extensions to put a decision into",
    note = "leave `.expose_decision()` out: only an `http::Request` has extensions"
)]
pub trait Expose<Req> {
    /// Puts the decision into the request, or never makes one.
    #[inline]
    fn expose(&self, request: &mut Req, decision: impl FnOnce() -> Decision) {
        let _ = (request, decision);
    }
}

/// Handlers don't see the decision: the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hidden;

impl<Req> Expose<Req> for Hidden {}

/// Handlers find the [`Decision`] in the request's extensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exposed;

impl<B> Expose<Request<B>> for Exposed {
    fn expose(&self, request: &mut Request<B>, decision: impl FnOnce() -> Decision) {
        request.extensions_mut().insert(decision());
    }
}

/// Says what a request has spent, when the head of its response is ready.
#[doc(hidden)]
pub trait Settle<Res> {
    /// Whether `spent` is called: if not, the request carries its [`Hold`](crate::Hold).
    const IS_ASKED: bool = false;

    /// How many units the response has spent.
    fn spent(&self, _response: &Res) -> u32 {
        0
    }
}

/// Wraps the inner service if holds are settled at the end of the body.
#[doc(hidden)]
pub trait Around<Svc> {
    /// The service that is limited.
    type Service;

    /// Wraps the inner service.
    fn around(&self, inner: Svc) -> Self::Service;
}

/// A request carries its [`Hold`](crate::Hold) itself: the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unsettled;

impl<Res> Settle<Res> for Unsettled {}

impl<Svc> Around<Svc> for Unsettled {
    type Service = Svc;

    #[inline]
    fn around(&self, inner: Svc) -> Svc {
        inner
    }
}

/// A request is settled when the head of its response is ready.
#[derive(Debug, Clone, Copy)]
pub struct SettledByHead<F>(pub(super) F);

impl<Res, F: Fn(&Res) -> u32> Settle<Res> for SettledByHead<F> {
    const IS_ASKED: bool = true;

    fn spent(&self, response: &Res) -> u32 {
        (self.0)(response)
    }
}

impl<Svc, F> Around<Svc> for SettledByHead<F> {
    type Service = Svc;

    #[inline]
    fn around(&self, inner: Svc) -> Svc {
        inner
    }
}
