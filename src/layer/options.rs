//! The options of a layer.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::{
    response::{Http, body_end::SpentAtEnd},
    store_error::OnStoreError,
};

use super::{RateLimitLayer, waiting::max_waiting};

/// The options of a layer; the layer's setters replace them.
// Elsewhere in `layer` the parameters have one letter each: C, R, X, E, Z (how holds are settled),
// N, W (who watches), in this order. A, S and F are the algorithm, the store and the key extractor.
// A setter's new type ends in 2: `C2`.
#[derive(Debug, Clone)]
pub struct Options<
    CostFn = u32,
    Resp = Http,
    ExemptFn = (),
    OnError = OnStoreError,
    SettleFn = (),
    EnforceFn = bool,
    Observer = (),
> {
    pub(super) cost: CostFn,
    pub(super) respond: Resp,
    pub(super) exempt: ExemptFn,
    pub(super) on_store_error: OnError,
    pub(super) exposes_decision: bool,
    pub(super) max_waiting: Arc<Semaphore>,
    pub(super) settle: SettleFn,
    pub(super) enforce: EnforceFn,
    pub(super) observe: Observer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cost: 1,
            respond: Http::default(),
            exempt: (),
            on_store_error: OnStoreError::default(),
            exposes_decision: false,
            max_waiting: max_waiting(usize::MAX),
            settle: (),
            enforce: true,
            observe: (),
        }
    }
}

#[expect(clippy::type_complexity, reason = "each option has a type of its own")]
impl<A, S, F, C, R, X, E, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, Z, N, W>> {
    /// The layer after a change of its options, which may change their types: `Options { cost, ..
    /// }` could not.
    pub(super) fn with<C2, R2, X2, E2, Z2, N2, W2>(
        self,
        change: impl FnOnce((C, R, X, E, Z, N, W)) -> (C2, R2, X2, E2, Z2, N2, W2),
    ) -> RateLimitLayer<A, S, F, Options<C2, R2, X2, E2, Z2, N2, W2>> {
        let before = self.options;
        let (cost, respond, exempt, on_store_error, settle, enforce, observe) = change((
            before.cost,
            before.respond,
            before.exempt,
            before.on_store_error,
            before.settle,
            before.enforce,
            before.observe,
        ));
        let options = Options {
            cost,
            respond,
            exempt,
            on_store_error,
            exposes_decision: before.exposes_decision,
            max_waiting: before.max_waiting,
            settle,
            enforce,
            observe,
        };
        RateLimitLayer {
            limiter: self.limiter,
            key: self.key,
            options,
        }
    }
}

/// Says which requests pass without a key, a count or a header.
///
/// A closure `|request: &Request| …` that returns a `bool` implements it.
pub(crate) trait Exempt<Req> {
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

/// Says whether a limit is enforced for a request: a `bool`, or a closure over the request and its
/// key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether a limit is enforced for a request of type `{Req}`",
    label = "neither a `bool` nor a closure over `{Req}` and `{Key}`",
    note = "use `true`, `false` or a closure: `|request: &{Req}, key: Option<&{Key}>| true`"
)]
pub(crate) trait Enforce<Req, Key> {
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

/// Says who settles what a request holds, and with what.
pub(crate) trait Settle<Res> {
    /// Whether the layer settles. If not, the request carries its [`Hold`](crate::Hold).
    const BY_LAYER: bool = true;

    /// How many units a response with this head has spent, if the head tells.
    fn spent(&self, _response: &Res) -> Option<u32> {
        None
    }

    /// What tells it when the body has ended.
    fn spent_at_end(&self) -> Option<&Arc<SpentAtEnd>> {
        None
    }
}

/// A request carries its [`Hold`](crate::Hold) itself: the default.
impl<Res> Settle<Res> for () {
    const BY_LAYER: bool = false;
}

impl<Res, F: Fn(&Res) -> u32> Settle<Res> for F {
    fn spent(&self, response: &Res) -> Option<u32> {
        Some(self(response))
    }
}

/// A request is settled when the body of its response has ended.
#[derive(Clone)]
pub struct SettledAtEnd(pub(super) Arc<SpentAtEnd>);

impl<Res> Settle<Res> for SettledAtEnd {
    fn spent_at_end(&self) -> Option<&Arc<SpentAtEnd>> {
        Some(&self.0)
    }
}
