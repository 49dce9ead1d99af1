//! The options of a layer: its setters put one of these types around those before.
//!
//! `RateLimitLayer<A, S, F, Http, WithCost<RouteCosts>>` is a layer with [costs by
//! route](crate::RouteCosts), and nothing else that was set. Of two that are set by the same
//! setter, the last one counts: it stands outside.
//!
//! # Example: the type of a layer whose cost is set twice
//!
//! ```
//! use tollgate::{LocalRateLimitLayer, Quota, RateLimitLayer, options::WithCost};
//! use tollgate::{algorithm::FixedWindow, key::Global, response::AsError, store::LocalStore};
//! # use std::convert::Infallible;
//! # use tower::{Layer, ServiceExt};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! type Limit = LocalRateLimitLayer<FixedWindow, (), Global, AsError, WithCost<u32, WithCost<u32>>>;
//!
//! let five = FixedWindow::new(Quota::per_day(5));
//! let limit = RateLimitLayer::new(five, LocalStore::new(), Global).respond_with(AsError);
//! let limit: Limit = limit.cost(1).cost(4);
//! # let inner = tower::service_fn(|number: u32| async move { Ok::<u32, Infallible>(number) });
//! # limit.layer(inner).oneshot(7).await.unwrap();
//! assert_eq!(limit.limiter().peek(&()).now().remaining(), 1);
//! # });
//! ```

use std::sync::Arc;

use crate::{
    cost::Cost,
    error::StoreError,
    observe::{Event, Observe},
    response::{BodyEnd, body_end::SpentAtEnd},
    store_error::OnStoreError,
};

use super::fallback::{Fallback, Instead};

/// Charges each request what was given to [`cost`](crate::RateLimitLayer::cost).
#[derive(Debug, Clone)]
pub struct WithCost<CostFn, Others = ()> {
    pub(super) cost: CostFn,
    pub(super) others: Others,
}

/// Lets requests pass that were [exempted](crate::RateLimitLayer::exempt).
#[derive(Debug, Clone)]
pub struct WithExemptions<ExemptFn, Others = ()> {
    pub(super) exempt: ExemptFn,
    pub(super) others: Others,
}

/// Decides by what was given to [`on_store_error`](crate::RateLimitLayer::on_store_error) when the
/// store is unavailable.
#[derive(Debug, Clone)]
pub struct WithFallback<OnError, Others = ()> {
    pub(super) on_store_error: OnError,
    pub(super) others: Others,
}

/// Settles what a request holds by what was given to [`settle`](crate::RateLimitLayer::settle).
#[derive(Debug, Clone)]
pub struct WithSpent<SpentFn, Others = ()> {
    pub(super) spent: SpentFn,
    pub(super) others: Others,
}

/// Settles what a request holds by what was given to
/// [`settle_at_end`](crate::RateLimitLayer::settle_at_end).
#[derive(Clone)]
pub struct WithSpentAtEnd<Others = ()> {
    pub(super) spent: Arc<SpentAtEnd>,
    pub(super) others: Others,
}

/// Enforces the limit where [`enforce`](crate::RateLimitLayer::enforce) says so.
#[derive(Debug, Clone)]
pub struct WithEnforcement<EnforceFn, Others = ()> {
    pub(super) enforce: EnforceFn,
    pub(super) others: Others,
}

/// Reports each request to an [observer](crate::RateLimitLayer::observe).
#[derive(Debug, Clone)]
pub struct WithObserver<Observer, Others = ()> {
    pub(super) observer: Observer,
    pub(super) others: Others,
}

/// What the setters of a layer have set. Each type answers for its own setter, and `others` for the
/// rest. Where there are no others, it is the default.
pub(crate) trait Options<Req, Res, K> {
    type Others: Options<Req, Res, K>;

    /// Whether the layer settles. If not, the request carries its [`Hold`](crate::Hold).
    const SETTLES: bool = <Self::Others as Options<Req, Res, K>>::SETTLES;

    fn others(&self) -> Option<&Self::Others>;

    /// What a request is charged.
    #[inline]
    fn cost(&self, request: &Req) -> u32 {
        self.others().map_or(1, |others| others.cost(request))
    }

    /// Whether a request passes without being counted.
    #[inline]
    fn is_exempt(&self, request: &Req) -> bool {
        self.others()
            .is_some_and(|others| others.is_exempt(request))
    }

    /// Whether the limit is enforced; `key` is `None` if the extractor rejects the request.
    #[inline]
    fn is_enforced(&self, request: &Req, key: Option<&K>) -> bool {
        self.others()
            .is_none_or(|others| others.is_enforced(request, key))
    }

