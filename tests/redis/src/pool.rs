//! Stores that are used again. A store composes its scripts at their first use, which takes as long
//! as hundreds of decisions.

use std::{
    ops::DerefMut,
    sync::{Arc, Mutex, PoisonError},
};

use tollgate::{
    Timestamp,
    clock::{Clock, ManualClock},
    store::RedisStore,
};

/// Shows the time of another clock, which can be exchanged.
#[derive(Debug, Clone)]
pub struct SwappedClock(Arc<Mutex<ManualClock>>);

impl SwappedClock {
    fn swap(&self, clock: ManualClock) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = clock;
    }
}

impl Clock for SwappedClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now()
    }
}

type FreeStores = Mutex<Vec<(RedisStore, SwappedClock)>>;

/// Stores that nobody uses.
#[derive(Debug, Clone, Default)]
pub struct StorePool {
    free: Arc<FreeStores>,
}

impl StorePool {
    /// A store that nobody else uses, which reads the time from this clock from now on; a new one
    /// if all are in use.
    pub fn take(
        &self,
        clock: ManualClock,
        make: impl FnOnce(SwappedClock) -> RedisStore,
    ) -> PooledStore {
        let free = self.lock().pop();
        let (store, swapped) = free.unwrap_or_else(|| {
            let swapped = SwappedClock(Arc::new(Mutex::new(clock.clone())));
            (make(swapped.clone()), swapped)
        });
        swapped.swap(clock);
        PooledStore {
            pool: self.clone(),
            taken: (store, swapped),
        }
    }

    fn lock(&self) -> impl DerefMut<Target = Vec<(RedisStore, SwappedClock)>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store of a pool, until it is dropped.
#[derive(Debug)]
pub struct PooledStore {
    pool: StorePool,
    taken: (RedisStore, SwappedClock),
}

impl PooledStore {
    /// The store. Its clones must be gone before this is.
    pub fn store(&self) -> RedisStore {
        self.taken.0.clone()
    }
}

impl Drop for PooledStore {
    fn drop(&mut self) {
        let taken = self.taken.clone();
        self.pool.lock().push(taken);
    }
}
