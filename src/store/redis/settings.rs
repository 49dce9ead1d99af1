//! The settings of the store's connections, and how one is made from them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::config::{
        Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, UnresponsiveConfig,
    },
};
use tokio::{task::JoinHandle, time::timeout};

use super::{link::Link, lock};

/// The shortest timeout of each step of a handshake.
const MIN_HANDSHAKE: Duration = Duration::from_secs(1);

/// The settings of the caller's client, except for those that the store sets itself.
#[derive(Clone)]
pub(super) struct Settings {
    config: Config,
    connection: ConnectionConfig,
    performance: PerformanceConfig,
    /// The timeout of each step of a handshake.
    handshake: Duration,
    /// How long a decision may take.
    pub(super) deadline: Duration,
    pub(super) history: Arc<History>,
}

/// The record of earlier connections, to any server.
#[derive(Default)]
pub(super) struct History {
    /// How often a lost or hung connection was replaced.
    reconnects: AtomicU64,
    /// The last answer over a connection that is gone.
    last_answer: Mutex<Option<Instant>>,
}

impl History {
    pub(super) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(super) fn last_answer(&self) -> Option<Instant> {
        *lock(&self.last_answer)
    }

    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_ended(&self, link: &Link) {
        let mut last = lock(&self.last_answer);
        *last = (*last).max(link.last_answer());
    }
}

impl Settings {
    pub(super) fn of(client: &Client, deadline: Duration) -> Self {
        let handshake = MIN_HANDSHAKE.max(deadline.saturating_mul(4));
        let mut connection = ConnectionConfig {
            connection_timeout: handshake,
            internal_command_timeout: handshake,
            max_command_attempts: 1,
            // The store itself bounds how many commands wait.
            max_command_buffer_len: 0,
            // The store itself notices a connection that hangs.
            unresponsive: UnresponsiveConfig {
                max_timeout: None,
                ..UnresponsiveConfig::default()
            },
            ..client.connection_config().clone()
        };
        // Commands are small: each is sent at once, and not when TCP has acknowledged the one
        // before.
        connection.tcp.nodelay = connection.tcp.nodelay.or(Some(true));
        Self {
            config: Config {
                fail_fast: true,
                ..client.client_config()
            },
            connection,
            performance: client.perf_config(),
            handshake,
            deadline,
            history: Arc::default(),
        }
    }

    /// The server, if the settings name one; `None` for a cluster or Sentinel.
    pub(super) fn server(&self) -> Option<Server> {
        match &self.config.server {
            ServerConfig::Centralized { server } => Some(server.clone()),
            _ => None,
        }
    }

    /// What the server is called in events: its address, or which primary it is.
    pub(super) fn name(&self) -> String {
        match &self.config.server {
            ServerConfig::Centralized { server } => server.to_string(),
            ServerConfig::Sentinel { service_name, .. } => {
                format!("the primary of {service_name}")
            }
            other => {
                let hosts: Vec<_> = other.hosts().iter().map(ToString::to_string).collect();
                hosts.join(", ")
            }
        }
    }

    pub(super) fn is_clustered(&self) -> bool {
        self.config.server.is_clustered()
    }

    pub(super) fn hosts(&self) -> Vec<Server> {
        self.config.server.hosts()
    }

    /// The same settings for one node of a cluster.
    pub(super) fn of_node(&self, server: Server) -> Self {
        let mut settings = self.clone();
        settings.config.server = ServerConfig::Centralized { server };
        settings
    }

    /// Connects a new client. It does not reconnect: when its connection ends, so does its task.
    pub(super) async fn connect(&self) -> Result<(Client, ConnectionTask), Error> {
        let client = Client::new(
            self.config.clone(),
            Some(self.performance.clone()),
            Some(self.connection.clone()),
            None,
        );
        let mut running = ConnectionTask(client.connect());
        // Sentinel needs several steps, and fred has no timeout for one of them.
        let limit = 6 * self.handshake;
        let connected = async {
            tokio::select! {
                biased;
                error = running.ended() => Err(error),
                connected = client.wait_for_connect() => connected,
            }
        };
        match timeout(limit, connected).await {
            Ok(connected) => connected.map(|()| (client, running)),
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                "the handshake did not end in time",
            )),
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
