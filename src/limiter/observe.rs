//! What the observer of a limiter sees.

use std::{cell::LazyCell, time::Duration};

use crate::{
    algorithm::Limit,
    error::StoreError,
    key::Key,
    observe::{Event, EventKey, Observe, Outcome},
    store::{AsKey, Verdict},
};

use super::RateLimiter;

impl<A, S, W> RateLimiter<A, S, W> {
    /// Shows this observer how each call that charges, or would have charged, has ended: once.
    ///
    /// See [`observe`](crate::observe): it is a closure that names the type of the key, or an
    /// [`Observe`]. It replaces the one before; take a tuple for two. Clones share it. Without this
    /// setter there are no events, and nothing is paid for them.
    ///
    /// | call | is seen | outcome |
    /// |---|---|---|
    /// | [`check`](Self::check), [`check_cost`](Self::check_cost) | when it is decided | `admitted`, `refused`, `store_error` |
    /// | [`hold`](Self::hold) | when the cost is held, or refused; not when it is settled | `admitted`, `refused`, `store_error` |
    /// | `until_ready` | at its end, with how long it [has waited](crate::observe::Event::waited); its attempts are not seen | `admitted`, `store_error`; `refused` if the cost never fits |
    /// | [`debit`](Self::debit) | when the units are charged | `debited`, `store_error` |
    /// | [`peek`](Self::peek), [`refund`](Self::refund), [`reset`](Self::reset), `refuse_until`, `let_through_until` | never | |
    ///
    /// A call with [`.now()`](super::Call::now) is seen as one that is awaited. One that is dropped
    /// before it is ready is not seen, though the store may have charged it.
    ///
    /// The observer is called in the task of the call, right before that returns; no lock is held,
    /// and nobody waits in line behind it. If it panics, so does the call: what was charged stays
    /// charged, and what is [held](crate::Hold) ends as if the hold were dropped.
    ///
    /// # Example: what a metered service is asked, and by whom
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use tollgate::{Quota, RateLimiter};
    /// use tollgate::{algorithm::FixedWindow, observe::Event, store::LocalStore};
    ///
    /// let log = Arc::new(Mutex::new(Vec::new()));
    /// let seen = Arc::clone(&log);
    /// let daily = FixedWindow::new(Quota::per_day(10));
    /// let limiter = RateLimiter::new(daily, LocalStore::new())
    ///     .observe(move |event: &Event<'_, String>| {
    ///         let caller = event.key().map_or("nobody", String::as_str);
    ///         let line = format!("{} of {caller}: {}", event.cost(), event.outcome());
    ///         seen.lock().unwrap().push(line);
    ///     });
    /// limiter.check_cost("bob", 8).now();
    /// limiter.check_cost("bob", 8).now();
    /// limiter.debit("bob", 8).now();
    /// assert_eq!(*log.lock().unwrap(), ["8 of bob: admitted", "8 of bob: refused", "8 of bob: debited"]);
    /// ```
    pub fn observe<O>(self, observer: O) -> RateLimiter<A, S, O> {
        RateLimiter {
            algorithm: self.algorithm,
            store: self.store,
            observer,
        }
    }

    /// Notifies the observer of a call: of what was decided, or `None` where units were charged
    /// whether they fitted or not.
    pub(super) fn notify_observer<L: Limit, K: Key, Q: AsKey<K> + ?Sized>(
        &self,
        (limit, key, cost): (&L, &Q, u32),
        answered: Result<Option<&Verdict<L::Snapshot>>, &StoreError>,
        store_time: Option<Duration>,
        waited: Option<Duration>,
    ) where
        W: Observe<K>,
    {
        if self.observer.is_silent() {
            return;
        }
        let outcome = match answered {
            Ok(Some(verdict)) if verdict.admitted => Outcome::Admitted,
            Ok(Some(_)) => Outcome::Refused,
            Ok(None) => Outcome::Debited,
            Err(_) => Outcome::StoreError,
        };
        let verdict = answered.ok().flatten();
        let decided = verdict.map(|verdict| (limit, Ok(&verdict.snapshot)));
        self.observer.observe(&Event {
            cost,
            key: Some(EventKey::OfCall(&LazyCell::new(|| key.to_owned()))),
            decided: decided.as_ref().map(|decided| decided as _),
            error: answered.err(),
            passes: matches!(outcome, Outcome::Admitted | Outcome::Debited),
            store_time,
            source: verdict.map(|verdict| verdict.source),
            waited,
            ..Event::uncounted(outcome)
        });
    }
}
