//! The script of each type of algorithm, made when it is first used.

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
    loads::Loads,
    script::{fits_one_script, text},
};

/// The script of a type of algorithm.
pub(super) struct Scripts {
    pub(super) script: Script,
    /// The layouts of the members' states: a part of every key.
    pub(super) layout: String,
    pub(super) lists: usize,
    pub(super) loadable: Loadable,
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
    pub(super) fn of<A: Scripted>() -> Self {
        let script = A::script();
        let layouts: Vec<_> = script.members().iter().map(Member::layout).collect();
        Self {
            layout: layouts.join("+"),
            lists: (script.members().iter())
                .filter(|member| member.told.is_some())
                .count(),
            loadable: Loadable::new(text(std::slice::from_ref(&script))),
            script,
        }
    }

    pub(super) fn has(&self, is_so: impl Fn(&Member) -> bool) -> bool {
        self.script.members().iter().any(is_so)
    }
}

/// The script about several keys in one slot.
pub(super) struct MultiKeyScripts {
    pub(super) limits: Vec<Script>,
    /// None if it would be too long.
    pub(super) loadable: Option<Loadable>,
}

impl MultiKeyScripts {
    /// For these limits, in the order of their keys.
    pub(super) fn of(limits: Vec<Script>) -> Self {
        Self {
            loadable: fits_one_script(&limits).then(|| Loadable::new(text(&limits))),
            limits,
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

/// The scripts of limits, made once.
pub(super) struct ScriptCache<S>(AppendOnlyMap<ScriptKey, S>);

impl<S> ScriptCache<S> {
    pub(super) fn new() -> Self {
        Self(AppendOnlyMap::new())
    }

    pub(super) fn find(&self, key: ScriptKey, make: impl Fn() -> S) -> &S {
        let mut hasher = HashOfTypes::default();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        self.0.get_or_add((key, hash), make)
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
