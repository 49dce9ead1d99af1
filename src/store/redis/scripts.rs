//! The scripts that were composed so far: one of each kind for each type of algorithm.

use std::{any::TypeId, sync::OnceLock};

use fred::prelude::Value;
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
    /// In hexadecimal digits; a clone shares them.
    pub(super) sha1: Value,
    pub(super) loads: Loads,
}

impl Loadable {
    fn new(text: String) -> Self {
        let sha1 = Sha1::digest(text.as_bytes());
        let digits: String = sha1.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            sha1: Value::from(digits),
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

/// Finds the scripts of an algorithm by its type: a list that only grows, so that nobody who looks waits or counts.
#[derive(Default)]
pub(super) struct Library(OnceLock<Box<Shelf>>);

struct Shelf {
    algorithm: TypeId,
    scripts: Scripts,
    next: Library,
}

impl Library {
    pub(super) fn scripts<A: Scripted>(&self) -> &Scripts {
        let algorithm = TypeId::of::<A>();
        let mut library = self;
        loop {
            let shelf = library.0.get_or_init(|| {
                Box::new(Shelf {
                    algorithm,
                    scripts: Scripts::of::<A>(),
                    next: Self::default(),
                })
            });
            if shelf.algorithm == algorithm {
                return &shelf.scripts;
            }
            library = &shelf.next;
        }
    }
}

#[cfg(test)]
mod tests;
