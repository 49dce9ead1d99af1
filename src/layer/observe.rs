//! Calls the observer of a layer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use crate::{
    algorithm::Limit,
    choice::Choose,
    decision::{Decision, PolicyDecision},
    error::StoreError,
    key::Key,
    observe::{Event, Observed, Outcome, Watch},
};

use super::{
    Fallback, Options, RateLimitLayer,
    decide::{Chosen, StoreQuery, decision_of},
};

#[expect(clippy::type_complexity, reason = "each option has a type of its own")]
impl<A, S, F, C, R, X, E, D, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, D, Z, N, W>> {
    /// Calls this observer once for each request, with its outcome: admitted, refused, exempt,
    /// without a key, or undecided.
    ///
    /// The observer is a closure that names the type of the key, or an
    /// [`Observe`](crate::observe::Observe): see [`observe`](crate::observe). A second call
    /// replaces the observer; take a tuple for two. It runs in the request's task, and the request
    /// waits for it. Without an observer there is no cost.
    ///
    /// # Example: how many requests were let through, and how many refused
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::FixedWindow, key::Global, observe::Event, store::LocalStore};
    /// # use axum::{Router, body::Body, http::Request, routing::get};
    /// # use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// // The refused ones, then those that pass.
    /// let counts = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    /// let seen = Arc::clone(&counts);
    /// let two = FixedWindow::new(Quota::per_day(2));
    /// let limit = RateLimitLayer::new(two, LocalStore::new(), Global)
    ///     .observe(move |event: &Event<'_, ()>| {
    ///         seen[usize::from(event.passes())].fetch_add(1, Relaxed);
    ///     });
    /// # let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
    /// # for _ in 0..5 {
    /// #     let request = Request::get("/").body(Body::empty()).unwrap();
    /// #     app.clone().oneshot(request).await.unwrap();
    /// # }
    /// // After five requests:
    /// assert_eq!(counts.each_ref().map(|count| count.load(Relaxed)), [3, 2]);
    /// # });
    /// ```
    pub fn observe<O>(
        self,
        observer: O,
    ) -> RateLimitLayer<A, S, F, Options<C, R, X, E, D, Z, N, Observed<O>>> {
        self.with(|options| options.observe(Observed(observer)))
    }
}

impl<A, S, F, C, R, X, E, D, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, D, Z, N, W>> {
    /// Reports a request that was not admitted, with its outcome and whether it passes.
    pub(super) fn tell_refused<Choice, K>(
        &self,
        query: &StoreQuery<Choice, K, W::Stopwatch>,
        (outcome, passes): (Outcome, bool),
        decision: &dyn Fn() -> Decision,
    ) where
        W: Watch<K>,
    {
        if !W::IS_SILENT {
            let refused = of_key::<_, _, W>(query, outcome);
            self.options.observe.tell(&Event {
                decision: Some(decision),
                passes,
                ..refused
            });
        }
    }

    /// Reports an admitted request. The error is the observer's panic: the caller of this function
    /// ends what the request holds, and resumes the panic.
    #[inline]
    pub(super) fn tell_admitted<Req, M, K>(
        &self,
        query: &StoreQuery<Chosen<A::Choice, M>, K, W::Stopwatch>,
        snapshot: &E::Snapshot<<A::Limit as Limit>::Snapshot>,
    ) -> thread::Result<()>
    where
        A: Choose<Req>,
        K: Key,
        E: Fallback<Req, K>,
        W: Watch<K>,
    {
        if W::IS_SILENT {
            return Ok(());
        }
        let limit = self.limiter.algorithm().limit(&query.choice.limit);
        let fallback = &self.options.on_store_error;
        let decision = || decision_of::<_, E, Req, K>(limit, fallback, snapshot);
        let (outcome, is_delayed) = match E::read(snapshot) {
            Ok(stored) => (Outcome::Admitted, !limit.delay_of(stored).is_zero()),
            Err(decided) => {
                let delay = fallback.decision(decided).delay();
                (Outcome::Degraded, !delay.is_zero())
            }
        };
        let shadows = |tell: &mut dyn FnMut(PolicyDecision, bool)| {
            if let Ok(stored) = E::read(snapshot) {
                limit.shadows_of(stored, tell);
            }
        };
        let event = Event {
            decision: Some(&decision),
            shadows: match <A::Limit as Limit>::HAS_SHADOWS {
                true => Some(&shadows),
                false => None,
            },
            passes: true,
            is_delayed,
            ..of_key::<_, _, W>(query, outcome)
        };
        let tell = || self.options.observe.tell(&event);
        catch_unwind(AssertUnwindSafe(tell))
    }

    /// Reports a request that the store could not decide about.
    pub(super) fn tell_error<Choice, K>(
        &self,
        query: &StoreQuery<Choice, K, W::Stopwatch>,
        error: &StoreError,
        passes: bool,
    ) where
        W: Watch<K>,
    {
        if !W::IS_SILENT {
            let undecided = of_key::<_, _, W>(query, Outcome::StoreError);
            self.options.observe.tell(&Event {
                error: Some(error),
                passes,
                ..undecided
            });
        }
    }
}

/// The event of a request that was sent to a store.
#[inline]
fn of_key<'a, Choice, K, W: Watch<K>>(
    query: &'a StoreQuery<Choice, K, W::Stopwatch>,
    outcome: Outcome,
) -> Event<'a, K> {
    Event {
        cost: query.cost,
        key: Some(&query.key),
        passes: false,
        store_time: W::elapsed(&query.stopwatch),
        ..Event::uncounted(outcome)
    }
}
