//! The time of a store, and the changes of buckets other than by decisions: what a process has kept
//! of a bucket is as old as the call that brought it, and does not count once the bucket was
//! changed.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Instant,
};

use bytes::Bytes;

use super::{Shared, joined::Subject};

/// Changes are counted for so many groups of buckets, in 128 KiB: a change ends what was kept of
/// the other buckets of its group, too.
const GROUPS: usize = 16_384;

pub(super) struct Changes {
    hasher: RandomState,
    /// How often a change of a bucket, other than by a decision, has begun or ended.
    counts: Vec<AtomicU32>,
    /// How often a call has given back what was leased and not spent: then what was refused before
    /// may fit, but what is leased still counts.
    given_back: Vec<AtomicU32>,
    begin: Instant,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            counts: (0..GROUPS).map(|_| AtomicU32::new(0)).collect(),
            given_back: (0..GROUPS).map(|_| AtomicU32::new(0)).collect(),
            begin: Instant::now(),
        }
    }
}

/// When a call was sent, in microseconds, and the changes of its buckets until then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    pub(super) at: u64,
    pub(super) changes: u32,
    /// How often units were given back to them until then.
    pub(super) given_back: u32,
}

impl Stamp {
    /// Whether what was refused then may fit now, as a bucket was changed or given back to.
    pub(super) fn is_changed_since(self, then: Self) -> bool {
        [self.changes, self.given_back] != [then.changes, then.given_back]
    }
}

impl Shared {
    /// The time by which ages are told.
    pub(super) fn time(&self) -> u64 {
        match &self.clock {
            Some(now) => now().as_micros(),
            None => self.changes.begin.elapsed().as_micros() as u64,
        }
    }

    /// As of now, when a call about this is sent or answered.
    pub(super) fn stamp(&self, subject: &Subject) -> Stamp {
        let sum = |counts: &[AtomicU32]| {
            let counts = subject.states().map(|key| &counts[self.group(key)]);
            counts.fold(0, |sum: u32, it| sum.wrapping_add(it.load(SeqCst)))
        };
        Stamp {
            changes: sum(&self.changes.counts),
            given_back: sum(&self.changes.given_back),
            at: self.time(),
        }
    }

    /// A call about this has given back what was leased and not spent: no refusal of before counts
    /// any more, by whichever numbers or leases.
    pub(super) fn gave_back(&self, subject: &Subject) {
        for key in subject.states() {
            self.changes.given_back[self.group(key)].fetch_add(1, SeqCst);
        }
    }

    fn group(&self, key: &Bytes) -> usize {
        self.changes.hasher.hash_one(key) as usize % GROUPS
    }

    /// The bucket of this key is changed other than by a decision, until the guard is dropped.
    pub(super) fn changing(self: &Arc<Self>, key: &Bytes) -> Changing {
        let changing = Changing(Arc::clone(self), self.group(key));
        changing.count();
        changing
    }
}

/// A change of a bucket in this group has begun. What was kept before it begins or while it lasts
/// does not count any more.
pub(super) struct Changing(Arc<Shared>, usize);

impl Changing {
    fn count(&self) {
        self.0.changes.counts[self.1].fetch_add(1, SeqCst);
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.count();
    }
}
