//! A store over a real server, for tests that are not async: it is used like the store in memory.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use fred::clients::Client;
use proptest::{strategy::Strategy, test_runner::TestCaseResult};
use tokio::runtime::{Builder, Handle, Runtime};
use tollgate::{
    Decision,
    clock::{Clock, ManualClock},
    store::RedisStore,
};
use tollgate_properties::{
    for_so_many,
    shared::SharedLimiter,
    subject::{Bucket, Limiter},
};

use crate::{
    pool::{PooledStore, StorePool},
    server::Server,
};

/// How many histories run at once.
const WORKERS: u32 = 12;

/// A server with one client, and limiters over it, each with a key of its own.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    client: Client,
    keys: AtomicU64,
    stores: StorePool,
    runtime: Runtime,
}

impl Redis {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// When there is no thread for the client.
    pub fn start() -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread for the client");
        let server = runtime.block_on(Server::start());
        let client = runtime.block_on(server.client());
        Self {
            server,
            client,
            keys: AtomicU64::new(0),
            stores: StorePool::default(),
            runtime,
        }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The client of all limiters.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for a future.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// A store with a long deadline, which reads the time from this clock.
    pub fn store(&self, clock: impl Clock) -> RedisStore {
        let builder = RedisStore::builder(self.client.clone()).clock(clock);
        builder.deadline(Duration::from_secs(20)).build()
    }

    /// The same, but perhaps used before by another test of this server, with other keys.
    pub fn pooled_store(&self, clock: ManualClock) -> PooledStore {
        self.stores.take(clock, |clock| self.store(clock))
    }

    /// A store with a long deadline, the server's clock and this prefix.
    pub fn store_with_prefix(&self, prefix: &str) -> RedisStore {
        let builder = RedisStore::builder(self.client.clone()).prefix(prefix);
        builder.deadline(Duration::from_secs(20)).build()
    }

    /// A key that was never used.
    pub fn new_key(&self) -> String {
        format!("key {}", self.keys.fetch_add(1, Ordering::Relaxed))
    }

    /// A limiter for a key that was never used.
    pub fn limiter(&self, bucket: &dyn Bucket, clock: ManualClock) -> Box<dyn Limiter> {
        let pooled = self.pooled_store(clock);
        let limiter = bucket.limiter_over(pooled.store(), self.new_key(), bucket);
        Box::new(self.blocking_over(limiter, Some(pooled)))
    }

    /// A limiter that waits for each answer.
    pub fn blocking(&self, limiter: Box<dyn SharedLimiter>) -> Box<dyn Limiter> {
        Box::new(self.blocking_over(limiter, None))
    }

    fn blocking_over(
        &self,
        limiter: Box<dyn SharedLimiter>,
        store: Option<PooledStore>,
    ) -> Blocking {
        Blocking {
            limiter,
            _store: store,
            runtime: self.runtime.handle().clone(),
            is_known: Cell::new(false),
        }
    }

    /// Runs a property on so many random values, several at once; on more or fewer as
    /// `TOLLGATE_CASES` is more or less than 2 000.
    pub fn for_all<S: Strategy>(
        &self,
        cases: u32,
        values: impl Fn() -> S + Sync,
        property: impl Fn(S::Value) -> TestCaseResult + Sync,
    ) {
        let cases = u64::from(cases) * u64::from(tollgate_properties::cases()) / 2_000;
        let of_each = u32::try_from(cases.div_ceil(WORKERS.into())).unwrap_or(u32::MAX);
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| for_so_many(of_each.max(1), values(), &property));
            }
        });
    }
}

struct Blocking {
    limiter: Box<dyn SharedLimiter>,
    /// Returns to the pool when it is dropped.
    _store: Option<PooledStore>,
    runtime: Handle,
    is_known: Cell<bool>,
}

impl Limiter for Blocking {
    fn check(&self, cost: u32) -> Decision {
        let decision = self.runtime.block_on(self.limiter.check(cost));
        let decision = decision.unwrap_or_else(|error| panic!("a decision of {cost}: {error:?}"));
        let charged = decision.is_admitted() && cost > 0;
        self.is_known.set(self.is_known.get() || charged);
        decision
    }

    fn peek(&self) -> Decision {
        let decision = self.runtime.block_on(self.limiter.peek());
        decision.unwrap_or_else(|error| panic!("a look: {error:?}"))
    }

    fn debit(&self, units: u32) {
        let debited = self.runtime.block_on(self.limiter.debit(units));
        debited.unwrap_or_else(|error| panic!("a debit: {error:?}"));
        self.is_known.set(self.is_known.get() || units > 0);
    }

    fn refund(&self, cost: u32) {
        let refunded = self.runtime.block_on(self.limiter.refund(cost));
        refunded.unwrap_or_else(|error| panic!("a refund: {error:?}"));
    }

    fn reset(&self) {
        let reset = self.runtime.block_on(self.limiter.reset());
        reset.unwrap_or_else(|error| panic!("a reset: {error:?}"));
        self.is_known.set(false);
    }

    /// With a clock of the caller's every key stays for a minute at least.
    fn is_known(&self) -> bool {
        self.is_known.get()
    }
}
