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
        let mut visit = Visit::new(limit, self, OwnKey::Copied(key), now);
        match unknown {
            Some(unknown) => {
                visit.place = Some(visit.place_of_unknown(unknown, Some(ask.charge())));
            }
            None => visit.lock(ask.charge()),
        }
        visit.decide(ask, now());
        *verdict = visit.verdict.take();
        let admitted = verdict.as_ref().is_some_and(|verdict| verdict.admitted);
        visit.unlock(admitted && ask.charge() > 0);
        visit.afterwards();
    }
}

/// What is done about one key, beside the fast way to decide.
pub(super) struct Visit<'a, A: KeyLimit, K: Key, Q: AsKey<K> + ?Sized> {
    /// The state that it is about, while it is locked; or what decides about the key instead of the
    /// limit: then it has no state. The first to be dropped.
    place: Option<Result<LockedState<'a, K, A::State>, Override>>,
    limit: &'a A,
    table: &'a Table<K, A::State>,
    key: OwnKey<'a, Q>,
    now: Now<'a>,
    sweep_is_due: bool,
    /// What was decided.
    pub(super) verdict: Option<Verdict<A::Snapshot>>,
    /// What is dropped when no lock is held any more: with the visit.
    pub(super) drops: DeferredDrops<K, A::State>,
}

/// The steps of a decision about one key, whatever its limit and key are. Several decisions are
/// made together: each step of all of them before the next.
pub(super) trait DecidesTogether {
    fn lock(&mut self, cost: u32);

    /// Whether it admits the cost. It is locked.
    fn admits(&mut self, cost: u32, now: Timestamp) -> bool;

    /// Charges the cost, if it is to be charged, and says what was decided.
    fn decide(&mut self, ask: Ask, now: Timestamp);

    fn unlock(&mut self, is_charged: bool);

    /// What is left to do without a lock.
    fn afterwards(&mut self);
}

impl<A: KeyLimit, K: Key, Q: AsKey<K> + ?Sized> DecidesTogether for Visit<'_, A, K, Q> {
    fn lock(&mut self, cost: u32) {
        self.lock_for(Some(cost));
    }

    fn admits(&mut self, cost: u32, now: Timestamp) -> bool {
        match &mut self.place {
            Some(Ok(place)) => self.limit.judge(place.state(), cost, now),
            Some(Err(overriding)) => overriding.decide(self.limit, cost, now).0,
            None => true,
        }
    }

    fn decide(&mut self, ask: Ask, now: Timestamp) {
        let (limit, place) = (self.limit, self.place.as_mut());
        self.verdict = place.map(|place| match place {
            Ok(place) => ask.decide(limit, place.state(), now),
            Err(overriding) => {
                let (admitted, snapshot) = overriding.decide(limit, ask.cost(), now);
                Verdict::new(admitted, snapshot)
            }
        });
    }

    fn unlock(&mut self, is_charged: bool) {
        if let Some(Ok(place)) = self.place.take() {
            self.sweep_is_due = place.leave(&self.table.overflow, is_charged, &mut self.drops);
        }
    }

    fn afterwards(&mut self) {
        if self.sweep_is_due {
            self.table.shards.sweep_next(self.limit, (self.now)());
        }
        self.table.overflow.warn_once_if_used();
    }
}

impl<'a, A: KeyLimit, K: Key, Q: AsKey<K> + ?Sized> Visit<'a, A, K, Q> {
    pub(super) fn new(
        limit: &'a A,
        table: &'a Table<K, A::State>,
        key: OwnKey<'a, Q>,
        now: Now<'a>,
    ) -> Self {
        Self {
            limit,
            table,
            key,
            now,
            place: None,
            sweep_is_due: false,
            verdict: None,
            drops: DeferredDrops::new(),
        }
    }

    /// Changes what the key was charged.
    pub(super) fn change(&mut self, change: Change<'_, A::Snapshot>) {
        let (limit, now) = (self.limit, self.now);
        // The bucket that is shared is not charged more than fits: others would pay it off.
        let charged = |state: &A::State, is_shared: bool, held: u32, units: u32| match is_shared {
            true => units.min(held.saturating_add(room(limit, state, now()))),
            false => units,
        };
        match change {
            Change::Debit(0) => {}
            Change::Debit(units) => self.debit(|state, is_shared| {
                let units = charged(state, is_shared, 0, units);
                limit.debit(state, units.into(), now());
            }),
            Change::Refund(_) => {
                let (shards, hash) = (&self.table.shards, self.table.shards.hash(self.key.known()));
                if let Some(state) = shards
                    .lock(hash)
                    .entries
                    .find_mut(hash, is(self.key.known()))
                {
                    change.apply(limit, state, now());
                }
            }
            Change::End(admission, ending) => {
                let mut end = |state: &mut A::State, is_shared: bool| {
                    let mut ending = ending;
                    if let Ending::Settled { held, spent } = &mut ending {
                        *spent = charged(state, is_shared, *held, *spent);
                    }
                    limit.end(state, admission, ending, now());
                };
                if !self.where_it_lies(admission, &mut end)
                    && let Ending::Settled { held, spent } = ending
                    && spent > held
                {
                    self.debit(end);
                }
            }
            Change::Reset => self.reset(),
            Change::Override(overriding) if overriding.until <= now() => self.reset(),
            Change::Override(overriding) => {
                let (shards, own) = (&self.table.shards, self.key.own());
                shards.set_override(own, (overriding, now()), &mut self.drops);
            }
        }
    }

