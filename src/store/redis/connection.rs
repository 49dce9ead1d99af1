//! Where the store's connections lead, and how many commands may be unanswered on each.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fred::{
    clients::{Client, Pool},
    types::config::Server,
};

use crate::error::StoreError;

use super::{
    cluster::Cluster,
    link::Link,
    node::Node,
    settings::{History, Settings},
};

/// What a [`RedisStore`](super::RedisStore) connects as: a `fred` client, or a pool of them, with
/// whatever TLS, users, sockets and topology (one server, Sentinel, Cluster) it was built with.
///
/// Only its settings are used: it need not be connected, and is left alone. The store makes
/// connections of its own at the first decision, and ends them when it is dropped: one to each
/// server, of a pool as many as it has clients. In a cluster each node has its own, so that one
/// that is ill holds up no other.
///
/// Some things the store decides itself, whatever the client's settings are:
///
/// - Each command is sent once, fails at once while there is no connection, and ends with the
///   store's deadline. What has not left the process by then is not sent.
/// - A connection on which decisions miss their deadline while nothing is answered for a second is
///   given up, and another one is made. Connections of a pool that do not answer are left out of
///   the turns meanwhile.
/// - A connection that is lost is made anew at once, then after 20 ms, and after 500 ms at most,
///   for ever. Each step of the handshake may take a second, or four deadlines if that is longer.
/// - The slots of a cluster are asked for again, four times a second, while one of its nodes is
///   ill.
///
/// Over TLS a node of a cluster is known by the name or the address that the cluster tells of it; a
/// mapping of host names in fred's settings is not used.
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

/// What a store's commands are sent to.
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
        let history = Arc::clone(settings.history());
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

    /// The connection to the node that holds the slot, if both are there and it answers.
    pub(super) fn link_in_turn(&self, slot: u16) -> Option<Arc<Link>> {
        match &self.kind {
            Kind::One(node) => node.link_in_turn(),
            Kind::Cluster(cluster) => cluster.known_node_of(slot)?.ok()?.link_in_turn(),
        }
    }

    /// The node that holds the slot, if that is known.
    pub(super) fn known_node_of(&self, slot: u16) -> Option<Result<Arc<Node>, StoreError>> {
        match &self.kind {
            Kind::One(node) => Some(Ok(Arc::clone(node))),
            Kind::Cluster(cluster) => cluster.known_node_of(slot),
        }
    }

    /// The node that holds the slot. At first this waits until a node has said who does.
    pub(super) async fn node_of(&self, slot: u16) -> Result<Arc<Node>, StoreError> {
        match &self.kind {
            Kind::One(node) => Ok(Arc::clone(node)),
            Kind::Cluster(cluster) => cluster.node_of(slot).await,
        }
    }

    /// Which server holds the slot, as far as is known.
    pub(super) fn server_of(&self, slot: u16) -> Option<Server> {
        match &self.kind {
            Kind::One(node) => node.server().cloned(),
            Kind::Cluster(cluster) => cluster.server_of(slot),
        }
    }

    /// The cluster, if it is one.
    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.kind {
            Kind::One(_) => None,
            Kind::Cluster(cluster) => Some(cluster),
        }
    }

    /// Whether no attempt to connect has come to its end: then whether Redis lets this client in is
    /// not known.
    pub(super) fn is_untried(&self) -> bool {
        match &self.kind {
            Kind::One(node) => node.is_untried(),
            Kind::Cluster(cluster) => cluster.is_untried(),
        }
    }

    /// How often a connection was made after another one was lost or given up.
    pub(super) fn reconnects(&self) -> u64 {
        self.history.reconnects()
    }

    /// How many commands are waited for.
    pub(super) fn waiting(&self) -> usize {
        self.each_link(|links| links.map(|link| link.waiting()).sum())
    }

    /// When any server last answered anything.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        let now = self.each_link(|links| links.filter_map(|link| link.last_answer()).max());
        now.max(self.history.last_answer())
    }

    fn each_link<T>(&self, read: impl FnOnce(&mut dyn Iterator<Item = Arc<Link>>) -> T) -> T {
        match &self.kind {
            Kind::One(node) => read(&mut node.links()),
            Kind::Cluster(cluster) => {
                let nodes = cluster.nodes();
                read(&mut nodes.iter().flat_map(|node| node.links()))
            }
        }
    }
}
