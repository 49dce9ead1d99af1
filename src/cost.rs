//! What a request costs: a number, a closure over the request, or a table by method and route.

/// Says how many units a request is charged.
///
/// A cost is a `u32` for every request, a closure `|request: &Request| …`, or [`RouteCosts`], a
/// table by method and matched route.
///
/// # Example: an upload costs more
///
/// ```
/// use http::{Method, Request};
/// use tollgate::Cost;
///
/// let cost = |request: &Request<()>| if request.method() == Method::POST { 10 } else { 1 };
/// let upload = Request::post("/files").body(()).unwrap();
/// assert_eq!(cost.cost(&upload), 10);
/// assert_eq!(3_u32.cost(&upload), 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a request of type `{Req}` costs",
    label = "not a cost for `{Req}`",
    note = "use a number (`5_u32`), a closure (`|request: &{Req}| 5_u32`) or `RouteCosts`"
)]
pub trait Cost<Req> {
    /// How many units the request is charged; a cost of 0 is admitted and charged nothing.
    fn cost(&self, request: &Req) -> u32;
}

impl<Req> Cost<Req> for u32 {
    fn cost(&self, _request: &Req) -> u32 {
        *self
    }
}

// Without this the compiler says "expected a closure" for each type that is not a cost.
#[diagnostic::do_not_recommend]
impl<Req, F: Fn(&Req) -> u32> Cost<Req> for F {
    fn cost(&self, request: &Req) -> u32 {
        self(request)
    }
}

#[cfg(feature = "axum")]
pub use route_costs::RouteCosts;

#[cfg(feature = "axum")]
mod route_costs {
    use std::{
        collections::HashMap,
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicU32, Ordering},
        },
    };

    use http::{Method, Request};

    use crate::key::matched_route;

    use super::Cost;

    /// Charges a request by its method and the route it matched, as the router spells it
    /// (`/users/{id}`).
    ///
    /// An entry for one method takes precedence over an entry for any method, whatever their order.
    /// `HEAD` costs what `GET` does, unless it has an entry of its own: routers serve it with the
    /// same handler. Requests that match no entry, or no route at all, cost the default. As for
    /// [`MatchedRoute`](crate::key::MatchedRoute), there is no matched route outside of the router.
    ///
    /// A route that none of the first 10 000 requests has matched may be misspelled: the `tracing`
    /// event `cost.route_not_matched`, with target `tollgate::cost`, is logged once.
    ///
    /// # Example: searching costs five times as much as reading
    ///
    /// ```
    /// use http::{Method, Request};
    /// use tollgate::{Cost, RouteCosts};
    ///
    /// let costs = RouteCosts::new(1)
    ///     .on("/search", 5)
    ///     .on_method(Method::POST, "/files/{name}", 20);
    /// let unmatched = Request::get("/search").body(()).unwrap();
    /// assert_eq!(costs.cost(&unmatched), 1);
    /// ```
    #[derive(Debug, Clone, Default)]
    pub struct RouteCosts {
        default: u32,
        routes: HashMap<String, RouteCost>,
        /// How many requests were charged, up to [`WARN_AFTER`]; the clones of a layer share it.
        requests: Arc<AtomicU32>,
    }

    /// After this many requests a warning names the routes that none of them has matched.
    const WARN_AFTER: u32 = 10_000;

    #[derive(Debug, Clone, Default)]
    struct RouteCost {
        /// Of each method; `None` is any.
        costs: Vec<(Option<Method>, u32)>,
        /// Whether one of the first requests has matched the route.
        was_matched: Arc<AtomicBool>,
    }

    impl RouteCost {
        fn of(&self, method: Option<&Method>) -> Option<u32> {
            let mut costs = self.costs.iter();
            let (_, cost) = costs.find(|(known, _)| known.as_ref() == method)?;
            Some(*cost)
        }
    }

    impl RouteCosts {
        /// A table that charges this much for requests without an entry.
        pub fn new(default: u32) -> Self {
            Self {
                default,
                routes: HashMap::new(),
                requests: Arc::default(),
            }
        }

        /// Charges this much for any method on the route.
        #[must_use]
        pub fn on(self, route: impl Into<String>, cost: u32) -> Self {
            self.with(route.into(), None, cost)
        }

        /// Charges this much for one method on the route; a later entry replaces an earlier one.
        #[must_use]
        pub fn on_method(self, method: Method, route: impl Into<String>, cost: u32) -> Self {
            self.with(route.into(), Some(method), cost)
        }

        fn with(mut self, route: String, method: Option<Method>, cost: u32) -> Self {
            // Earlier clones do not have this route, so they no longer count together.
            self.requests = Arc::default();
            let costs = &mut self.routes.entry(route).or_default().costs;
            costs.retain(|(known, _)| *known != method);
            costs.push((method, cost));
            self
        }

        /// Counts a request. After the first [`WARN_AFTER`], logs the routes that none of them has
        /// matched.
        fn warn_of_unmatched_routes(&self, matched: Option<&RouteCost>) {
            if let Some(route) = matched {
                route.was_matched.store(true, Ordering::Relaxed);
            }
            if self.requests.fetch_add(1, Ordering::Relaxed) + 1 != WARN_AFTER {
                return;
            }
            for (route, cost) in &self.routes {
                if !cost.was_matched.load(Ordering::Relaxed) {
                    tracing::warn!(
                        name: "cost.route_not_matched",
                        target: "tollgate::cost",
                        %route,
                        "none of the first {WARN_AFTER} requests has matched this route of the `RouteCosts`: write it as \
                         in the router, and add the layer inside of the router"
                    );
                }
            }
        }
    }

    impl<B> Cost<Request<B>> for RouteCosts {
        fn cost(&self, request: &Request<B>) -> u32 {
            let route = matched_route(request).and_then(|route| self.routes.get(route));
            if self.requests.load(Ordering::Relaxed) < WARN_AFTER {
                self.warn_of_unmatched_routes(route);
            }
            let cost = route.and_then(|route| {
                let head_as_get = (request.method() == Method::HEAD).then_some(&Method::GET);
                (route.of(Some(request.method())))
                    .or_else(|| route.of(Some(head_as_get?)))
                    .or_else(|| route.of(None))
            });
            cost.unwrap_or(self.default)
        }
    }
}
