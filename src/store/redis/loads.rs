//! Which nodes a script was loaded to: whoever finds it gone on one loads it there, while the others wait.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fred::types::config::Server;

/// The loads of one script.
#[derive(Default)]
pub(super) struct Loads {
    number: AtomicU64,
    nodes: Mutex<HashMap<Option<Server>, Node>>,
}

/// The number of the last load to this node.
pub(super) type Node = Arc<tokio::sync::Mutex<u64>>;

impl Loads {
    /// How often it was loaded anywhere: what comes later is not what a question before it met.
    pub(super) fn so_far(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(super) fn node(&self, node: Option<Server>) -> Node {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(nodes.entry(node).or_default())
    }

    /// One more; its number.
    pub(super) fn add(&self) -> u64 {
        self.number.fetch_add(1, Ordering::AcqRel) + 1
    }
}
