//! Clients with settings for tests: they reconnect at once and for ever, and give up a command
//! soon.

use std::{net::Ipv4Addr, time::Duration};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        Builder,
        config::{Config, ReconnectPolicy, ServerConfig},
    },
};

use crate::wait::{PATIENCE, within};

/// Where every server is.
pub(crate) fn host() -> String {
    Ipv4Addr::LOCALHOST.to_string()
}

/// A client of the one server on this port.
///
/// # Panics
///
/// When it does not connect.
pub async fn connect_to(port: u16) -> Client {
    connect(centralized(port)).await
}

/// A client that is connected. It reconnects every 50 ms; a command fails after 5 s, or after 3
/// connections that broke.
///
/// # Panics
///
/// When it does not connect.
pub async fn connect(config: Config) -> Client {
    let servers = config.server.clone();
    match within(PATIENCE, "a connection", try_connect(config)).await {
        Ok(client) => client,
        Err(error) => panic!("no connection to {servers:?}: {error}"),
    }
}

pub(crate) async fn try_connect(config: Config) -> Result<Client, fred::error::Error> {
    let mut policy = ReconnectPolicy::new_constant(0, 50);
    policy.set_jitter(0);
    let client = Builder::from_config(config)
        .set_policy(policy)
        .with_connection_config(|config| {
            config.connection_timeout = Duration::from_secs(5);
            config.internal_command_timeout = Duration::from_secs(5);
            config.max_command_attempts = 3;
            // Fewer than the attempts, or the first `ASK` ends the client for good: fred 10.1 does
            // not follow it, and stops its connections when the attempts run out first.
            config.max_redirections = 2;
        })
        .with_performance_config(|config| {
            config.default_command_timeout = Duration::from_secs(5);
        })
        .build()?;
    client.init().await?;
    Ok(client)
}

/// What a client needs to connect to the one server, or proxy, on this port.
pub fn centralized(port: u16) -> Config {
    Config {
        server: ServerConfig::new_centralized(host(), port),
        ..Config::default()
    }
}

/// A client that reconnects at once, and that the store connects.
///
/// # Panics
///
/// When the configuration contradicts itself.
pub fn unconnected(config: Config) -> Client {
    let policy = ReconnectPolicy::new_constant(0, 50);
    let mut builder = Builder::from_config(config);
    builder.set_policy(policy).build().unwrap()
}
