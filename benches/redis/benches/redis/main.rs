//! What decisions cost Redis, and what the layer costs on the way to it: ratios within one run.
//!
//! `cargo bench -p tollgate-redis-benches` starts a server of its own, and takes a minute. Behind
//! each number stands in brackets what it should be. All cases take turns, several times, and the
//! best turn of each counts.

mod decisions;
mod leases;
mod log;
mod measure;
mod throughput;

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        Builder,
        config::{PerformanceConfig, ReconnectPolicy},
    },
};
use tollgate_redis_tests::Server;

#[tokio::main]
async fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let server = Server::start().await;
    let client = client(&server).await;
    let version = server.info_field("server", "redis_version").await;
    println!("Redis {}\n", version.unwrap_or_default());
    decisions::compare(&server, &client).await;
    log::compare(&server, &client).await;
    throughput::compare(&server, &client).await;
    leases::compare(&server, &client).await;
}

/// One connection, set up as the README says.
async fn client(server: &Server) -> Client {
    let client = Builder::from_config(server.config())
        .with_connection_config(|connection| connection.tcp.nodelay = Some(true))
        .set_performance_config(PerformanceConfig::default())
        .set_policy(ReconnectPolicy::new_exponential(0, 100, 5_000, 2))
        .build()
        .expect("a client");
    client.init().await.expect("a connection");
    client
}
