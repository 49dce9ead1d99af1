//! The settings of the store's connections, and how one is made from them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fred::{
    clients::{Client, Pool},
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{
        Builder,
        config::{Config, ReconnectPolicy, Server, ServerConfig},
    },
};
use tokio::{task::JoinHandle, time::sleep};

use crate::error::ConfigError;

use super::usage::RedisUsage;

/// The shortest timeout of each step of a handshake.
const MIN_HANDSHAKE: Duration = Duration::from_secs(1);

/// The settings by which a [`RedisStore`](super::RedisStore) connects: those of a `fred` client or
/// pool, with its TLS, user, socket and topology (one server, Sentinel, Cluster).
///
/// Only the settings are taken: the client need not be connected, and is not used otherwise. The
/// store makes its own connections at the first decision, and ends them when it is dropped: one to
/// each server, or for a pool as many as it has clients. In a cluster each node has its own, so
/// that one that is down or hangs delays no calls to others.
///
/// Some of the client's settings are replaced by the store's own:
///
/// - Each command is sent once, fails at once while there is no connection, and ends with the
///   store's deadline. What has not left the process by then is not sent.
/// - A connection is replaced when decisions on it miss their deadline and nothing is answered for
///   a second, or for the deadline if that is longer. Until then a pool uses its other connections.
/// - After three deadlines in a row were missed on a connection, no decision is sent over it until
///   a probe is answered in time: decisions fail at once, or take the other connections of a pool.
///   One probe at a time is sent, the next at most half a second after the last.
/// - A lost connection is made again at once, then after 20 ms, and after 500 ms at most, for ever.
///   Each step of the handshake may take a second, or four deadlines if that is longer.
/// - The slots of a cluster are asked for again, four times a second, while calls to one of its
///   nodes fail.
///
/// Over TLS the certificate of a cluster's node is checked against the name or address by which the
/// cluster knows the node; fred's mapping of host names is not used.
#[derive(Clone)]
pub struct RedisConnection {
    client: Client,
    connections: usize,
}

impl RedisConnection {
    /// One connection to each server of a URL: `redis://[user:password@]host:port[/database]`,
    /// `redis-cluster://..` or `redis-sentinel://..`, as `fred`'s `Config::from_url` reads them.
    /// `rediss://..` is over TLS, and `redis+unix://path` over a socket: for these your program
    /// builds `fred` with its feature `enable-rustls` or `unix-sockets`.
    ///
    /// Nothing is sent: the store connects at the first decision.
    ///
    /// # Errors
    ///
    /// The URL cannot be read. The error does not repeat it.
    ///
    /// # Example: a store with nothing but a URL
    ///
    /// ```
    /// use tollgate::store::{RedisConnection, RedisStore};
    ///
    /// let redis = RedisConnection::from_url("redis://app:s3cret@127.0.0.1:6379")?;
    /// let store = RedisStore::new(redis);
    ///
    /// let error = RedisConnection::from_url("redis//app:s3cret@127.0.0.1").err().unwrap();
    /// assert!(error.to_string().starts_with("the URL of Redis is not one such as"));
    /// assert!(!error.to_string().contains("s3cret"));
    /// # let _ = store;
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let invalid = |why: &str| ConfigError::InvalidRedisUrl(why.to_owned());
        // `fred` takes every scheme, and does without TLS if it was built so.
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let (protocol, topology) = scheme.split_at(scheme.find(['-', '+']).unwrap_or(scheme.len()));
        let is_tls = ["rediss", "valkeys"].contains(&protocol);
        let is_known = is_tls || ["redis", "valkey"].contains(&protocol);
        if !is_known || !["", "-cluster", "-sentinel", "+unix"].contains(&topology) {
            return Err(invalid("it has another scheme"));
        }
        let made_by_fred = Config::from_url(url)
            .and_then(|config| Ok((config.uses_tls(), Builder::from_config(config).build()?)));
        match made_by_fred {
            Ok((uses_tls, _)) if is_tls != uses_tls => Err(invalid("`fred` was built without TLS")),
            Ok((_, client)) => Ok(Client::into(client)),
            Err(error) => Err(invalid(error.details())),
        }
    }
}

impl From<Client> for RedisConnection {
    fn from(client: Client) -> Self {
        Self {
            client,
            connections: 1,
        }
    }
}

impl From<Pool> for RedisConnection {
    fn from(pool: Pool) -> Self {
        let clients = pool.clients();
        Self {
            client: clients[0].clone(),
            connections: clients.len(),
        }
    }
}

/// The settings of the caller's client, except for those that the store sets itself.
#[derive(Clone)]
pub(super) struct Settings {
    /// Has them, and is not connected.
    client: Client,
    /// How many connections there are to each server.
    pub(super) connections: usize,
    /// How many commands may be unanswered on each.
    pub(super) max_unanswered: usize,
    /// How long a decision may take.
    pub(super) deadline: Duration,
    pub(super) usage: Arc<Mutex<RedisUsage>>,
}