    #[inline]
    fn mirror_charge(&self, request: &Req, key: &K, cost: u32) {
        if let Some(others) = self.others() {
            others.mirror_charge(request, key, cost);
        }
    }

    #[inline]
    fn decide_instead(&self, error: &StoreError, request: &Req, key: &K, cost: u32) -> Instead {
        match self.others() {
            Some(others) => others.decide_instead(error, request, key, cost),
            None => Err(OnStoreError::Refuse),
        }
    }

    /// How many units a response with this head has spent, if the head tells.
    #[inline]
    fn spent(&self, response: &Res) -> Option<u32> {
        self.others()?.spent(response)
    }

    /// Lets the end of the body say what was spent, if that is set.
    #[inline]
    fn settle_at_end(&self, end: &mut BodyEnd) {
        if let Some(others) = self.others() {
            others.settle_at_end(end);
        }
    }

    #[inline]
    fn is_silent(&self) -> bool {
        self.others().is_none_or(Options::is_silent)
    }

    #[inline]
    fn times_store(&self) -> bool {
        self.others().is_some_and(Options::times_store)
    }

    #[inline]
    fn observe(&self, event: &Event<'_, K>) {
        if let Some(others) = self.others() {
            others.observe(event);
        }
    }
}

/// Says, of an option, which others it stands around. (One function cannot be a method of several
/// types.)
macro_rules! others {
    () => {
        type Others = O;

        #[inline]
        fn others(&self) -> Option<&O> {
            Some(&self.others)
        }
    };
}

/// The end of the chain: nothing was set.
impl<Req, Res, K> Options<Req, Res, K> for () {
    type Others = ();

    const SETTLES: bool = false;

    #[inline]
    fn others(&self) -> Option<&()> {
        None
    }
}

impl<Req, Res, K, C: Cost<Req>, O: Options<Req, Res, K>> Options<Req, Res, K> for WithCost<C, O> {
    others!();

    #[inline]
    fn cost(&self, request: &Req) -> u32 {
        self.cost.cost(request)
    }
}

impl<Req, Res, K, X: Fn(&Req) -> bool, O: Options<Req, Res, K>> Options<Req, Res, K>
    for WithExemptions<X, O>
{
    others!();

    #[inline]
    fn is_exempt(&self, request: &Req) -> bool {
        (self.exempt)(request)
    }
}

impl<Req, Res, K, N: Enforce<Req, K>, O: Options<Req, Res, K>> Options<Req, Res, K>
    for WithEnforcement<N, O>
{
    others!();

    #[inline]
    fn is_enforced(&self, request: &Req, key: Option<&K>) -> bool {
        self.enforce.is_enforced(request, key)
    }
}

impl<Req, Res, K, E: Fallback<Req, K>, O: Options<Req, Res, K>> Options<Req, Res, K>
    for WithFallback<E, O>
{
    others!();

    #[inline]
    fn mirror_charge(&self, request: &Req, key: &K, cost: u32) {
        self.on_store_error.mirror_charge(request, key, cost);
    }

    #[inline]
    fn decide_instead(&self, error: &StoreError, request: &Req, key: &K, cost: u32) -> Instead {
        self.on_store_error
            .decide_instead(error, request, key, cost)
    }
}

impl<Req, Res, K, Z: Fn(&Res) -> u32, O: Options<Req, Res, K>> Options<Req, Res, K>
    for WithSpent<Z, O>
{
    others!();

    const SETTLES: bool = true;

    #[inline]
    fn spent(&self, response: &Res) -> Option<u32> {
        Some((self.spent)(response))
    }

    #[inline]
    fn settle_at_end(&self, _: &mut BodyEnd) {}
}

impl<Req, Res, K, O: Options<Req, Res, K>> Options<Req, Res, K> for WithSpentAtEnd<O> {
    others!();

    const SETTLES: bool = true;

    #[inline]
    fn spent(&self, _: &Res) -> Option<u32> {
        None
    }

    #[inline]
    fn settle_at_end(&self, end: &mut BodyEnd) {
        end.settle_by(&self.spent);
    }
}

impl<Req, Res, K, W: Observe<K>, O: Options<Req, Res, K>> Options<Req, Res, K>
    for WithObserver<W, O>
{
    others!();

    #[inline]
    fn is_silent(&self) -> bool {
        self.observer.is_silent()
    }

    #[inline]
    fn times_store(&self) -> bool {
        self.observer.times_store()
    }

    #[inline]
    fn observe(&self, event: &Event<'_, K>) {
        self.observer.observe(event);
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
