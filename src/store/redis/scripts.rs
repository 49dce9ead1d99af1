//! The scripts that were composed so far: one of each kind for each type of algorithm.

use std::{
    any::TypeId,
    sync::{Arc, OnceLock},
};

use fred::prelude::Value;
use sha1::{Digest, Sha1};

use crate::algorithm::{Member, Script, Scripted};

use super::{
    compose::{Task, compose, compose_each_of},
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
    pub(super) settle: Loadable,
    pub(super) refund: Loadable,
    /// Only where a request can be held back.
    pub(super) withdraw: Option<Loadable>,
    pub(super) take_back: Loadable,
}

/// A script with the name that Redis knows it by.
pub(super) struct Loadable {
    pub(super) text: String,
    /// In hexadecimal digits; a clone shares them.
    pub(super) sha1: Value,
    pub(super) loads: Arc<Loads>,
}

impl Loadable {
    fn new(text: String) -> Self {
        let sha1 = Sha1::digest(text.as_bytes());
        let digits: String = sha1.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            sha1: Value::from(digits),
            text,
            loads: Arc::default(),
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
            settle: Loadable::new(compose(&script, Task::Settle)),
            refund: Loadable::new(compose(&script, Task::Refund)),
            withdraw: (members.iter().any(|member| !member.withdraws.is_empty()))
                .then(|| Loadable::new(compose(&script, Task::Withdraw))),
            take_back: Loadable::new(compose(&script, Task::TakeBack)),
            members,
        }
    }
}

/// What Redis runs for each of several algorithms together.
pub(super) struct EachScripts {
    pub(super) members: Vec<Member>,
    pub(super) decide: Loadable,
    pub(super) peek: Loadable,
}

impl EachScripts {
    /// For these limits, in the order of their places.
    pub(super) fn of(limits: Vec<Script>) -> Self {
        Self {
            decide: Loadable::new(compose_each_of(&limits, Task::Decide)),
            peek: Loadable::new(compose_each_of(&limits, Task::Peek)),
            members: limits.iter().flat_map(Script::members).cloned().collect(),
        }
    }
}

/// Finds the scripts of algorithms by their types, and by which of them are asked: a list that only
/// grows, so that nobody who looks waits or counts.
pub(super) struct Library<S>(OnceLock<Box<Shelf<S>>>);

struct Shelf<S> {
    algorithms: (TypeId, u8),
    scripts: S,
    next: Library<S>,
}

impl<S> Default for Library<S> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<S> Library<S> {
    pub(super) fn find(&self, algorithms: (TypeId, u8), compose: impl Fn() -> S) -> &S {
        let mut library = self;
        loop {
            let shelf = library.0.get_or_init(|| {
                Box::new(Shelf {
                    algorithms,
                    scripts: compose(),
                    next: Self::default(),
                })
            });
            if shelf.algorithms == algorithms {
                return &shelf.scripts;
            }
            library = &shelf.next;
        }
    }
}

impl Library<Scripts> {
    pub(super) fn scripts<A: Scripted>(&self) -> &Scripts {
        self.find((TypeId::of::<A>(), 1), Scripts::of::<A>)
    }
}

#[cfg(test)]
mod tests;
