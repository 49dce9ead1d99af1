//! The buckets of one policy: what is done with a key's state.

use std::mem::replace;

use parking_lot::MutexGuard;

use crate::{
    algorithm::{Ending, KeyLimit, Override},
    clock::{Clock, Timestamp},
    key::Key,
    store::{AsKey, Ask, Change, Verdict},
};

use super::{
    deferred_drop::DeferredDrops,
    locked_state::{LockedState, OwnKey, entry, is},
    overflow::{Now, Overflow},
    shards::{Shard, Shards},
};

pub(super) struct Table<K, S> {
    pub(super) shards: Shards<K, S>,
    pub(super) overflow: Overflow<S>,
}

/// The shard in which a key has no entry, the key's hash, and when that was seen.
type Unknown<'a, K, S> = (MutexGuard<'a, Shard<K, S>>, u64, Timestamp);

impl<K, S> Table<K, S> {
    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            shards: Shards::new(max_keys),
            overflow: Overflow::new(),
        }
    }
}

impl<K: Key, S> Table<K, S> {
    #[inline(always)]
    pub(super) fn decide<A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        ask: Ask,
        clock: &impl Clock,
    ) -> Verdict<A::Snapshot> {
        let unknown = match ask {
            Ask::Charge(cost) => match self.decide_known(limit, key, cost, clock) {
                Ok(verdict) => return verdict,
                Err(unknown) => Some(unknown),
            },
            Ask::Look(_) => None,
        };
        // In a place of its own: in one that both ways share, the verdict above would be written in
        // halves and read in whole, for which the processor waits, a tenth of what a layer adds
        // (bench `middleware`).
        let mut verdict = None;
        self.decide_slowly(&mut verdict, unknown, (limit, key), ask, &|| clock.now());
        verdict.expect("it was decided")
    }

    /// Decides about a key that has an entry.
    ///
    /// [`decide_slowly`](Self::decide_slowly) could, too. They are two so that this verdict can stay
    /// in registers: as one function that answers for both, a decision takes a tenth longer (bench
    /// `decision`).
    ///
    /// Inlined always, as is what calls it: else the verdict goes through memory, written in halves
    /// and read in whole, for which the processor waits. It gives a twelfth of the instructions of
    /// a check (bench `instructions`).
    #[inline(always)]
    fn decide_known<A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        cost: u32,
        clock: &impl Clock,
    ) -> Result<Verdict<A::Snapshot>, Unknown<'_, K, S>> {
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash);
        // Under the lock: a thread that waits for it with a time would bring an earlier one than
        // the state's.
        let now = clock.now();
        let read = move |state: &S| limit.is_fresh(state, now);
        let Some(state) = shard.entries.find_mut_to_decide(hash, is(key), read) else {
            return Err((shard, hash, now));
        };
        let (admitted, snapshot) = limit.step(state, cost, now);
        let verdict = Verdict::new(admitted, snapshot);
        if shard.sweep.is_due() {
            drop(shard);
            self.shards.sweep_next(limit, now);
        }
        Ok(verdict)
    }

    /// Decides about a key that has no entry, which gets one if it is charged and there is room; or
    /// looks.
    #[cold]
    fn decide_slowly<A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        verdict: &mut Option<Verdict<A::Snapshot>>,
        unknown: Option<Unknown<'_, K, S>>,
        (limit, key): (&A, &Q),
        ask: Ask,
        now: Now<'_>,
    ) {
        let mut drops = DeferredDrops::new();
        let (key, charge) = (OwnKey::Copied(key), (Some(ask.charge()), now));
        let mut place = match unknown {
            Some(unknown) => self.place_of_unknown(unknown, limit, key, charge, &mut drops),
            None => self.place_of(limit, key, charge, &mut drops),
        };
        let decided = match &mut place {
            Ok(place) => ask.decide(limit, place.state(), now()),
            Err(overriding) => {
                let (admitted, snapshot) = overriding.decide(limit, ask.cost(), now());
                Verdict::new(admitted, snapshot)
            }
        };
        let is_charged = decided.admitted && ask.charge() > 0;
        *verdict = Some(decided);
        if let Ok(place) = place
            && place.leave(&self.overflow, is_charged, &mut drops)
        {
            self.shards.sweep_next(limit, now());
        }
        self.overflow.warn_once_if_used();
    }

    /// Changes what a key was charged. Afterwards, once no lock is held, `drops` is to be dropped.
    pub(super) fn change<A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
        now: Now<'_>,
        drops: &mut DeferredDrops<K, S>,
    ) {
        // The bucket that is shared is not charged more than fits: others would pay it off.
        let charged = |state: &S, is_shared: bool, held: u32, units: u32| match is_shared {
            true => units.min(held.saturating_add(room(limit, state, now()))),
            false => units,
        };
        match change {
            Change::Debit(0) => {}
            Change::Debit(units) => self.debit(limit, key, (now, drops), |state, is_shared| {
                let units = charged(state, is_shared, 0, units);
                limit.debit(state, units.into(), now());
            }),
            Change::Refund(_) => {
                let hash = self.shards.hash(key);
                if let Some(state) = self.shards.lock(hash).entries.find_mut(hash, is(key)) {
                    change.apply(limit, state, now());
                }
            }
            Change::End(admission, ending) => {
                let mut end = |state: &mut S, is_shared: bool| {
                    let mut ending = ending;
                    if let Ending::Settled { held, spent } = &mut ending {
                        *spent = charged(state, is_shared, *held, *spent);
                    }
                    limit.end(state, admission, ending, now());
                };
                if !self.where_it_lies(limit, key, admission, &mut end)
                    && let Ending::Settled { held, spent } = ending
                    && spent > held
                {
                    self.debit(limit, key, (now, drops), end);
                }
            }
            Change::Reset => self.reset(limit, key, drops),
            Change::Override(overriding) if overriding.until <= now() => {
                self.reset(limit, key, drops)
            }
            Change::Override(overriding) => {
                (self.shards).set_override(key.to_owned(), (overriding, now()), drops);
            }
        }
    }

    /// Changes the state of a key, which gets an entry if it has none and there is room. If there
    /// is none, the bucket that new keys share is changed.
    fn debit<A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        (now, drops): (Now<'_>, &mut DeferredDrops<K, S>),
        change: impl FnOnce(&mut S, bool),
    ) {
        let Ok(mut place) = self.place_of(limit, OwnKey::Copied(key), (None, now), drops) else {
            return;
        };
        let is_shared = place.is_shared();
        change(place.state(), is_shared);
        if place.leave(&self.overflow, true, drops) {
            self.shards.sweep_next(limit, now());
        }
    }

    /// Changes the state that has what an admission took: that of the key's entry, or that of the
    /// bucket that new keys share. Says whether one has it.
    fn where_it_lies<A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        admission: &A::Snapshot,
        change: &mut impl FnMut(&mut S, bool),
    ) -> bool {
        let has_it = |state: &S| !(A::SETTLES || A::IN_FLIGHT) || limit.holds(state, admission);
        let hash = self.shards.hash(key);
        if let Some(state) = self.shards.lock(hash).entries.find_mut(hash, is(key))
            && has_it(state)
        {
            change(state, false);
            return true;
        }
        if let Some(state) = self.overflow.lock().as_mut()
            && has_it(state)
        {
            change(state, true);
            return true;
        }
        false
    }

    /// Makes a key as good as one that was never seen. While the overflow bucket is charged it
    /// keeps its entry: without one it would start from what that bucket owes.
    fn reset<A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        drops: &mut DeferredDrops<K, S>,
    ) {
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash);
        self.shards.end_override(&mut shard, (hash, key), drops);
        if self.overflow.is_charged() {
            if let Some(state) = shard.entries.find_mut(hash, is(key)) {
                drops.keep(None, Some(replace(state, fresh_state(limit))));
            }
        } else if let Some((key, state)) = shard.entries.remove(hash, is(key)) {
            drops.keep(Some(key), Some(state));
            self.shards.uncount(1);
        }
    }
}

