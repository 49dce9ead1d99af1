//! Decides by rules: about all limits together that apply to a request.
//!
//! If there are several, their locks are taken in the order of their policies, whatever the order
//! of the rules. So no two threads deadlock.

use std::{borrow::Cow, future::Pending, sync::Arc};

use arrayvec::ArrayVec;

use crate::{
    algorithm::{Algorithm, shadow::ShadowState},
    clock::{Clock, Timestamp},
    config::AnyState,
    rules::{Charge, KeyValue, MAX_LIMITS, RuleKey, RuleLimit, RuleLimits, RuleSnapshot},
    store::{Answer, AsKey, Decided, Store, Verdict, Written},
};

use super::{
    LocalBuckets, LocalStore, call::Call, deferred_drop::DeferredDrops, locked::Locked,
    policies::Policies, table::Table,
};

type State = ShadowState<AnyState>;
type Snapshot = <RuleLimit as Algorithm>::Snapshot;

impl LocalBuckets<RuleKey> for RuleLimits {
    type Tables = Policies<KeyValue, State>;
}

/// A call about one of the limits that apply to a request.
struct LimitCall<'a> {
    /// Its place among them.
    place: usize,
    call: Call<'a, RuleLimit>,
    table: &'a Table<KeyValue, State>,
    key: &'a KeyValue,
}

/// The limits whose states are locked, each with its place.
type AllLocked<'a> = ArrayVec<(usize, Locked<'a, RuleLimit>), MAX_LIMITS>;

/// What was decided under the locks; each snapshot with the place of its limit.
struct Done {
    now: Timestamp,
    admitted: bool,
    snapshots: ArrayVec<(usize, Snapshot), MAX_LIMITS>,
}

impl Done {
    /// The verdict, in the order of the key's limits.
    fn verdict(mut self, key: &RuleKey) -> Verdict<RuleSnapshot> {
        self.snapshots.sort_unstable_by_key(|(place, _)| *place);
        let snapshots = self.snapshots.into_iter().zip(key.charges());
        let snapshots = snapshots.map(|((_, snapshot), charge)| (charge.limit, snapshot));
        Verdict {
            admitted: self.admitted,
            snapshot: RuleSnapshot::several(Arc::clone(key.limits()), snapshots),
        }
    }
}

/// A cost, and the clock, which is read under all locks.
type Asked<'a> = (u32, &'a dyn Fn() -> Timestamp);

type Drops = DeferredDrops<KeyValue, State>;

/// Takes the locks of these limits, one inside the other, and decides under them.
fn decide_under_locks<'a>(
    limits: &[LimitCall<'_>],
    drops: &mut [Drops],
    sweeps: &mut [bool],
    locked: AllLocked<'a>,
    asked: Asked<'_>,
) -> (bool, Done) {
    let (Some((next, limits)), Some((own_drops, drops)), Some((sweep, sweeps))) = (
        limits.split_first(),
        drops.split_first_mut(),
        sweeps.split_first_mut(),
    ) else {
        return decide(locked, asked);
    };
    let mut key = Some(Cow::Borrowed(next.key));
    let call = next.call;
    let ((is_charged, done), sweep_is_due) =
        next.table.with_state(&mut key, call, own_drops, |state| {
            // These borrows are shorter than those of the locks before.
            let mut locked: AllLocked<'_> = locked;
            if let Some(state) = state {
                locked.push((next.place, Locked::new(call, state)));
            }
            let (is_charged, done) = decide_under_locks(limits, drops, sweeps, locked, asked);
            (is_charged, (is_charged, done))
        });
    *sweep = sweep_is_due;
    (is_charged, done)
}

/// Takes the locks of these limits, one inside the other, and then asks each limit what it would
/// answer.
fn look_under_locks<'a>(
    limits: &[LimitCall<'_>],
    drops: &mut [Drops],
    seen: ArrayVec<(usize, &'a RuleLimit, &'a State), MAX_LIMITS>,
    asked: Asked<'_>,
) -> Done {
    let (Some((next, limits)), Some((own_drops, drops))) =
        (limits.split_first(), drops.split_first_mut())
    else {
        return look(seen, asked);
    };
    let call = next.call;
    (next.table).with_unchanged_state(next.key, call, own_drops, |state| {
        // These borrows are shorter than those of the locks before.
        let mut seen: ArrayVec<_, MAX_LIMITS> = seen;
        seen.push((next.place, call.algorithm, state));
        look_under_locks(limits, drops, seen, asked)
    })
}

/// Looks at limits whose states are locked.
fn look(seen: ArrayVec<(usize, &RuleLimit, &State), MAX_LIMITS>, (cost, clock): Asked<'_>) -> Done {
    let now = clock();
    let mut admitted = true;
    let snapshots = (seen.into_iter())
        .map(|(place, limit, state)| {
            let (admits, snapshot) = limit.look(state, cost, now);
            admitted &= admits;
            (place, snapshot)
        })
        .collect();
    Done {
        now,
        admitted,
        snapshots,
    }
}

/// Decides about limits whose states are locked.
fn decide(locked: AllLocked<'_>, (cost, clock): Asked<'_>) -> (bool, Done) {
    let now = clock();
    let admitted = locked.iter().all(|(_, limit)| limit.admits(now));
    let snapshots = (locked.into_iter())
        .map(|(place, limit)| (place, limit.charge_if(admitted, now)))
        .collect();
    let done = Done {
        now,
        admitted,
        snapshots,
    };
    (admitted && cost > 0, done)
}

impl<C: Clock> LocalStore<RuleLimits, RuleKey, C> {
    /// The table of a limit.
    #[inline]
    fn of(&self, limit: &RuleLimit) -> &Table<KeyValue, State> {
        self.tables.table(limit)
    }