impl Settings {
    pub(super) fn of(of: &RedisConnection, max_unanswered: usize, deadline: Duration) -> Self {
        let mut config = of.client.client_config();
        config.fail_fast = true;
        let mut connection = of.client.connection_config().clone();
        let handshake = MIN_HANDSHAKE.max(deadline.saturating_mul(4));
        connection.connection_timeout = handshake;
        connection.internal_command_timeout = handshake;
        connection.max_command_attempts = 1;
        // The store itself bounds how many commands wait.
        connection.max_command_buffer_len = 0;
        // The store itself notices a connection that hangs.
        connection.unresponsive.max_timeout = None;
        // Commands are small: each is sent at once, and not when TCP has acknowledged the one
        // before.
        connection.tcp.nodelay = connection.tcp.nodelay.or(Some(true));
        let performance = of.client.perf_config();
        Self {
            // It does not reconnect: when its connection ends, so does its task.
            client: Client::new(config, Some(performance), Some(connection), None),
            connections: of.connections,
            max_unanswered,
            deadline,
            usage: Arc::default(),
        }
    }

    /// What the server is called in events: its address, or which primary it is.
    pub(super) fn name(&self) -> String {
        match self.client.client_config().server {
            ServerConfig::Sentinel { service_name, .. } => {
                format!("the primary of {service_name}")
            }
            server => {
                let hosts: Vec<_> = server.hosts().iter().map(ToString::to_string).collect();
                hosts.join(", ")
            }
        }
    }

    pub(super) fn is_clustered(&self) -> bool {
        self.client.is_clustered()
    }

    pub(super) fn hosts(&self) -> Vec<Server> {
        self.client.client_config().server.hosts()
    }

    /// The same settings for one node of a cluster.
    pub(super) fn of_node(&self, server: Server) -> Self {
        let mut config = self.client.client_config();
        config.server = ServerConfig::Centralized { server };
        let connection = self.client.connection_config().clone();
        let performance = self.client.perf_config();
        Self {
            client: Client::new(config, Some(performance), Some(connection), None),
            ..self.clone()
        }
    }

    /// Connects a new client.
    pub(super) async fn connect(&self) -> Result<(Client, ConnectionTask), Error> {
        let client = self.client.clone_new();
        let mut running = ConnectionTask(client.connect());
        tokio::select! {
            biased;
            error = running.ended() => Err(error),
            connected = client.wait_for_connect() => connected.map(|()| (client, running)),
            // Sentinel needs several steps, and fred has no timeout for one of them.
            () = sleep(6 * client.connection_config().connection_timeout) => {
                Err(Error::new(ErrorKind::Timeout, "the handshake did not end in time"))
            }
        }
    }
}

/// The task of a connection; dropping this ends it.
pub(super) struct ConnectionTask(JoinHandle<Result<(), Error>>);

impl ConnectionTask {
    /// Waits for the end of the connection.
    pub(super) async fn ended(&mut self) -> Error {
        match (&mut self.0).await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => Error::new(ErrorKind::Canceled, "the connection was closed"),
            Err(error) => Error::new(ErrorKind::Unknown, error.to_string()),
        }
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Pauses between attempts to reach a server: they double from 20 ms to half a second, and differ a
/// little, so that many processes do not come at the same instant.
pub(super) struct Pauses(ReconnectPolicy);

impl Pauses {
    pub(super) const MAX: Duration = Duration::from_millis(500);

    pub(super) fn new() -> Self {
        let mut policy = ReconnectPolicy::new_exponential(0, 20, Self::MAX.as_millis() as u32, 2);
        policy.set_jitter(20);
        Self(policy)
    }

    pub(super) async fn pause(&mut self) {
        let millis = self.0.next_delay();
        sleep(millis.map_or(Self::MAX, Duration::from_millis)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_something_else_is_refused_without_repeating_it() {
        let errors = [
            ("", "another scheme"),
            ("localhost:6379", "another scheme"),
            ("http://app:s3cret@localhost", "another scheme"),
            ("redis-sentinal://app:s3cret@localhost", "another scheme"),
            ("redis://", "host"),
            ("redis://app:s3cret@localhost/a/b", "database"),
            ("redis-sentinel://app:s3cret@localhost:1", "sentinel"),
        ];
        for (url, why) in errors {
            let error = RedisConnection::from_url(url).err().unwrap().to_string();
            assert!(error.contains(why), "{url}: {error}");
            assert!(!error.contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_url_over_tls_never_makes_a_connection_without() {
        for url in ["rediss://localhost", "valkeys-cluster://localhost:1"] {
            match RedisConnection::from_url(url) {
                Ok(connection) => assert!(connection.client.client_config().uses_tls()),
                Err(error) => assert!(error.to_string().contains("TLS"), "{error}"),
            }
        }
        for url in ["redis://localhost", "valkey-cluster://localhost:1"] {
            let connection = RedisConnection::from_url(url).unwrap();
            assert!(!connection.client.client_config().uses_tls());
        }
    }
}
