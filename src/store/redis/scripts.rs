//! The script of each type of algorithm, made when it is first used.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::algorithm::{Limit, Member, Script, Scripted};

use super::{
    lock,
    script::{Decisions, can_be_joined, can_be_leased, fits_one_script, hold, text},
};

/// For this long after a script's first use, or until it has run once, a call without an answer
/// fails as misconfigured: whether Redis lets the store run scripts is not known yet.
const FIRST_RUN_WITHIN: Duration = Duration::from_secs(1);

/// Where others hold units, a script that cannot read that is sent in vain: after one was, so many
/// calls begin with the other.
const CALLS_BESIDE_HOLDS: u32 = 100;

/// The script of a type of algorithm, and of what its policies say of requests.
pub(super) struct Scripts {
    limit: LimitType,
    pub(super) script: Script,
    /// The layouts of the members' states: a part of every key.
    pub(super) layout: String,
    pub(super) lists: usize,
    pub(super) loadable: Arc<Loadable>,
}

/// A script, and the SHA-1 sum by which Redis runs it.
pub(super) struct Loadable {
    limits: Vec<Script>,
    decisions: Decisions,
    /// Whether decisions by it can share a call.
    pub(super) can_be_joined: bool,
    /// Whether processes can hold units to spend them without asking.
    pub(super) can_be_leased: bool,
    pub(super) text: Bytes,
    /// In hexadecimal digits.
    pub(super) sha1: Bytes,
    /// When it was first used.
    made_at: Instant,
    /// Whether Redis has ever run it.
    pub(super) has_run: AtomicBool,
    /// Scripts about the same limits, by how many decisions they make. The one that makes as many
    /// as this one is for what others hold.
    variants: [OnceLock<Box<Self>>; 3],
    /// For so many calls more others are taken to hold.
    met_holds: AtomicU32,
}

impl Loadable {
    fn new(limits: Vec<Script>, beside_holds: bool, decisions: Decisions) -> Self {
        let text = text(&limits, beside_holds || hold(&limits), decisions);
        let sha1 = Sha1::digest(text.as_bytes());
        let digits: String = sha1.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            can_be_joined: can_be_joined(&limits),
            can_be_leased: can_be_leased(&limits),
            limits,
            decisions,
            sha1: Bytes::from(digits),
            text: text.into(),
            made_at: Instant::now(),
            has_run: AtomicBool::new(false),
            variants: [const { OnceLock::new() }; 3],
            met_holds: AtomicU32::new(0),
        }
    }

    /// The script that decides the same where others hold units, as they do about this key.
    pub(super) fn beside_holds_from_now(&self) -> &Self {
        self.met_holds.store(CALLS_BESIDE_HOLDS, Relaxed);
        self.variant(self.decisions, true)
    }

    /// The script for what others hold, for a while after it was needed.
    pub(super) fn to_send_first(&self) -> &Self {
        let left = (self.met_holds).fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        match (left, self.variants[self.decisions as usize].get()) {
            (Ok(_), Some(beside)) => beside,
            _ => self,
        }
    }

    /// The script that decides the same about several costs, one after the other.
    pub(super) fn joined(&self) -> &Self {
        self.variant(Decisions::Several, false)
    }

    /// The same beside what processes hold to spend it without asking.
    pub(super) fn leased(&self) -> &Self {
        self.variant(Decisions::Leased, true)
    }

    /// Another script about the same limits, made once. That Redis has run this one counts for it.
    fn variant(&self, decisions: Decisions, beside_holds: bool) -> &Self {
        self.variants[decisions as usize].get_or_init(|| {
            Box::new(Self {
                made_at: self.made_at,
                has_run: AtomicBool::new(self.has_run.load(Relaxed)),
                ..Self::new(self.limits.clone(), beside_holds, decisions)
            })
        })
    }

    /// Whether it was first used a moment ago, and has not run yet.
    pub(super) fn is_untried(&self) -> bool {
        !self.has_run.load(Relaxed) && self.made_at.elapsed() < FIRST_RUN_WITHIN
    }
}

