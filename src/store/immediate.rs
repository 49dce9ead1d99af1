//! The stores that answer at once.

use crate::{algorithm::Limit, key::Key};

use super::Store;

pub(crate) const ANSWERS_AT_ONCE: &str = "an `ImmediateStore` answers at once, and never fails";

/// A store that answers every call at once and never fails, as
/// [`LocalStore`](crate::store::LocalStore) does: so `limiter.check("bob").now()` is a plain
/// [`Decision`](crate::Decision), without async.
///
/// # Example: one bucket in a mutex
///
/// ```
/// use std::{future::Pending, sync::{Arc, Mutex}};
/// use tollgate::algorithm::{FixedWindow, KeyLimit, Limit};
/// use tollgate::clock::{Clock, SystemClock};
/// use tollgate::store::{Answer, Ask, AsKey, Change, Decided, ImmediateStore, Store, Written};
/// use tollgate::{Quota, RateLimiter};
///
/// type Snapshot = <FixedWindow as Limit>::Snapshot;
///
/// /// Has one bucket, of one policy, and no keys.
/// #[derive(Clone)]
/// struct OneBucket {
///     state: Arc<Mutex<<FixedWindow as KeyLimit>::State>>,
///     clock: SystemClock,
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
///         _key: &Q,
///         ask: Ask,
///     ) -> Answer<Decided<FixedWindow>, Self::Deciding> {
///         let mut state = self.state.lock().unwrap();
///         Answer::Now(Ok(ask.decide(limit, &mut state, self.clock.now())))
///     }
///     fn change<Q: AsKey<()> + ?Sized>(
///         &self,
///         limit: &FixedWindow,
///         _key: &Q,
///         change: Change<'_, Snapshot>,
///     ) -> Answer<Written, Self::Writing> {
///         let mut state = self.state.lock().unwrap();
///         change.apply(limit, &mut state, self.clock.now());
///         Answer::Now(Ok(()))
///     }
/// }
///
/// impl ImmediateStore<FixedWindow, ()> for OneBucket {}
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
/// Do what [`Store`] asks for, and always answer `Answer::Now(Ok(..))`: with another answer
/// `.now()` panics. A store that may have no answer, because it is full, say, should not implement
/// it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not answer at once",
    label = "there is no `.now()` over this store",
    note = "`.await` the call: its answer is still to come. `.now()` is for stores in memory, as `tollgate::store::LocalStore`",
    note = "a store of your own that never waits and never fails may implement `tollgate::store::ImmediateStore<{A}, {K}>`"
)]
pub trait ImmediateStore<A: Limit, K: Key>: Store<A, K> {}
