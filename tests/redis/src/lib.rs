//! Real servers for tests, and their faults.
//!
//! Each is a child process on loopback, on a port and in a directory of its own, and is gone when
//! its fixture is dropped or the test process ends in whatever way. Every wait has a timeout, and
//! says what did not come.
//!
//! The server is the one that `REDIS_SERVER` names, or `redis-server`, or `valkey-server`.

mod client;
mod cluster;
mod fickle;
mod inspect;
mod link;
mod monitor;
mod over_redis;
mod port;
mod process;
mod proxy;
mod raw;
pub mod rights;
mod seen;
mod sentinels;
mod server;
mod stepped;
mod store;
mod wait;
mod worker;

pub use crate::{
    client::{centralized, connect, connect_to, unconnected},
    cluster::{Cluster, slot_of},
    fickle::Fickle,
    inspect::Counted,
    link::Link,
    monitor::{Command, Monitor},
    over_redis::{every_algorithm, redis_decides_as_the_rule, store_decides_as_the_rule},
    proxy::Proxy,
    sentinels::Sentinels,
    server::Server,
    stepped::SteppedServer,
    store::{Redis, patient},
    wait::{comes, crowd, until, within},
    worker::Worker,
};
