//! Where the state of a key is while it is locked: what it is judged by, and what it is kept in.

use std::borrow::Borrow;

use parking_lot::{MappedMutexGuard, MutexGuard};

use crate::{key::Key, store::AsKey};

use super::{
    deferred_drop::DeferredDrops,
    overflow::Overflow,
    shards::{Reservation, Shard},
};

/// The state of a key, under its locks. The locks come first, so that they are released before
/// anything is dropped.
pub(super) enum LockedState<'a, K, S> {
    /// That of the key's entry. A sweep may be due afterwards.
    Entry {
        state: MappedMutexGuard<'a, S>,
        sweep_is_due: bool,
    },
    /// The first one of a key for which a place is reserved. It gets an entry if it is charged.
    New {
        shard: MutexGuard<'a, Shard<K, S>>,
        reservation: Reservation<'a>,
        hash: u64,
        key: K,
        state: S,
    },
    /// That of the overflow bucket. The shard stays locked, so that nobody
    /// gives the key an entry meanwhile.
    Shared {
        bucket: MappedMutexGuard<'a, S>,
        #[expect(dead_code, reason = "it is held, not read")]
        shard: MutexGuard<'a, Shard<K, S>>,
    },
    /// A fresh one, which is charged nothing. The shard stays locked, so that several keys are seen
    /// at one instant.
    Fresh {
        #[expect(dead_code, reason = "it is held, not read")]
        shard: MutexGuard<'a, Shard<K, S>>,
        state: S,
    },
}

/// The entry of a key; without one, its shard.
pub(super) fn entry<'a, K: Key, S, Q: AsKey<K> + ?Sized>(
    shard: MutexGuard<'a, Shard<K, S>>,
    (hash, key): (u64, &Q),
) -> Result<LockedState<'a, K, S>, MutexGuard<'a, Shard<K, S>>> {
    let mut sweep_is_due = false;
    let state = MutexGuard::try_map(shard, |Shard { entries, sweep, .. }| {
        let found = entries.find_mut(hash, is(key));
        sweep_is_due = found.is_some() && sweep.is_due();
        found
    })?;
    Ok(LockedState::Entry {
        state,
        sweep_is_due,
    })
}

impl<K: Key, S> LockedState<'_, K, S> {
    #[inline]
    pub(super) fn state(&mut self) -> &mut S {
        match self {
            Self::Entry { state, .. } => state,
            Self::New { state, .. } | Self::Fresh { state, .. } => state,
            Self::Shared { bucket, .. } => bucket,
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. })
    }

    /// Keeps the state, if it was charged, and releases the locks. Says whether a sweep is due.
    #[inline]
    pub(super) fn leave(
        self,
        overflow: &Overflow<S>,
        is_charged: bool,
        drops: &mut DeferredDrops<K, S>,
    ) -> bool {
        match self {
            Self::Entry { sweep_is_due, .. } => return sweep_is_due,
            Self::New {
                mut shard,
                reservation,
                hash,
                key,
                state,
            } if is_charged => {
                shard.entries.insert(hash, key, state);
                reservation.keep();
            }
            Self::New { key, state, .. } => {
                drops.keep(Some(key), Some(state));
            }
            Self::Shared { .. } if is_charged => overflow.is_charged_now(),
            Self::Shared { .. } => {}
            Self::Fresh { state, .. } => drops.keep(None, Some(state)),
        }
        false
    }
}

/// A key, and how an entry gets it. A caller's own `Clone` may not run under the locks of others:
/// where several keys are locked together, such a key was copied before, and is moved.
pub(super) enum OwnKey<'a, Q: ToOwned + ?Sized> {
    Copied(&'a Q),
    Moved(&'a mut Option<Q::Owned>),
}

impl<Q: ToOwned + ?Sized> OwnKey<'_, Q> {
    pub(super) fn known(&self) -> &Q {
        match self {
            Self::Copied(key) => key,
            Self::Moved(key) => key.as_ref().expect(MOVED_ONCE).borrow(),
        }
    }

    pub(super) fn own(self) -> Q::Owned {
        match self {
            Self::Copied(key) => key.to_owned(),
            Self::Moved(key) => key.take().expect(MOVED_ONCE),
        }
    }
}

const MOVED_ONCE: &str = "it is there until it is moved";

#[inline]
pub(super) fn is<Q: ToOwned + Eq + ?Sized>(key: &Q) -> impl Fn(&Q::Owned) -> bool + '_ {
    move |known| {
        let known: &Q = known.borrow();
        known == key
    }
}
