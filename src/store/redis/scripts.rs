//! The scripts that were composed so far: one of each kind for each type of algorithm.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use sha1::{Digest, Sha1};

use crate::algorithm::{Member, Scripted};

use super::{
    compose::{Task, compose},
    loads::Loads,
};

/// What Redis runs for a type of algorithm.
pub(super) struct Scripts {
    pub(super) members: Vec<Member>,
    /// The layouts of the members' states: a part of every key.
    pub(super) layout: String,
    pub(super) further_keys: usize,
    pub(super) decide: Loadable,
    pub(super) peek: Loadable,
    pub(super) refund: Loadable,
    /// Only where a request can be held back.
    pub(super) withdraw: Option<Loadable>,
}

/// A script with the name that Redis knows it by.
pub(super) struct Loadable {
    pub(super) text: String,
    /// In hexadecimal digits.
    pub(super) sha1: String,
    pub(super) loads: Loads,
}

impl Loadable {
    fn new(text: String) -> Self {
        let sha1 = Sha1::digest(text.as_bytes());
        Self {
            sha1: sha1.iter().map(|byte| format!("{byte:02x}")).collect(),
            text,
            loads: Loads::default(),
        }
    }
}

impl Scripts {
    pub(super) fn of<A: Scripted>() -> Self {
        let script = A::script();
        let members = script.members().to_vec();
        let layouts: Vec<_> = members.iter().map(|member| member.layout).collect();
        Self {
            layout: layouts.join("+"),
            further_keys: members.iter().map(|member| member.keys.len()).sum(),
            decide: Loadable::new(compose(&script, Task::Decide)),
            peek: Loadable::new(compose(&script, Task::Peek)),
            refund: Loadable::new(compose(&script, Task::Refund)),
            withdraw: (members.iter().any(|member| !member.withdraws.is_empty()))
                .then(|| Loadable::new(compose(&script, Task::Withdraw))),
            members,
        }
    }
}

/// Finds the scripts of an algorithm by its type.
#[derive(Default)]
pub(super) struct Library(RwLock<HashMap<TypeId, Arc<Scripts>>>);

impl Library {
    pub(super) fn scripts<A: Scripted>(&self) -> Arc<Scripts> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(scripts) = known.get(&TypeId::of::<A>()) {
            return Arc::clone(scripts);
        }
        drop(known);
        let scripts = Arc::new(Scripts::of::<A>());
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(TypeId::of::<A>()).or_insert(scripts))
    }
}

#[cfg(test)]
mod tests;
