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
use tollgate_properties::{call::Call, for_so_many, shared::SharedLimiter, subject::Limiter};

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

    /// A limiter that waits for each answer.
    pub fn blocking(&self, limiter: Box<dyn SharedLimiter>) -> Box<dyn Limiter> {
        Box::new(Blocking {
            limiter,
            runtime: self.runtime.handle().clone(),
            is_known: Cell::new(false),
        })
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
    runtime: Handle,
    is_known: Cell<bool>,
}

impl Limiter for Blocking {
    fn ask(&self, call: Call<'_>) -> Option<Decision> {
        let answer = self.runtime.block_on(self.limiter.ask(call));
        let told = answer.unwrap_or_else(|error| panic!("{call:?}: {error:?}"));
        let decision = told.map(|told| told.decision);
        let is_known = match call {
            Call::Check(cost) => cost > 0 && decision.as_ref().is_some_and(Decision::is_admitted),
            Call::Debit(units) => units > 0,
            _ => false,
        };
        let stays = self.is_known.get() && !matches!(call, Call::Reset);
        self.is_known.set(stays || is_known);
        decision
    }

    /// With a clock of the caller's every key stays for a minute at least.
    fn is_known(&self) -> bool {
        self.is_known.get()
    }
}