    /// Changes the state of the key, which gets an entry if it has none and there is room. If there
    /// is none, the bucket that new keys share is changed.
    fn debit(&mut self, change: impl FnOnce(&mut A::State, bool)) {
        self.lock_for(None);
        if let Some(Ok(place)) = &mut self.place {
            let is_shared = place.is_shared();
            change(place.state(), is_shared);
        }
        self.unlock(true);
        self.afterwards();
    }

    /// Changes the state that has what an admission took: that of the key's entry, or that of the
    /// bucket that new keys share. Says whether one has it.
    fn where_it_lies(
        &self,
        admission: &A::Snapshot,
        change: &mut impl FnMut(&mut A::State, bool),
    ) -> bool {
        let has_it =
            |state: &A::State| !(A::SETTLES || A::IN_FLIGHT) || self.limit.holds(state, admission);
        let (table, hash) = (self.table, self.table.shards.hash(self.key.known()));
        if let Some(state) = (table.shards.lock(hash).entries).find_mut(hash, is(self.key.known()))
            && has_it(state)
        {
            change(state, false);
            return true;
        }
        if let Some(state) = table.overflow.lock().as_mut()
            && has_it(state)
        {
            change(state, true);
            return true;
        }
        false
    }

    /// Makes the key as good as one that was never seen. While the overflow bucket is charged it
    /// keeps its entry: without one it would start from what that bucket owes.
    fn reset(&mut self) {
        let (Table { shards, overflow }, key) = (self.table, self.key.known());
        let hash = shards.hash(key);
        let mut shard = shards.lock(hash);
        shards.end_override(&mut shard, (hash, key), &mut self.drops);
        if overflow.is_charged() {
            if let Some(state) = shard.entries.find_mut(hash, is(key)) {
                let before = replace(state, fresh_state(self.limit));
                self.drops.keep(None, Some(before));
            }
        } else if let Some((key, state)) = shard.entries.remove(hash, is(key)) {
            self.drops.keep(Some(key), Some(state));
            shards.uncount(1);
        }
    }

    /// Locks the state that the key is judged by, until it is [unlocked](DecidesTogether::unlock).
    ///
    /// If there is a cost, it is charged if it is admitted: a key that is charged nothing gets no
    /// entry. Without one the state is changed, whatever it is.
    fn lock_for(&mut self, cost: Option<u32>) {
        let hash = self.table.shards.hash(self.key.known());
        let entry = entry(self.table.shards.lock(hash), (hash, self.key.known()));
        let place = entry.or_else(|shard| {
            let unknown = (shard, hash, (self.now)());
            self.place_of_unknown(unknown, cost)
        });
        self.place = Some(place);
    }

    /// The place of a key without an entry.
    ///
    /// # Errors
    ///
    /// What decides about the key instead of the limit.
    fn place_of_unknown(
        &mut self,
        (mut shard, hash, at): Unknown<'a, K, A::State>,
        cost: Option<u32>,
    ) -> Result<LockedState<'a, K, A::State>, Override> {
        let (limit, now, drops) = (self.limit, self.now, &mut self.drops);
        let Table { shards, overflow } = self.table;
        if let Some(overriding) = shard.overridden((hash, self.key.known()), now) {
            return Err(overriding);
        }
        if let Some(cost) = cost {
            // Where the overflow bucket refuses, nobody looks for room: a flood consists of these.
            if let Some(bucket) = overflow.lock_if_unchanged(limit, cost, now, drops) {
                return Ok(LockedState::Shared { bucket, shard });
            }
            let state = fresh_state(limit);
            if cost == 0 || !limit.judge(&state, cost, at) {
                return Ok(LockedState::Fresh { shard, state });
            }
            drops.keep(None, Some(state));
        }
        let Some(reservation) = shards.reserve(&mut shard, (limit, at), drops) else {
            return Ok(LockedState::Shared {
                bucket: overflow.lock_to_decide(|| fresh_state(limit)),
                shard,
            });
        };
        // No lock is held while a key is copied: its own `Clone` may take its time, panic, or ask
        // this store.
        drop(shard);
        let own = self.key.own();
        let mut shard = match entry(shards.lock(hash), (hash, &own)) {
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
        shard.entries.make_room(|key| shards.hash(key));
        // It may have been charged in the shared bucket, and then starts from what that owes.
        let shared = overflow.lock_if_charged(limit, now, drops);
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