    /// The calls about the limits of a key, in the order in which their locks are taken.
    fn in_the_order_of_locks<'a>(
        &'a self,
        key: &'a RuleKey,
        (cost, clock): Asked<'a>,
    ) -> ArrayVec<LimitCall<'a>, MAX_LIMITS> {
        let mut limits: ArrayVec<_, MAX_LIMITS> = (key.charges().iter().enumerate())
            .map(|(place, Charge { limit, key: value })| {
                let algorithm = key.limits().limit(*limit);
                LimitCall {
                    place,
                    call: Call::new(algorithm, cost, clock),
                    table: self.of(algorithm),
                    key: value,
                }
            })
            .collect();
        limits.sort_unstable_by_key(|limit| limit.call.algorithm.policy_id().as_u64());
        limits
    }

    fn decide_several(&self, key: &RuleKey, cost: u32) -> Verdict<RuleSnapshot> {
        let clock = || self.clock.now();
        let asked: Asked<'_> = (cost, &clock);
        let limits = self.in_the_order_of_locks(key, asked);
        let mut drops: ArrayVec<_, MAX_LIMITS> = limits.iter().map(|_| Drops::new()).collect();
        let mut sweeps = [false; MAX_LIMITS];
        let (_, done) =
            decide_under_locks(&limits, &mut drops, &mut sweeps, ArrayVec::new(), asked);
        for (limit, sweep_is_due) in limits.iter().zip(sweeps) {
            let sweep_is_due_at = sweep_is_due.then_some(done.now);
            (limit.table).after_a_decision(limit.call.algorithm, sweep_is_due_at);
        }
        done.verdict(key)
    }

    /// Calls the closure with each limit of a key: its number, its table, its key, and the call.
    fn each(
        &self,
        key: &RuleKey,
        cost: u32,
        mut does: impl FnMut(&Table<KeyValue, State>, &Charge, Call<'_, RuleLimit>),
    ) {
        let clock = || self.clock.now();
        for charge in key.charges() {
            let algorithm = key.limits().limit(charge.limit);
            let call = Call::new(algorithm, cost, &clock);
            does(self.of(algorithm), charge, call);
        }
    }
}

// Keeps this impl out of the compiler's message where a store does not fit.
#[diagnostic::do_not_recommend]
impl<C: Clock> Store<RuleLimits, RuleKey> for LocalStore<RuleLimits, RuleKey, C> {
    type Deciding = Pending<Decided<RuleLimits>>;
    type Writing = Pending<Written>;

    fn decide<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        limits: &RuleLimits,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<RuleLimits>, Self::Deciding> {
        self.decide_whole(limits, &key.to_owned(), cost)
    }

    // Inlined always: see `Table::decide_known`.
    #[inline(always)]
    fn decide_whole(
        &self,
        _limits: &RuleLimits,
        key: &RuleKey,
        cost: u32,
    ) -> Answer<Decided<RuleLimits>, Self::Deciding> {
        let [Charge { limit, key: value }] = key.charges() else {
            return Answer::Now(Ok(self.decide_several(key, cost)));
        };
        let (number, limit) = (*limit, key.limits().limit(*limit));
        let table = self.of(limit);
        let verdict = |admitted, snapshot| {
            let limits = Arc::clone(key.limits());
            let snapshot = RuleSnapshot::one(limits, (number, snapshot));
            Answer::Now(Ok(Verdict { admitted, snapshot }))
        };
        let asked = (cost, &self.clock);
        match table.step_known(limit, value, &self.clock, |now, state| {
            limit.step_then(state, (cost, now), verdict)
        }) {
            Ok(verdict) => verdict,
            Err(unknown) => {
                let decided = table.decide_new(unknown, limit, value, asked);
                verdict(decided.admitted, decided.snapshot)
            }
        }
    }

    fn peek<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<RuleLimits>, Self::Deciding> {
        let key = key.to_owned();
        let clock = || self.clock.now();
        let asked: Asked<'_> = (cost, &clock);
        let limits = self.in_the_order_of_locks(&key, asked);
        let mut drops: ArrayVec<_, MAX_LIMITS> = limits.iter().map(|_| Drops::new()).collect();
        let done = look_under_locks(&limits, &mut drops, ArrayVec::new(), asked);
        Answer::Now(Ok(done.verdict(&key)))
    }

    fn refund<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
        cost: u32,
    ) -> Answer<Written, Self::Writing> {
        self.each(&key.to_owned(), cost, |table, charge, call| {
            table.refund(&charge.key, call);
        });
        Answer::Now(Ok(()))
    }

    fn debit<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
        units: u32,
    ) -> Answer<Written, Self::Writing> {
        self.each(&key.to_owned(), units, |table, charge, call| {
            table.debit(&charge.key, call, &mut Drops::new());
        });
        Answer::Now(Ok(()))
    }

    fn reset<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
    ) -> Answer<Written, Self::Writing> {
        self.each(&key.to_owned(), 0, |table, charge, call| {
            table.reset(&charge.key, call.algorithm, &mut Drops::new());
        });
        Answer::Now(Ok(()))
    }

    fn buckets_id(&self) -> usize {
        Arc::as_ptr(&self.tables).addr()
    }

    fn withdraw(&self, _limits: &RuleLimits, key: &RuleKey, admission: &RuleSnapshot, cost: u32) {
        let mut snapshots = admission.each();
        self.each(key, cost, |table, charge, call| {
            if let Some((_, snapshot)) = snapshots.next() {
                table.withdraw(&charge.key, snapshot, call);
            }
        });
    }
}
