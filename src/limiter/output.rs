//! What a call asks of the store, and what it brings the caller.

use crate::{
    algorithm::Limit,
    decision::Decision,
    hold::{EndsWhen, Hold},
    key::Key,
    store::{AsKey, Ask, Change, Store, Verdict},
};

/// What the store is asked, of whose snapshots these are.
pub(super) enum Request<Snapshot: 'static> {
    Decide(Ask),
    Change(Change<'static, Snapshot>),
}

impl<Snapshot> Request<Snapshot> {
    /// Whether a decision about it charges it.
    pub(super) fn charges(&self) -> bool {
        matches!(self, Self::Decide(Ask::Charge(_)))
    }

    /// What an observer is told that it is about; none, if none is told.
    pub(super) fn observed_cost(&self) -> Option<u32> {
        match self {
            Self::Decide(Ask::Charge(cost)) | Self::Change(Change::Debit(cost)) => Some(*cost),
            _ => None,
        }
    }
}

/// What a [`Call`](super::Call) brings: a [`Decision`], a [`Hold`] or a refusal, or only its end.
pub trait Output<L: Limit, K: Key>: Sized {
    /// Whether it settles what is held. If not, nothing is held, and the cost charged at once.
    const SETTLES: bool = false;

    /// Makes that of what was decided about the cost; nothing is decided by a write.
    fn of_verdict<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        at: (&S, &L, &Q),
        cost: u32,
        verdict: Option<Verdict<L::Snapshot>>,
    ) -> Self;
}

const DECIDED: &str = "it asks for a decision";

impl<L: Limit, K: Key> Output<L, K> for Decision {
    // Inlined always, as `Call::poll` is: a program that checks in two places would call it, and a
    // check of a string takes 0.75 of governor's time then, and 0.70 otherwise (bench `decision`).
    #[inline(always)]
    fn of_verdict<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        (_, limit, _): (&S, &L, &Q),
        _cost: u32,
        verdict: Option<Verdict<L::Snapshot>>,
    ) -> Self {
        limit.decision_of(&verdict.expect(DECIDED).snapshot)
    }
}

impl<L: Limit, K: Key> Output<L, K> for Result<Hold, Box<Decision>> {
    const SETTLES: bool = true;

    fn of_verdict<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        (store, limit, key): (&S, &L, &Q),
        cost: u32,
        verdict: Option<Verdict<L::Snapshot>>,
    ) -> Self {
        let verdict = verdict.expect(DECIDED);
        if !verdict.admitted {
            return Err(Box::new(limit.decision_of(&verdict.snapshot)));
        }
        let (limit, store, key) = (limit.clone(), store.clone(), key.to_owned());
        let held = (verdict.snapshot, cost);
        Ok(Hold::new(limit, store, key, held, EndsWhen::Settled))
    }
}

impl<L: Limit, K: Key> Output<L, K> for () {
    fn of_verdict<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        _at: (&S, &L, &Q),
        _cost: u32,
        _verdict: Option<Verdict<L::Snapshot>>,
    ) {
    }
}
