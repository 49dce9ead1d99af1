//! Real servers for tests, and their faults.
//!
//! Each is a child process on loopback, on a port and in a directory of its own, and is gone when
//! its fixture is dropped or the test process ends in whatever way. Every wait has a timeout, and
//! says what did not come.
//!
//! The server is the one that `REDIS_SERVER` names, or `redis-server`, or `valkey-server`.

mod client;
mod cluster;
mod distance;
mod fickle;
mod inspect;
mod monitor;
mod pool;
mod port;
mod process;
mod proxy;
mod raw;
mod seen;
mod sentinels;
mod server;
mod stepped;
mod store;
mod twin;
mod wait;
mod worker;

pub use crate::{
    client::{connect, connect_to},
    cluster::{Cluster, slot_of},
    distance::far_away,
    fickle::Fickle,
    monitor::{Monitor, Told},
    pool::{PooledStore, StorePool, SwappedClock},
    proxy::Proxy,
    sentinels::Sentinels,
    server::Server,
    stepped::SteppedServer,
    store::Redis,
    twin::{Twin, the_decisions_are_the_rules},
    wait::{until, within},
    worker::Worker,
};