impl<K: Key, S> Table<K, S> {
    /// Locks the state that a key is judged by. Afterwards [`leave`](LockedState::leave) is to be
    /// called.
    ///
    /// If there is a cost, it is charged if it is admitted: a key that is charged nothing gets no
    /// entry. Without one the state is changed, whatever it is.
    ///
    /// # Errors
    ///
    /// What decides about the key instead of the limit: it has no state.
    pub(super) fn place_of<'a, A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &'a self,
        limit: &A,
        key: OwnKey<'_, Q>,
        charge: (Option<u32>, Now<'_>),
        drops: &mut DeferredDrops<K, S>,
    ) -> Result<LockedState<'a, K, S>, Override> {
        let hash = self.shards.hash(key.known());
        match entry(self.shards.lock(hash), (hash, key.known())) {
            Ok(entry) => Ok(entry),
            Err(shard) => {
                let unknown = (shard, hash, charge.1());
                self.place_of_unknown(unknown, limit, key, charge, drops)
            }
        }
    }

    /// That of a key without an entry.
    fn place_of_unknown<'a, A: KeyLimit<State = S>, Q: AsKey<K> + ?Sized>(
        &'a self,
        (mut shard, hash, at): Unknown<'a, K, S>,
        limit: &A,
        key: OwnKey<'_, Q>,
        (cost, now): (Option<u32>, Now<'_>),
        drops: &mut DeferredDrops<K, S>,
    ) -> Result<LockedState<'a, K, S>, Override> {
        if let Some(overriding) = shard.overridden((hash, key.known()), now) {
            return Err(overriding);
        }
        if let Some(cost) = cost {
            // Where the overflow bucket refuses, nobody looks for room: a flood consists of these.
            if let Some(bucket) = self.overflow.lock_if_unchanged(limit, cost, now, drops) {
                return Ok(LockedState::Shared { bucket, shard });
            }
            let state = fresh_state(limit);
            if cost == 0 || !limit.judge(&state, cost, at) {
                return Ok(LockedState::Fresh { shard, state });
            }
            drops.keep(None, Some(state));
        }
        let Some(reservation) = self.shards.reserve(&mut shard, (limit, at), drops) else {
            return Ok(LockedState::Shared {
                bucket: self.overflow.lock_to_decide(|| fresh_state(limit)),
                shard,
            });
        };
        // No lock is held while a key is copied: its own `Clone` may take its time, panic, or ask
        // this store.
        drop(shard);
        let own = key.own();
        let mut shard = match entry(self.shards.lock(hash), (hash, &own)) {
            Err(shard) => shard,
            // Another call has given it one meanwhile.
            Ok(entry) => {
                drops.keep(Some(own), None);
                return Ok(entry);
            }
        };
        if let Some(overriding) = shard.overridden((hash, &own), now) {
            drops.keep(Some(own), None);
            return Err(overriding);
        }
        // The key's own code, which may panic, runs before anything is charged.
        shard.entries.make_room(|key| self.shards.hash(key));
        // It may have been charged in the shared bucket, and then starts from what that owes.
        let shared = self.overflow.lock_if_charged(limit, now, drops);
        let owed = shared.map(|shared| limit.inherit(&shared, now()));
        let state = owed.unwrap_or_else(|| fresh_state(limit));
        Ok(LockedState::New {
            shard,
            reservation,
            hash,
            key: own,
            state,
        })
    }
}

/// How many units still fit.
fn room<A: KeyLimit>(limit: &A, state: &A::State, now: Timestamp) -> u32 {
    let snapshot = limit.snapshot(state, 0, true, now);
    let remaining = limit.decision_of(&snapshot).remaining();
    u32::try_from(remaining).unwrap_or(u32::MAX)
}

/// The state of a key that was never charged. Its time is the earliest, so that it is never ahead
/// of the clock.
fn fresh_state<A: KeyLimit>(limit: &A) -> A::State {
    limit.fresh(Timestamp::from_micros(0))
}
