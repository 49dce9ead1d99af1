//! What a call does: what it asks of the store, and what it tells the caller.

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
    /// What an observer is told that it is about; none, if none is told.
    #[inline]
    pub(super) fn observed_cost(&self) -> Option<u32> {
        match self {
            Self::Decide(Ask::Charge(cost)) | Self::Change(Change::Debit(cost)) => Some(*cost),
            _ => None,
        }
    }
}

/// What a [`Call`](super::Call) does. The trait is sealed: the operations are those of this module.
pub trait Operation<L: Limit, K: Key>: sealed::Sealed {
    /// What the caller is told: a [`Decision`], a [`Hold`], or nothing.
    type Told;

    /// Makes that of what was decided about the cost; nothing is decided by a write.
    #[doc(hidden)]
    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        at: (&S, &L, &Q),
        cost: u32,
        verdict: Option<Verdict<L::Snapshot>>,
    ) -> Self::Told;
}

mod sealed {
    /// Seals `Operation`.
    pub trait Sealed {}

    impl Sealed for super::Check {}
    impl Sealed for super::TakeHold {}
    impl Sealed for super::Write {}
}

/// Asks the store about a cost; tells the [`Decision`].
#[derive(Debug)]
pub struct Check(());

/// Holds a cost, or refuses it and changes nothing; tells the [`Hold`], or the [`Decision`] that
/// refuses it.
#[derive(Debug)]
pub struct TakeHold(());

/// Gives units back, charges them whether they fit or not, or forgets the key; tells nothing.
#[derive(Debug)]
pub struct Write(());

/// Charges a held cost at once, where nobody settles it.
#[inline]
pub(super) fn charge_what_is_held<L: Limit, K: Key, S: Store<L, K>, Q: AsKey<K> + ?Sized>(
    (store, limit, key): (&S, &L, &Q),
    verdict: &Verdict<L::Snapshot>,
    cost: u32,
) {
    if L::SETTLES && verdict.admitted && cost > 0 {
        let settled = Change::Settle {
            admission: &verdict.snapshot,
            held: cost,
            spent: cost,
        };
        drop(store.change(limit, key, settled));
    }
}

const DECIDED: &str = "it asks for a decision";

impl<L: Limit, K: Key> Operation<L, K> for Check {
    type Told = Decision;

    // Inlined always, as `Call::poll` is: a program that checks in two places would call it, and a
    // check of a string takes 0.75 of governor's time then, and 0.70 otherwise (bench `decision`).
    #[inline(always)]
    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        at: (&S, &L, &Q),
        cost: u32,
        verdict: Option<Verdict<L::Snapshot>>,
    ) -> Decision {
        let verdict = verdict.expect(DECIDED);
        charge_what_is_held(at, &verdict, cost);
        at.1.decision_of(&verdict.snapshot)
    }
}

impl<L: Limit, K: Key> Operation<L, K> for TakeHold {
    type Told = Result<Hold, Box<Decision>>;

    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        (store, limit, key): (&S, &L, &Q),
        cost: u32,
        verdict: Option<Verdict<L::Snapshot>>,
    ) -> Result<Hold, Box<Decision>> {
        let verdict = verdict.expect(DECIDED);
        if !verdict.admitted {
            return Err(Box::new(limit.decision_of(&verdict.snapshot)));
        }
        let (limit, store, key) = (limit.clone(), store.clone(), key.to_owned());
        let held = (verdict.snapshot, cost);
        Ok(Hold::new(limit, store, key, held, EndsWhen::Settled))
    }
}

impl<L: Limit, K: Key> Operation<L, K> for Write {
    type Told = ();

    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        _at: (&S, &L, &Q),
        _cost: u32,
        _verdict: Option<Verdict<L::Snapshot>>,
    ) {
    }
}
