//! The servers that a store's commands are sent to.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fred::{
    clients::{Client, Pool},
    types::config::Server,
};

use crate::error::{StoreError, StoreErrorKind};

use super::{
    cluster::Cluster,
    link::Link,
    node::Node,
    settings::{History, Settings},
};

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
///   a second. Until then a pool uses its other connections.
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

/// The server or cluster that a store's commands are sent to.
pub(super) struct Servers {
    kind: Kind,
    history: Arc<History>,
    pub(super) max_unanswered: usize,
}

enum Kind {
    /// One server, or the primary behind Sentinel.
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Servers {
    pub(super) fn new(
        connection: &RedisConnection,
        max_unanswered: usize,
        deadline: Duration,
    ) -> Self {
        let settings = Settings::of(&connection.client, deadline);
        let connections = connection.connections;
        let history = Arc::clone(&settings.history);
        let kind = match settings.is_clustered() {
            true => Kind::Cluster(Arc::new(Cluster::new(settings, connections))),
            false => Kind::One(Arc::new(Node::new(&settings, connections))),
        };
        Self {
            kind,
            history,
            max_unanswered,
        }
    }

    /// The slot of a key; 0 outside of a cluster, where nobody needs it.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        match &self.kind {
            Kind::One(_) => 0,
            Kind::Cluster(_) => fred::util::redis_keyslot(key),
        }
    }

    /// Why no decision is sent: see [`Node::outage`]. In a cluster each node is checked by itself.
    #[inline]
    pub(super) fn outage(&self) -> Option<StoreError> {
        match &self.kind {
            Kind::One(node) => node.outage(),
            Kind::Cluster(_) => None,
        }
    }

    /// The node that holds the slot, if that is known.
    pub(super) fn known_node_of(&self, slot: u16) -> Option<Result<Arc<Node>, StoreError>> {
        match &self.kind {
            Kind::One(node) => Some(Ok(Arc::clone(node))),
            Kind::Cluster(cluster) => cluster.known_node_of(slot),
        }
    }

    /// The node that holds the slot. At first this waits until a node has told the slots.
    pub(super) async fn node_of(&self, slot: u16) -> Result<Arc<Node>, StoreError> {
        match &self.kind {
            Kind::One(node) => Ok(Arc::clone(node)),
            Kind::Cluster(cluster) => cluster.node_of(slot).await,
        }
    }

    /// Which server holds the slot, as far as is known.
    pub(super) fn server_of(&self, slot: u16) -> Option<Server> {
        self.known_node_of(slot)?.ok()?.server().cloned()
    }

    /// A node has failed or lost a slot: asks for the slots again.
    pub(super) fn node_failed(&self) {
        if let Kind::Cluster(cluster) = &self.kind {
            cluster.request_refresh();
        }
    }

    /// The node at this address, to which a command is redirected.
    pub(super) fn redirected(&self, server: &Server) -> Result<Arc<Node>, StoreError> {
        self.node_failed();
        match &self.kind {
            Kind::Cluster(cluster) => Ok(cluster.node(server)),
            Kind::One(_) => Err(StoreError::new(
                StoreErrorKind::Misconfigured,
                "Redis is a cluster, and the client is set up for one server",
            )),
        }
    }

    /// Whether the first attempt to connect has not ended: then whether Redis accepts this client
    /// is not known.
    pub(super) fn is_untried(&self) -> bool {
        match &self.kind {
            Kind::One(node) => node.is_untried(),
            Kind::Cluster(cluster) => cluster.is_untried(),
        }
    }

    /// How often a lost or hung connection was replaced.
    pub(super) fn reconnects(&self) -> u64 {
        self.history.reconnects()
    }

    /// How many commands are neither answered nor timed out.
    pub(super) fn awaited(&self) -> usize {
        self.links().iter().map(|link| link.awaited()).sum()
    }

    /// When any server last answered anything.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        let links = self.links();
        let now = links.iter().filter_map(|link| link.last_answer()).max();
        now.max(self.history.last_answer())
    }

    fn links(&self) -> Vec<Arc<Link>> {
        match &self.kind {
            Kind::One(node) => node.links().collect(),
            Kind::Cluster(cluster) => {
                let nodes = cluster.nodes();
                nodes.iter().flat_map(|node| node.links()).collect()
            }
        }
    }
}
