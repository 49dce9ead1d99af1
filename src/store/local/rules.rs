//! Decides by rules: about all limits together that apply to a request.
//!
//! If there are several, their locks are taken in the order of their policies, whatever the order
//! of the rules. So no two threads deadlock.

use std::{borrow::Cow, future::Pending, sync::Arc};

use arrayvec::ArrayVec;

use crate::{
    algorithm::{Algorithm, shadow::ShadowState},
    clock::Clock,
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

type Drops = DeferredDrops<KeyValue, State>;

/// Takes the locks of these limits, one inside the other, and decides under them.
fn decide_under_locks<'a>(
    limits: &[LimitCall<'_>],
    drops: &mut [Drops],
    sweeps: &mut [bool],
    locked: AllLocked<'a>,
    cost: u32,
) -> (bool, Done) {
    let (Some((next, limits)), Some((own_drops, drops)), Some((sweep, sweeps))) = (
        limits.split_first(),
        drops.split_first_mut(),
        sweeps.split_first_mut(),
    ) else {
        return decide(locked, cost);
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
            let (is_charged, done) = decide_under_locks(limits, drops, sweeps, locked, cost);
            (is_charged, (is_charged, done))
        });
    *sweep = sweep_is_due;
    (is_charged, done)
}

/// Takes the locks of these limits, one inside the other, and asks each limit what it would answer.
/// All locks are held until the last one is asked, so nobody charges one of them meanwhile.
fn look_under_locks(limits: &[LimitCall<'_>], drops: &mut [Drops], done: &mut Done) {
    let (Some((next, limits)), Some((own_drops, drops))) =
        (limits.split_first(), drops.split_first_mut())
    else {
        return;
    };
    let call = next.call;
    (next.table).with_unchanged_state(next.key, call, own_drops, |state| {
        let (admitted, snapshot) = call.algorithm.look(state, call.cost, call.now);
        done.admitted &= admitted;
        done.snapshots.push((next.place, snapshot));
        look_under_locks(limits, drops, done);
    });
}

/// Decides about limits whose states are locked.
fn decide(locked: AllLocked<'_>, cost: u32) -> (bool, Done) {
    let admitted = locked.iter().all(|(_, limit)| limit.admits());
    let snapshots = (locked.into_iter())
        .map(|(place, limit)| (place, limit.charge_if(admitted)))
        .collect();
    let done = Done {
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
        cost: u32,
    ) -> ArrayVec<LimitCall<'a>, MAX_LIMITS> {
        let now = self.clock.now();
        let mut limits: ArrayVec<_, MAX_LIMITS> = (key.charges().iter().enumerate())
            .map(|(place, Charge { limit, key: value })| {
                let algorithm = key.limits().limit(*limit);
                LimitCall {
                    place,
                    call: Call {
                        algorithm,
                        cost,
                        now,
                    },
                    table: self.of(algorithm),
                    key: value,
                }
            })
            .collect();
        limits.sort_unstable_by_key(|limit| limit.call.algorithm.policy_id().as_u64());
        limits
    }

    fn decide_several(&self, key: &RuleKey, cost: u32) -> Verdict<RuleSnapshot> {
        let limits = self.in_the_order_of_locks(key, cost);
        let mut drops: ArrayVec<_, MAX_LIMITS> = limits.iter().map(|_| Drops::new()).collect();
        let mut sweeps = [false; MAX_LIMITS];
        let (_, done) = decide_under_locks(&limits, &mut drops, &mut sweeps, ArrayVec::new(), cost);
        for (limit, sweep_is_due) in limits.iter().zip(sweeps) {
            limit.table.after_a_decision(limit.call, sweep_is_due);
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
        let now = self.clock.now();
        for charge in key.charges() {
            let algorithm = key.limits().limit(charge.limit);
            let call = Call {
                algorithm,
                cost,
                now,
            };
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
        match table.step_known(limit, value, asked, |call, state| {
            limit.step_then(state, (cost, call.now), verdict)
        }) {
            Ok(verdict) => verdict,
            Err(unknown) => {
                let decided = table.decide_new(unknown, limit, value, cost);
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
        let limits = self.in_the_order_of_locks(&key, cost);
        let mut drops: ArrayVec<_, MAX_LIMITS> = limits.iter().map(|_| Drops::new()).collect();
        let mut done = Done {
            admitted: true,
            snapshots: ArrayVec::new(),
        };
        look_under_locks(&limits, &mut drops, &mut done);
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