impl Scripts {
    fn of<A: Scripted>(limit: &A) -> Self {
        let mut policies = Vec::new();
        limit.each_policy(&mut |policy| policies.push(policy.clone()));
        let mut policies = policies.into_iter();
        let script = A::script().with(|member| {
            if let Some(policy) = policies.next() {
                member.per_request |= policy.counts_requests();
                member.in_shadow = policy.is_in_shadow();
            }
        });
        let members = script.members().iter();
        let layout: Vec<_> = members.clone().map(|member| member.function).collect();
        Self {
            limit: limit_type(limit),
            layout: layout.join("+"),
            lists: members.filter(|member| member.has_list()).count(),
            loadable: Arc::new(Loadable::new(vec![script.clone()], false, Decisions::One)),
            script,
        }
    }

    pub(super) fn has(&self, is_so: impl Fn(&Member) -> bool) -> bool {
        self.script.members().iter().any(is_so)
    }
}

/// The scripts of limits, each made once.
#[derive(Default)]
pub(super) struct ScriptCache {
    /// A handful, in no order: a hash costs more than to look at them all.
    of_limits: Mutex<Vec<Arc<Scripts>>>,
    /// Those about several keys in one slot. None if it would be too long.
    of_several: Mutex<HashMap<Vec<LimitType>, Option<Arc<Loadable>>>>,
}

/// A type of algorithm, with two bits for each of its policies: whether it counts requests, and
/// whether it is in shadow.
type LimitType = (TypeId, u64);

fn limit_type<L: Limit>(limit: &L) -> LimitType {
    let mut bits = 0;
    limit.each_policy(&mut |policy| {
        bits = bits << 1 | u64::from(policy.counts_requests());
        bits = bits << 1 | u64::from(policy.is_in_shadow());
    });
    (TypeId::of::<L>(), bits)
}

fn find<L: Limit>(of_limits: &[Arc<Scripts>], limit: &L) -> Option<Arc<Scripts>> {
    let limit = limit_type(limit);
    of_limits.iter().find(|known| known.limit == limit).cloned()
}

impl ScriptCache {
    pub(super) fn scripts<A: Scripted>(&self, limit: &A) -> Arc<Scripts> {
        let mut of_limits = lock(&self.of_limits);
        find(&of_limits, limit).unwrap_or_else(|| {
            let scripts = Arc::new(Scripts::of(limit));
            of_limits.push(Arc::clone(&scripts));
            scripts
        })
    }

    /// That of a limit like this, if one was used before.
    pub(super) fn known<L: Limit>(&self, limit: &L) -> Option<Arc<Scripts>> {
        find(&lock(&self.of_limits), limit)
    }

    /// The script about these limits, in the order of their keys.
    pub(super) fn script_of_several<'s>(
        &self,
        all: impl Iterator<Item = &'s Scripts> + Clone,
    ) -> Option<Arc<Loadable>> {
        let mut of_several = lock(&self.of_several);
        let several = of_several.entry(all.clone().map(|one| one.limit).collect());
        let make = || {
            let limits: Vec<_> = all.map(|one| one.script.clone()).collect();
            fits_one_script(&limits).then(|| Arc::new(Loadable::new(limits, false, Decisions::One)))
        };
        several.or_insert_with(make).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::FixedWindow;

    #[test]
    fn the_script_for_what_others_hold_is_sent_first_for_a_hundred_calls() {
        let script = Loadable::new(vec![FixedWindow::script()], false, Decisions::One);
        for _ in 0..2 {
            let beside = script.beside_holds_from_now().sha1.clone();
            assert_ne!(beside, script.sha1);
            for call in 0..CALLS_BESIDE_HOLDS {
                assert_eq!(script.to_send_first().sha1, beside, "call {call}");
            }
            assert_eq!(script.to_send_first().sha1, script.sha1);
        }
    }
}
