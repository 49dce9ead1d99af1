//! A store over a real server, for tests that are not async: it is used like the store in memory.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use fred::clients::Client;
use proptest::{strategy::Strategy, test_runner::TestCaseResult};
use tokio::runtime::{Builder, Runtime};
use tollgate::{
    clock::Clock,
    store::{RedisConnection, RedisStore, RedisStoreBuilder},
};
use tollgate_properties::for_so_many;

use crate::server::Server;

/// The builder of a store whose deadline no busy machine misses.
pub fn patient(connection: impl Into<RedisConnection>) -> RedisStoreBuilder {
    RedisStore::builder(connection).deadline(Duration::from_secs(30))
}

/// How many histories run at once.
const WORKERS: u32 = 12;

/// A server with one client, and limiters over it, each with a key of its own.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    client: Client,
    keys: AtomicU64,
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
        patient(self.client.clone()).clock(clock).build()
    }

    /// A store with a long deadline, the server's clock and this prefix.
    pub fn store_with_prefix(&self, prefix: &str) -> RedisStore {
        patient(self.client.clone()).prefix(prefix).build()
    }

    /// A key that was never used.
    pub fn new_key(&self) -> String {
        format!("key {}", self.keys.fetch_add(1, Ordering::Relaxed))
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
