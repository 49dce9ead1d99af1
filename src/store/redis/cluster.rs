//! Which node of a cluster holds a slot. Each node has its own connections, so that a node that is
//! down or hangs delays no calls to others.

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

pub(super) struct Cluster {
    settings: Settings,
    connections: usize,
    nodes: Mutex<HashMap<Server, Arc<Node>>>,
    slots: watch::Sender<Slots>,
    /// When the last refresh has begun, and its task.
    last_refresh: Mutex<Option<(Instant, AbortHandle)>>,
}

/// Which node holds which slot, or why no node has told; none at first.
type Slots = Option<Result<ClusterRouting, StoreError>>;

impl Cluster {
    pub(super) fn new(settings: Settings, connections: usize) -> Self {
        Self {
            settings,
            connections,
            nodes: Mutex::default(),
            slots: watch::Sender::new(None),
            last_refresh: Mutex::default(),
        }
    }

    /// The node that holds the slot. At first this waits until a node has told the slots.
    pub(super) async fn node_of(self: &Arc<Self>, slot: u16) -> Result<Arc<Node>, StoreError> {
        let mut slots = self.slots.subscribe();
        loop {
            if let Some(known) = self.known_node_of(slot) {
                return known;
            }
            self.request_refresh();
            let _ = slots.changed().await;
        }
    }

    pub(super) fn known_node_of(
        self: &Arc<Self>,
        slot: u16,
    ) -> Option<Result<Arc<Node>, StoreError>> {
        let holder = match &*self.slots.borrow() {
            None => return None,
            Some(Ok(slots)) => slots.get_server(slot).cloned(),
            Some(Err(error)) => {
                self.request_refresh();
                return Some(Err(error.clone()));
            }
        };
        Some(match holder {
            Some(server) => Ok(self.node(&server)),
            None => {
                self.request_refresh();
                let message = format!("no node of the cluster holds slot {slot}");
                Err(failure::unavailable(message))
            }
        })
    }

    /// The node at this address.
    pub(super) fn node(&self, server: &Server) -> Arc<Node> {
        let mut nodes = lock(&self.nodes);
        if let Some(node) = nodes.get(server) {
            return Arc::clone(node);
        }
        let node = Arc::new(self.new_node(server));
        nodes.insert(server.clone(), Arc::clone(&node));
        node
    }

    /// Whether the first attempt to learn the slots has not ended.
    pub(super) fn is_untried(&self) -> bool {
        self.slots.borrow().is_none()
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        lock(&self.nodes).values().cloned().collect()
    }

    /// Asks the nodes for the slots in a task, unless one does so, or has begun to less than
    /// [`REFRESH_INTERVAL`] ago.
    pub(super) fn request_refresh(self: &Arc<Self>) {
        let mut last = lock(&self.last_refresh);
        let is_done = |(at, task): &(Instant, AbortHandle)| {
            at.elapsed() >= REFRESH_INTERVAL && task.is_finished()
        };
        if last.as_ref().is_none_or(is_done) {
            let cluster = Arc::clone(self);
            let task = tokio::spawn(async move { cluster.refresh_slots().await });
            *last = Some((Instant::now(), task.abort_handle()));
        }
    }

    fn new_node(&self, server: &Server) -> Node {
        Node::new(&self.settings.of_node(server.clone()), self.connections)
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
            Err(error) => {
                self.slots.send_if_modified(|slots| {
                    // Slots that were known before are better than none.
                    let is_known = matches!(slots, Some(Ok(_)));
                    if !is_known {
                        *slots = Some(Err(error));
                    }
                    !is_known
                });
            }
        }
    }

    /// The first answer of the nodes. They are asked one after the other, healthy ones first, each
    /// [`NEXT_NODE_AFTER`] after the one before.
    async fn ask_nodes(&self) -> Result<ClusterRouting, StoreError> {
        let mut nodes = self.nodes();
        nodes.sort_by_key(|node| !node.is_healthy());
        let is_known = |server: &Server| nodes.iter().any(|node| node.server() == Some(server));
        let mut seeds = self.settings.hosts();
        seeds.retain(|server| !is_known(server));
        nodes.extend(seeds.iter().map(|seed| Arc::new(self.new_node(seed))));
        let mut asked = JoinSet::new();
        for (number, node) in (0..).zip(nodes) {
            asked.spawn(async move {
                sleep(number * NEXT_NODE_AFTER).await;
                slots_from(&node).await
            });
        }
        let mut failed = None;
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(slots)) => return Ok(slots),
                Ok(Err(error)) => failed = Some(more_severe(failed, error)),
                Err(_) => {}
            }
        }
        Err(failed.unwrap_or_else(|| failure::unavailable("no node of the cluster answers")))
    }
}

/// The error that is reported if all nodes fail: one that the operator has to fix, if there is any.
fn more_severe(before: Option<StoreError>, error: StoreError) -> StoreError {
    match before {
        Some(before) if before.kind() == StoreErrorKind::Misconfigured => before,
        _ => error,
    }
}

async fn slots_from(node: &Node) -> Result<ClusterRouting, StoreError> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let link = node.link().await?;
    let slots = vec![Value::from_static_str("SLOTS")];
    let sent = link.send("CLUSTER", slots, (PATIENCE, usize::MAX))?;
    let answer = (sent.await).map_err(|error| failure::client_error(error, PATIENCE))?;
    let answer = match answer {
        Resp3Frame::SimpleError { data, .. } => return Err(failure::redis_error(&data)),
        answer => answer,
    };
    let host = node.server().map(|server| server.host.clone());
    let slots = Value::try_from(answer)
        .and_then(|slots| ClusterRouting::from_cluster_slots(slots, host.unwrap_or_default()));
    match slots {
        Ok(slots) if slots.len() > 0 => Ok(slots),
        _ => Err(failure::unavailable("the node knows of no slots")),
    }
}
