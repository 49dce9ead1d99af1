//! Which node of a cluster holds a slot. Each node has connections of its own, so that one that is
//! ill holds up no other.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fred::{
    prelude::Value,
    types::{Resp3Frame, cluster::ClusterRouting, config::Server},
};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use crate::error::{StoreError, StoreErrorKind};

use super::{failure, link::Busy, node::Node, settings::Settings};

/// While something is wrong the nodes are asked for the slots so often.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How long a node has to say who holds which slot, before another one is asked too.
const NEXT_NODE_AFTER: Duration = Duration::from_millis(150);

pub(super) struct Cluster {
    settings: Settings,
    connections: usize,
    nodes: RwLock<HashMap<Server, Arc<Node>>>,
    slots: watch::Sender<Slots>,
    is_looking: AtomicBool,
}

enum Slots {
    /// No node has said yet.
    Unknown,
    Known(ClusterRouting),
    /// No node says.
    Untold(StoreError),
}

impl Cluster {
    pub(super) fn new(settings: Settings, connections: usize) -> Self {
        Self {
            settings,
            connections,
            nodes: RwLock::default(),
            slots: watch::Sender::new(Slots::Unknown),
            is_looking: AtomicBool::new(false),
        }
    }

    /// The node that holds the slot. At first this waits until one has said who does.
    pub(super) async fn node_of(self: &Arc<Self>, slot: u16) -> Result<Arc<Node>, StoreError> {
        if let Some(known) = self.known_node_of(slot) {
            return known;
        }
        let mut slots = self.slots.subscribe();
        loop {
            if let Some(known) = self.known_node_of(slot) {
                return known;
            }
            self.look_again();
            if slots.changed().await.is_err() {
                return Err(failure::unavailable("the store is gone"));
            }
        }
    }

    pub(super) fn known_node_of(
        self: &Arc<Self>,
        slot: u16,
    ) -> Option<Result<Arc<Node>, StoreError>> {
        let holder = match &*self.slots.borrow() {
            Slots::Unknown => return None,
            Slots::Known(slots) => slots.get_server(slot).cloned(),
            Slots::Untold(error) => {
                self.look_again();
                return Some(Err(failure::once_more(error)));
            }
        };
        Some(match holder {
            Some(server) => Ok(self.node(&server)),
            None => {
                self.look_again();
                let nobody_s = format!("no node of the cluster holds slot {slot}");
                Err(failure::unavailable(nobody_s))
            }
        })
    }

    /// Which server holds the slot, as far as is known.
    pub(super) fn server_of(&self, slot: u16) -> Option<Server> {
        match &*self.slots.borrow() {
            Slots::Known(slots) => slots.get_server(slot).cloned(),
            Slots::Unknown | Slots::Untold(_) => None,
        }
    }

    /// The node at this address, of which a node has told.
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

    /// Whether no node has said yet who holds which slot, nor failed to.
    pub(super) fn is_untried(&self) -> bool {
        matches!(&*self.slots.borrow(), Slots::Unknown)
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.values().cloned().collect()
    }

    /// Asks the nodes who holds which slot, unless somebody does, or did a moment ago.
    pub(super) fn look_again(self: &Arc<Self>) {
        if self.is_looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let looking = LookingGuard(Arc::downgrade(self));
        tokio::spawn(async move {
            if let Some(cluster) = looking.0.upgrade() {
                cluster.look().await;
            }
            // Without holding the cluster: it ends with the store.
            sleep(LOOK_INTERVAL).await;
        });
    }

    fn new_node(&self, server: &Server) -> Node {
        Node::new(&self.settings.of_node(server.clone()), self.connections)
    }

    async fn look(&self) {
        match self.ask_nodes().await {
            Ok(slots) => {
                let holders = slots.unique_primary_nodes();
                let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
                let gone: Vec<_> = nodes
                    .extract_if(|server, _| !holders.contains(server))
                    .collect();
                drop(nodes);
                // What waits for their answers keeps them till then.
                drop(gone);
                self.slots.send_replace(Slots::Known(slots));
            }
            Err(error) => {
                self.slots.send_if_modified(|slots| {
                    // What was known is the best that there is.
                    let is_known = matches!(slots, Slots::Known(_));
                    if !is_known {
                        *slots = Slots::Untold(error);
                    }
                    !is_known
                });
            }
        }
    }

    /// Asks one node after the other, the well ones first, each a moment after the one before, for
    /// the first answer.
    async fn ask_nodes(&self) -> Result<ClusterRouting, StoreError> {
        let mut nodes = self.nodes();
        nodes.sort_by_key(|node| !node.is_well());
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
                asked.spawn(async move { slots_as_told_by(&node).await });
            }
            let patience = async {
                match has_next {
                    true => sleep(NEXT_NODE_AFTER).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                told = asked.join_next() => match told {
                    Some(Ok(Ok(slots))) => return Ok(slots),
                    Some(Ok(Err(error))) => failed = Some(worse(failed, error)),
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

/// What an operator has to mend is told before what may pass.
fn worse(before: Option<StoreError>, error: StoreError) -> StoreError {
    match before {
        Some(before) if before.kind() == StoreErrorKind::Misconfigured => before,
        _ => error,
    }
}

async fn slots_as_told_by(node: &Node) -> Result<ClusterRouting, StoreError> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let link = node.link().await?;
    let sent = link.send(
        "CLUSTER",
        vec![Value::from_static_str("SLOTS")],
        (PATIENCE, usize::MAX),
    );
    let answer = match sent {
        Ok(sent) => sent.await.map_err(failure::unanswered)?,
        Err(Busy) => return Err(failure::unavailable("too many commands wait for an answer")),
    };
    let answer = match answer {
        Resp3Frame::SimpleError { data, .. } => return Err(failure::answered(&data)),
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

/// Somebody asks the nodes who holds which slot.
struct LookingGuard(Weak<Cluster>);

impl Drop for LookingGuard {
    fn drop(&mut self) {
        if let Some(cluster) = self.0.upgrade() {
            cluster.is_looking.store(false, Ordering::Release);
        }
    }
}
