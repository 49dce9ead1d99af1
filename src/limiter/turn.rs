//! An admission whose turn is still to come.

use crate::{
    algorithm::{Ending, Limit},
    key::Key,
    store::{Change, Store},
};

/// The turn of an admission that is delayed. If it is dropped before it has come, it is given back.
#[allow(unreachable_pub, reason = "a public type of the layer has it")]
pub struct Turn(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Turn {
    pub(crate) fn new<L: Limit, S: Store<L, K>, K: Key>(
        limit: L,
        store: S,
        key: K,
        (admission, cost): (L::Snapshot, u32),
    ) -> Self {
        Self(Some(Box::new(move || {
            let withdrawn = Change::End(&admission, Ending::Withdrawn { cost });
            drop(store.change(&limit, &key, withdrawn));
        })))
    }

    /// The turn has come, and stays taken.
    pub(crate) fn has_come(mut self) {
        self.0 = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}
