//! The servers that a store's commands are sent to: one, or the nodes of a cluster, and which of
//! them holds a slot. Each has its own connections, so that a node that is down or hangs delays no
//! calls to others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fred::{
    prelude::Value,
    types::{Resp3Frame, cluster::ClusterRouting, config::Server},
};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::sleep,
};

use crate::error::{StoreError, StoreErrorKind};

use super::{failure, lock, node::Node, settings::Settings};

/// How often the slots are asked for while a node fails.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);
/// If a node has not told the slots after this, the next one is asked too.
const NEXT_NODE_AFTER: Duration = Duration::from_millis(20);
/// How long a node may take to tell the slots.
const PATIENCE: Duration = Duration::from_secs(1);

/// The server or cluster that a store's commands are sent to.
pub(super) struct Servers {
    pub(super) settings: Settings,
    /// The only server, or the primary behind Sentinel; none in a cluster.
    pub(super) only: Option<Arc<Node>>,
    nodes: Mutex<HashMap<Server, Arc<Node>>>,
    slots: watch::Sender<Slots>,
    /// When the last refresh has begun, and its task.
    last_refresh: Mutex<Option<(Instant, AbortHandle)>>,
}

/// Which node holds which slot, or why no node has told; none at first.
type Slots = Option<Result<ClusterRouting, StoreError>>;

impl Servers {
    pub(super) fn new(settings: Settings) -> Self {
        let is_alone = !settings.is_clustered();
        Self {
            only: is_alone.then(|| Arc::new(Node::new(settings.clone()))),
            settings,
            nodes: Mutex::default(),
            slots: watch::Sender::new(None),
            last_refresh: Mutex::default(),
        }
    }

    /// The slot of a key; 0 outside of a cluster, where nobody needs it.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        match &self.only {
            Some(_) => 0,
            None => fred::util::redis_keyslot(key),
        }
    }

    /// The node that holds the slot. At first this waits until a node has told the slots.
    pub(super) async fn node_of(self: &Arc<Self>, slot: u16) -> Result<Arc<Node>, StoreError> {
        let mut slots = self.slots.subscribe();
        loop {
            if let Some(known) = self.known_node_of(slot) {
                return known.inspect_err(|_| self.refresh());
            }
            self.refresh();
            let _ = slots.changed().await;
        }
    }

    /// The node that holds the slot, as far as is known.
    pub(super) fn known_node_of(&self, slot: u16) -> Option<Result<Arc<Node>, StoreError>> {
        if let Some(only) = &self.only {
            return Some(Ok(Arc::clone(only)));
        }
        let holder = match &*self.slots.borrow() {
            Some(Ok(slots)) => slots.get_server(slot).cloned(),
            Some(Err(error)) => return Some(Err(error.clone())),
            None => return None,
        };
        Some(match holder {
            Some(server) => Ok(self.node(&server)),
            None => Err(failure::unavailable(format!(
                "no node of the cluster holds slot {slot}"
            ))),
        })
    }

    /// The node at this address, to which a command is redirected.
    pub(super) fn redirected(self: &Arc<Self>, server: &Server) -> Result<Arc<Node>, StoreError> {
        self.refresh();
        match self.only {
            None => Ok(self.node(server)),
            Some(_) => Err(failure::misconfigured(
                "Redis is a cluster, and the client is set up for one server",
            )),
        }
    }

    /// Asks the nodes of a cluster for the slots in a task, as one has failed or lost a slot; not
    /// if a task does so, or has begun to less than [`REFRESH_INTERVAL`] ago.
    pub(super) fn refresh(self: &Arc<Self>) {
        let mut last = lock(&self.last_refresh);
        let is_done = |(at, task): &(Instant, AbortHandle)| {
            at.elapsed() >= REFRESH_INTERVAL && task.is_finished()
        };
        if self.only.is_none() && last.as_ref().is_none_or(is_done) {
            let servers = Arc::clone(self);
            let task = tokio::spawn(async move { servers.refresh_slots().await });
            *last = Some((Instant::now(), task.abort_handle()));
        }
    }

    fn node(&self, server: &Server) -> Arc<Node> {
        let mut nodes = lock(&self.nodes);
        let new = || Arc::new(Node::new(self.settings.of_node(server.clone())));
        Arc::clone(nodes.entry(server.clone()).or_insert_with(new))
    }

    async fn refresh_slots(&self) {
        match self.ask_nodes().await {
            Ok(slots) => {
                let holders = slots.unique_primary_nodes();
                let is_gone = |server: &Server, _: &mut _| !holders.contains(server);
                let gone: Vec<_> = lock(&self.nodes).extract_if(is_gone).collect();
                // Dropped without the lock. Calls that wait for their answers keep them alive.
                drop(gone);
                self.slots.send_replace(Some(Ok(slots)));
            }
            // Slots that were known before are better than none.
            Err(error) if !matches!(&*self.slots.borrow(), Some(Ok(_))) => {
                self.slots.send_replace(Some(Err(error)));
            }
            Err(_) => {}
        }
    }

    /// The first answer of the nodes that are known or set up. They are asked one after the other,
    /// each [`NEXT_NODE_AFTER`] after the one before.
    async fn ask_nodes(&self) -> Result<ClusterRouting, StoreError> {
        for seed in self.settings.hosts() {
            self.node(&seed);
        }
        let mut asked = JoinSet::new();
        for (number, node) in (0..).zip(lock(&self.nodes).values().cloned()) {
            asked.spawn(async move {
                sleep(number * NEXT_NODE_AFTER).await;
                slots_from(&node).await
            });
        }
        let mut failed = failure::unavailable("no node of the cluster answers");
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(slots)) => return Ok(slots),
                // If there is one that the operator has to fix, that is told.
                Ok(Err(error)) if failed.kind() != StoreErrorKind::Misconfigured => failed = error,
                Ok(Err(_)) | Err(_) => {}
            }
        }
        Err(failed)
    }
}

async fn slots_from(node: &Node) -> Result<ClusterRouting, StoreError> {
    let link = node.link(true).await?;
    let command = ("CLUSTER", vec![Value::from_static_str("SLOTS")]);
    let answer = match link.send(command, false, PATIENCE).await? {
        Resp3Frame::SimpleError { data, .. } => return Err(failure::redis_error(&data)),
        answer => answer,
    };
    let slots = Value::try_from(answer)
        .and_then(|slots| ClusterRouting::from_cluster_slots(slots, &*node.host));
    match slots {
        Ok(slots) if slots.len() > 0 => Ok(slots),
        _ => Err(failure::unavailable("the node knows of no slots")),
    }
}
