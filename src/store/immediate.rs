//! The stores that answer at once.

use crate::{key::Key, limit::Limit};

use super::{AsKey, Store, Verdict};

/// A store that answers every call at once and never fails, as
/// [`LocalStore`](crate::store::LocalStore) does: so `limiter.check("bob").now()` is a plain
/// [`Decision`](crate::Decision), without async.
///
/// # Example: one bucket in a mutex
///
/// ```
/// use std::{future::Pending, sync::{Arc, Mutex}};
/// use tollgate::algorithm::{Algorithm, FixedWindow};
/// use tollgate::clock::{Clock, SystemClock};
/// use tollgate::store::{Answer, AsKey, Decided, ImmediateStore, Store, Verdict, Written};
/// use tollgate::{Quota, RateLimiter};
///
/// /// Has one bucket, of one policy, and no keys.
/// #[derive(Clone)]
/// struct OneBucket {
///     state: Arc<Mutex<<FixedWindow as Algorithm>::State>>,
///     clock: SystemClock,
/// }
///
/// impl ImmediateStore<FixedWindow, ()> for OneBucket {
///     fn decide_now<Q: AsKey<()> + ?Sized>(
///         &self,
///         limit: &FixedWindow,
///         _key: &Q,
///         cost: u32,
///     ) -> Verdict<<FixedWindow as Algorithm>::Snapshot> {
///         let mut state = self.state.lock().unwrap();
///         let now = self.clock.now();
///         let (admitted, snapshot) = limit.step(&mut state, cost, now);
///         Verdict { admitted, snapshot }
///     }
///     fn peek_now<Q: AsKey<()> + ?Sized>(
///         &self,
///         limit: &FixedWindow,
///         _key: &Q,
///         cost: u32,
///     ) -> Verdict<<FixedWindow as Algorithm>::Snapshot> {
///         let state = self.state.lock().unwrap();
///         let now = self.clock.now();
///         let (admitted, snapshot) = limit.look(&state, cost, now);
///         Verdict { admitted, snapshot }
///     }
///     fn refund_now<Q: AsKey<()> + ?Sized>(&self, limit: &FixedWindow, _key: &Q, cost: u32) {
///         let mut state = self.state.lock().unwrap();
///         let now = self.clock.now();
///         limit.refund(&mut state, cost, now);
///     }
///     fn debit_now<Q: AsKey<()> + ?Sized>(&self, limit: &FixedWindow, _key: &Q, units: u32) {
///         let mut state = self.state.lock().unwrap();
///         let now = self.clock.now();
///         limit.debit(&mut state, units.into(), now);
///     }
///     fn settle_now<Q: AsKey<()> + ?Sized>(
///         &self,
///         limit: &FixedWindow,
///         _key: &Q,
///         admission: &<FixedWindow as Algorithm>::Snapshot,
///         held_and_spent: (u32, u32),
///     ) {
///         let mut state = self.state.lock().unwrap();
///         let now = self.clock.now();
///         limit.settle(&mut state, admission, held_and_spent, now);
///     }
///     fn reset_now<Q: AsKey<()> + ?Sized>(&self, limit: &FixedWindow, _key: &Q) {
///         *self.state.lock().unwrap() = limit.fresh(self.clock.now());
///     }
/// }
///
/// impl Store<FixedWindow, ()> for OneBucket {
///     // There is never a future.
///     type Deciding = Pending<Decided<FixedWindow>>;
///     type Writing = Pending<Written>;
///
///     fn decide<Q: AsKey<()> + ?Sized>(
///         &self,
///         limit: &FixedWindow,
///         key: &Q,
///         cost: u32,
///     ) -> Answer<Decided<FixedWindow>, Self::Deciding> {
///         Answer::Now(Ok(self.decide_now(limit, key, cost)))
///     }
///     // The others likewise.
/// #   fn peek<Q: AsKey<()> + ?Sized>(
/// #       &self,
/// #       limit: &FixedWindow,
/// #       key: &Q,
/// #       cost: u32,
/// #   ) -> Answer<Decided<FixedWindow>, Self::Deciding> {
/// #       Answer::Now(Ok(self.peek_now(limit, key, cost)))
/// #   }
/// #   fn refund<Q: AsKey<()> + ?Sized>(
/// #       &self,
/// #       limit: &FixedWindow,
/// #       key: &Q,
/// #       cost: u32,
/// #   ) -> Answer<Written, Self::Writing> {
/// #       Answer::Now(Ok(self.refund_now(limit, key, cost)))
/// #   }
/// #   fn debit<Q: AsKey<()> + ?Sized>(
/// #       &self,
/// #       limit: &FixedWindow,
/// #       key: &Q,
/// #       units: u32,
/// #   ) -> Answer<Written, Self::Writing> {
/// #       Answer::Now(Ok(self.debit_now(limit, key, units)))
/// #   }
/// #   fn settle<Q: AsKey<()> + ?Sized>(
/// #       &self,
/// #       limit: &FixedWindow,
/// #       key: &Q,
/// #       admission: &<FixedWindow as Algorithm>::Snapshot,
/// #       held_and_spent: (u32, u32),
/// #   ) -> Answer<Written, Self::Writing> {
/// #       Answer::Now(Ok(self.settle_now(limit, key, admission, held_and_spent)))
/// #   }
/// #   fn end<Q: AsKey<()> + ?Sized>(
/// #       &self,
/// #       limit: &FixedWindow,
/// #       _key: &Q,
/// #       admission: &<FixedWindow as Algorithm>::Snapshot,
/// #   ) -> Answer<Written, Self::Writing> {
/// #       let mut state = self.state.lock().unwrap();
/// #       let now = self.clock.now();
/// #       limit.end(&mut state, admission, now);
/// #       Answer::Now(Ok(()))
/// #   }
/// #   fn reset<Q: AsKey<()> + ?Sized>(
/// #       &self,
/// #       limit: &FixedWindow,
/// #       key: &Q,
/// #   ) -> Answer<Written, Self::Writing> {
/// #       Answer::Now(Ok(self.reset_now(limit, key)))
/// #   }
/// }
///
/// let limit = FixedWindow::new(Quota::per_day(2)).from_first_request();
/// let clock = SystemClock::new();
/// let state = Arc::new(Mutex::new(limit.fresh(clock.now())));
/// let limiter = RateLimiter::new(limit, OneBucket { state, clock });
/// assert_eq!(limiter.check_cost(&(), 2).now().remaining(), 0);
/// assert!(!limiter.check(&()).now().is_admitted());
/// limiter.refund(&(), 1).now();
/// assert!(limiter.check(&()).now().is_admitted());
/// limiter.reset(&()).now();
/// assert_eq!(limiter.peek(&()).now().remaining(), 2);
/// ```
///
/// # What an implementor must do
///
/// Do what [`Store`] asks for, and give the same answers by both traits: the methods of `Store`
/// return `Answer::Now(Ok(..))` with the answers of this one. A store that may have no answer,
/// because it is full, say, should not implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not answer at once",
    label = "there is no `.now()` over this store",
    note = "`.await` the call: its answer is still to come. `.now()` is for stores in memory, as `tollgate::store::LocalStore`",
    note = "a store of your own that never waits and never fails may implement `tollgate::store::ImmediateStore<{A}, {K}>`"
)]
pub trait ImmediateStore<A: Limit, K: Key>: Store<A, K> {
    /// Admits and charges the cost, or refuses it and charges nothing.
    fn decide_now<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        cost: u32,
    ) -> Verdict<A::Snapshot>;

    /// What would be decided about the cost; charges nothing.
    fn peek_now<Q: AsKey<K> + ?Sized>(&self, limit: &A, key: &Q, cost: u32)
    -> Verdict<A::Snapshot>;

    /// Gives units back, never more than were charged.
    fn refund_now<Q: AsKey<K> + ?Sized>(&self, limit: &A, key: &Q, cost: u32);

    /// Charges units whether they fit or not; see [`Store::debit`].
    fn debit_now<Q: AsKey<K> + ?Sized>(&self, limit: &A, key: &Q, units: u32);

    /// Settles what an admission holds; see [`Store::settle`].
    fn settle_now<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        admission: &A::Snapshot,
        held_and_spent: (u32, u32),
    );

    /// Makes the key as good as one that was never seen.
    fn reset_now<Q: AsKey<K> + ?Sized>(&self, limit: &A, key: &Q);
}
