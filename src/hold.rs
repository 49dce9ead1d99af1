//! Units that are held for something that runs, until it is known what it has spent.

use std::{
    fmt,
    future::{Future, ready},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use crate::{
    algorithm::{Ending, Limit},
    decision::Decision,
    key::Key,
    store::{Answer, Change, Store, Written},
};

/// Keeps units of a limit while something runs; [`settle`](Self::settle) charges what it has really
/// spent and frees the rest.
///
/// A layer whose algorithm is [settled](crate::algorithm::Settled) puts it into the extensions of
/// each request for which it holds something;
/// [`RateLimiter::hold`](crate::RateLimiter::hold) gives one for what is not a request. Where
/// several layers hold for a request, it finds one hold, which is settled for all of them.
///
/// Nothing is held for a request of cost 0, an exempt one, one that passes without a key, one that
/// passes while the store is unavailable, and one that passes by `.enforce(false)` alone; and a
/// layer that settles by itself (`.settle(..)`, `.settle_at_end(..)`) keeps its holds. So extract
/// an `Option<Extension<Hold>>`: without the `Option` axum answers those with 500.
///
/// It is settled once: by the first of its clones that settles it, or, when the last of them is
/// dropped, with all that was held. So hanging up is never free. If it is not settled in time, all
/// of it [is charged](crate::algorithm::Settled::held_at_most), though the request still runs.
///
/// The place of a request that is [in flight](crate::algorithm::InFlight) is given back when the
/// last clone is dropped. One of those is the layer's, until the body of the response has ended; a
/// handler that goes on beyond that, with a WebSocket, say, keeps a clone. A hold of
/// [`RateLimiter::hold`](crate::RateLimiter::hold) gives its place back when it is settled, too.
///
/// # Example: a stream that is charged what it has sent
///
/// ```
/// use tollgate::{Quota, RateLimiter, algorithm::SlidingLog, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limiter = RateLimiter::new(SlidingLog::new(Quota::per_hour(10)).settled(), LocalStore::new());
/// let hold = limiter.hold("bob", 4).await?.expect("4 of 10 fit");
/// assert_eq!(hold.held(), 4);
/// let in_the_handler = hold.clone();
///
/// in_the_handler.settle(1).await?;
/// hold.settle(4).await?;
/// assert_eq!(limiter.peek("bob").await?.remaining(), 9);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Hold {
    own: Arc<dyn Receipt>,
    /// That of the layers around the one that holds this.
    outer: Option<Arc<Self>>,
}

impl Hold {
    pub(crate) fn new<L: Limit, K: Key, S: Store<L, K>>(
        limit: L,
        store: S,
        key: K,
        (admission, held): (L::Snapshot, u32),
        ends_when: EndsWhen,
    ) -> Self {
        let own = Arc::new(Held {
            limit,
            store,
            key,
            admission,
            held,
            ends_when,
            is_settled: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        Self { own, outer: None }
    }

    /// One for both: what is settled is settled for each.
    pub(crate) fn and(self, outer: Option<Self>) -> Self {
        let outer = outer.map(Arc::new);
        Self { outer, ..self }
    }

    /// How many units are held.
    pub fn held(&self) -> u32 {
        self.own.held()
    }

    /// What was decided when they were held.
    pub fn decision(&self) -> Decision {
        self.own.decision()
    }

    /// Charges the units that were spent and frees the others, at once: waiting for the returned
    /// future is optional. 0 frees all. More than was held is charged too, and the next requests
    /// wait for it.
    ///
    /// If it is settled already, nothing happens. A limit that counts only what is [in
    /// flight](crate::algorithm::InFlight) charges nothing, whatever the units are.
    pub fn settle(&self, units: u32) -> Settlement {
        let own = self.own.settle(units);
        match &self.outer {
            Some(outer) => own.and(outer.settle(units)),
            None => own,
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

/// When the place of a request in flight is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndsWhen {
    /// When the hold is settled, or its last clone is dropped.
    Settled,
    /// When its last clone is dropped.
    Dropped,
}

/// The future of [`Hold::settle`]: await it to know that the store has the settlement. Dropping it
/// loses nothing.
// None, if all is done and well.
pub struct Settlement(Option<Pin<Box<dyn Future<Output = Written> + Send>>>);

impl Settlement {
    const NOTHING: Self = Self(None);

    fn of(answer: Answer<Written, impl Future<Output = Written> + Send + 'static>) -> Self {
        match answer {
            Answer::Now(Ok(())) => Self::NOTHING,
            Answer::Now(failed) => Self(Some(Box::pin(ready(failed)))),
            Answer::Later(sent) => Self(Some(Box::pin(sent))),
        }
    }

    /// Ends when both have ended.
    fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(own), Some(other)) => Self(Some(Box::pin(async {
                let (own, other) = (own.await, other.await);
                own.and(other)
            }))),
            (own, other) => Self(own.or(other)),
        }
    }
}

impl Future for Settlement {
    type Output = Written;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Written> {
        match &mut self.0 {
            Some(sent) => sent.as_mut().poll(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settlement").finish_non_exhaustive()
    }
}

/// A hold, whatever its limit, store and key.
trait Receipt: Send + Sync {
    fn held(&self) -> u32;
    fn decision(&self) -> Decision;
    fn settle(&self, spent: u32) -> Settlement;
}

struct Held<L: Limit, K: Key, S: Store<L, K>> {
    limit: L,
    store: S,
    key: K,
    admission: L::Snapshot,
    held: u32,
    ends_when: EndsWhen,
    is_settled: AtomicBool,
    has_ended: AtomicBool,
}

impl<L: Limit, K: Key, S: Store<L, K>> Receipt for Held<L, K, S> {
    fn held(&self) -> u32 {
        self.held
    }

    fn decision(&self) -> Decision {
        self.limit.decision_of(&self.admission)
    }

    fn settle(&self, spent: u32) -> Settlement {
        let charged = self.charge(spent);
        match self.ends_when {
            EndsWhen::Settled => charged.and(self.give_back()),
            EndsWhen::Dropped => charged,
        }
    }
}

impl<L: Limit, K: Key, S: Store<L, K>> Held<L, K, S> {
    fn charge(&self, spent: u32) -> Settlement {
        let held = self.held;
        let is_due = L::SETTLES && !self.is_settled.swap(true, Ordering::Relaxed);
        self.end(is_due, Ending::Settled { held, spent })
    }

    fn give_back(&self) -> Settlement {
        let is_due = L::IN_FLIGHT && !self.has_ended.swap(true, Ordering::Relaxed);
        self.end(is_due, Ending::Over)
    }

    fn end(&self, is_due: bool, ending: Ending) -> Settlement {
        if !is_due {
            return Settlement::NOTHING;
        }
        let ended = Change::End(&self.admission, ending);
        Settlement::of(self.store.change(&self.limit, &self.key, ended))
    }
}

impl<L: Limit, K: Key, S: Store<L, K>> Drop for Held<L, K, S> {
    fn drop(&mut self) {
        drop((self.charge(self.held), self.give_back()));
    }
}
