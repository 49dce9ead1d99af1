//! The script of each type of algorithm, made when it is first used.

use std::{
    any::TypeId,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
};

use fred::prelude::Value;
use sha1::{Digest, Sha1};

use crate::{
    algorithm::{Member, Script, Scripted},
    store::append_only::AppendOnlyMap,
};

use super::{
    loads::Loads,
    script::{fits_one_script, hold, text},
};

/// The script of a type of algorithm.
pub struct Scripts {
    number: u16,
    pub(super) script: Script,
    /// The layouts of the members' states: a part of every key.
    pub(super) layout: String,
    pub(super) lists: usize,
    pub(super) loadable: Loadable,
}

/// A script, and the SHA-1 sum by which Redis runs it.
pub(super) struct Loadable {
    limits: Vec<Script>,
    pub(super) text: String,
    /// In hexadecimal digits; cloning allocates nothing.
    pub(super) sha1: Value,
    pub(super) loads: Arc<Loads>,
    /// The script for what others hold, if this one does not hold.
    beside: OnceLock<Box<Loadable>>,
}

impl Loadable {
    fn new(limits: Vec<Script>, holds: bool) -> Self {
        let text = text(&limits, holds);
        let sha1 = Sha1::digest(text.as_bytes());
        let digits: String = sha1.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            limits,
            sha1: Value::from(digits),
            text,
            loads: Arc::default(),
            beside: OnceLock::new(),
        }
    }

    /// The script that decides the same where others hold units.
    pub(super) fn beside_holds(&self) -> &Self {
        let make = || Box::new(Self::new(self.limits.clone(), true));
        self.beside.get_or_init(make)
    }
}

impl Scripts {
    fn of<A: Scripted>(number: u16) -> Self {
        let script = A::script();
        let layout: Vec<_> = (script.members().iter())
            .map(|member| member.function)
            .collect();
        let keep_lists = (script.members().iter()).filter(|member| member.has_list());
        let limits = vec![script.clone()];
        let holds = hold(&limits);
        Self {
            number,
            layout: layout.join("+"),
            lists: keep_lists.count(),
            loadable: Loadable::new(limits, holds),
            script,
        }
    }

    pub(super) fn has(&self, is_so: impl Fn(&Member) -> bool) -> bool {
        self.script.members().iter().any(is_so)
    }
}

/// How many limits one script can be about.
const MAX_LIMITS: usize = 16;

/// The numbers of the scripts of several limits, and then zeros.
type Several = [u16; MAX_LIMITS];

/// The scripts of limits, each made once.
pub struct ScriptCache {
    of_limits: AppendOnlyMap<TypeId, Arc<Scripts>>,
    /// Those about several keys in one slot. None if it would be too long.
    of_several: AppendOnlyMap<Several, Option<Loadable>>,
    count: AtomicU16,
}

impl ScriptCache {
    pub(super) fn new() -> Self {
        Self {
            of_limits: AppendOnlyMap::new(),
            of_several: AppendOnlyMap::new(),
            count: AtomicU16::new(0),
        }
    }

    pub(super) fn scripts<A: Scripted>(&self) -> &Arc<Scripts> {
        let limit = TypeId::of::<A>();
        self.of_limits.get_or_add((limit, hash_of(&limit)), || {
            Arc::new(Scripts::of::<A>(1 + self.count.fetch_add(1, Relaxed)))
        })
    }

    /// The script about these limits, in the order of their keys.
    pub(super) fn script_of_several<'s>(
        &self,
        all: impl Iterator<Item = &'s Scripts> + Clone,
    ) -> Option<&Loadable> {
        let mut several = Several::default();
        for (at, scripts) in all.clone().enumerate() {
            *several.get_mut(at)? = scripts.number;
        }
        let make = || {
            let limits: Vec<_> = all.clone().map(|it| it.script.clone()).collect();
            let holds = hold(&limits);
            fits_one_script(&limits).then(|| Loadable::new(limits, holds))
        };
        (self
            .of_several
            .get_or_add((several, hash_of(&several)), make))
        .as_ref()
    }
}

fn hash_of(key: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
