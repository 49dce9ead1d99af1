//! Which node of a cluster holds a slot. Each node has its own connections, so that a node that is
//! down or hangs delays no calls to others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

use fred::{
    prelude::Value,
    types::{Resp3Frame, cluster::ClusterRouting, config::Server},
};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use crate::error::{StoreError, StoreErrorKind};

use super::{failure, node::Node, settings::Settings};

/// How often the slots are asked for while a node fails.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);
/// If a node has not told the slots after this, the next one is asked too.
const NEXT_NODE_AFTER: Duration = Duration::from_millis(150);

pub(super) struct Cluster {
    settings: Settings,
    connections: usize,
    nodes: RwLock<HashMap<Server, Arc<Node>>>,
    slots: watch::Sender<Slots>,
    last_refresh: Mutex<Option<Instant>>,
}

enum Slots {
    /// No node has told the slots yet.
    Unknown,
    Known(ClusterRouting),
    /// No node has told them.
    Unavailable(StoreError),
}

impl Cluster {
    pub(super) fn new(settings: Settings, connections: usize) -> Self {
        Self {
            settings,
            connections,
            nodes: RwLock::default(),
            slots: watch::Sender::new(Slots::Unknown),
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
            Slots::Unknown => return None,
            Slots::Known(slots) => slots.get_server(slot).cloned(),
            Slots::Unavailable(error) => {
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
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(server) {
            return Arc::clone(node);
        }
        drop(nodes);
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(self.new_node(server));
        Arc::clone(nodes.entry(server.clone()).or_insert_with(new))
    }

    /// Whether the first attempt to learn the slots has not ended.
    pub(super) fn is_untried(&self) -> bool {
        matches!(&*self.slots.borrow(), Slots::Unknown)
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.values().cloned().collect()
    }

    /// Asks the nodes for the slots in a task, unless that was done less than [`REFRESH_INTERVAL`]
    /// ago.
    pub(super) fn request_refresh(self: &Arc<Self>) {
        let mut last = (self.last_refresh.lock()).unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|at| at.elapsed() >= REFRESH_INTERVAL) {
            *last = Some(Instant::now());
            let cluster = Arc::clone(self);
            tokio::spawn(async move { cluster.refresh_slots().await });
        }
    }

    fn new_node(&self, server: &Server) -> Node {
        Node::new(&self.settings.of_node(server.clone()), self.connections)
    }

    async fn refresh_slots(&self) {
        match self.ask_nodes().await {
            Ok(slots) => {
                let holders = slots.unique_primary_nodes();
                let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
                let gone: Vec<_> = nodes
                    .extract_if(|server, _| !holders.contains(server))
                    .collect();
                drop(nodes);
                // Dropped without the lock. Calls that wait for their answers keep them alive.
                drop(gone);
                self.slots.send_replace(Slots::Known(slots));
            }
            Err(error) => {
                self.slots.send_if_modified(|slots| {
                    // Slots that were known before are better than none.
                    let is_known = matches!(slots, Slots::Known(_));
                    if !is_known {
                        *slots = Slots::Unavailable(error);
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
        let mut failed = None;
        let mut remaining = nodes.into_iter();
        loop {
            let next = remaining.next();
            let has_next = next.is_some();
            if let Some(node) = next {
                asked.spawn(async move { slots_from(&node).await });
            }
            let patience = async {
                match has_next {
                    true => sleep(NEXT_NODE_AFTER).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                answer = asked.join_next() => match answer {
                    Some(Ok(Ok(slots))) => return Ok(slots),
                    Some(Ok(Err(error))) => failed = Some(more_severe(failed, error)),
                    Some(Err(_)) => {}
                    None if !has_next => {
                        let nobody = || failure::unavailable("no node of the cluster answers");
                        return Err(failed.unwrap_or_else(nobody));
                    }
                    None => {}
                },
                () = patience => {}
            }
        }
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
