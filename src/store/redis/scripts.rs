//! The scripts of each type of algorithm, composed when it is first used.

use std::{
    any::TypeId,
    hash::{Hash, Hasher},
    sync::Arc,
};

use fred::prelude::Value;
use sha1::{Digest, Sha1};

use crate::{
    algorithm::{Member, Script, Scripted},
    store::append_only::AppendOnlyMap,
};

use super::{
    compose::{Task, TimeOf, compose, compose_multi_key, compose_renewal},
    loads::Loads,
};

/// The scripts of a type of algorithm.
pub(super) struct Scripts {
    pub(super) members: Vec<Member>,
    /// The layouts of the members' states: a part of every key.
    pub(super) layout: String,
    pub(super) further_keys: usize,
    pub(super) decide: Loadable,
    pub(super) peek: Loadable,
    pub(super) repair: Loadable,
    pub(super) debit: Loadable,
    pub(super) refund: Loadable,
    /// Only for algorithms that can delay a request.
    pub(super) withdraw: Option<Loadable>,
    /// Only where units are held.
    pub(super) settle: Option<Loadable>,
    /// Only where requests in flight are counted.
    pub(super) renew: Option<Loadable>,
    /// Where units are held, this is `settle`.
    pub(super) take_back: Loadable,
}

/// A script, and the SHA-1 sum by which Redis runs it.
#[derive(Clone)]
pub(super) struct Loadable {
    pub(super) text: String,
    /// In hexadecimal digits; cloning allocates nothing.
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
    pub(super) fn of<A: Scripted>(time: TimeOf) -> Self {
        let script = A::script();
        let members = script.members().to_vec();
        let layouts: Vec<_> = members.iter().map(|member| &*member.layout).collect();
        let settle = (members.iter().any(Member::is_settled))
            .then(|| Loadable::new(compose(&script, Task::Settle, time)));
        Self {
            layout: layouts.join("+"),
            further_keys: members.iter().map(|member| member.keys.len()).sum(),
            decide: Loadable::new(compose(&script, Task::Decide, time)),
            peek: Loadable::new(compose(&script, Task::Peek, time)),
            repair: Loadable::new(compose(&script, Task::Repair, time)),
            debit: Loadable::new(compose(&script, Task::Debit, time)),
            refund: Loadable::new(compose(&script, Task::Refund, time)),
            withdraw: (members.iter().any(|member| !member.withdraws.is_empty()))
                .then(|| Loadable::new(compose(&script, Task::Withdraw, time))),
            take_back: match &settle {
                Some(settle) => settle.clone(),
                None => Loadable::new(compose(&script, Task::TakeBack, time)),
            },
            renew: (members.iter().any(|member| member.in_flight))
                .then(|| Loadable::new(compose_renewal(&script, time))),
            settle,
            members,
        }
    }
}

/// The scripts about several keys in one slot.
pub(super) struct MultiKeyScripts {
    pub(super) members: Vec<Member>,
    pub(super) decide: Loadable,
    pub(super) peek: Loadable,
}

impl MultiKeyScripts {
    /// For these limits, in the order of their indices.
    pub(super) fn of(limits: Vec<Script>, time: TimeOf) -> Self {
        Self {
            decide: Loadable::new(compose_multi_key(&limits, Task::Decide, time)),
            peek: Loadable::new(compose_multi_key(&limits, Task::Peek, time)),
            members: limits.iter().flat_map(Script::members).cloned().collect(),
        }
    }
}

/// Which scripts a call needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScriptKey {
    /// The type of the limits.
    pub(super) limits: TypeId,
    /// Which of several limits have a key, a bit for each; for rules, the algorithms of those
    /// that apply.
    pub(super) present: u128,
}

/// The scripts of limits, composed once.
pub(super) struct ScriptCache<S> {
    time: TimeOf,
    all: AppendOnlyMap<ScriptKey, S>,
}

impl<S> ScriptCache<S> {
    pub(super) fn new(time: TimeOf) -> Self {
        Self {
            time,
            all: AppendOnlyMap::new(),
        }
    }

    pub(super) fn find(&self, key: ScriptKey, compose: impl Fn(TimeOf) -> S) -> &S {
        let mut hasher = HashOfTypes::default();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        self.all.get_or_add((key, hash), || compose(self.time))
    }
}

/// The hash of a `TypeId`, which is a hash itself. Hashed once more it takes a tenth of a decision
/// while Redis is down (bench `outage`).
#[derive(Default)]
struct HashOfTypes(u64);

impl Hasher for HashOfTypes {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.rotate_left(8) ^ number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl ScriptCache<Scripts> {
    pub(super) fn scripts<A: Scripted>(&self) -> &Scripts {
        let key = ScriptKey {
            limits: TypeId::of::<A>(),
            present: 1,
        };
        self.find(key, Scripts::of::<A>)
    }
}

#[cfg(test)]
mod tests;
