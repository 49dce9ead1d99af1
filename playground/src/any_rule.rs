//! An algorithm that is chosen when the program runs, as a member of a tuple. It only forwards to
//! tollgate's algorithms.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use tollgate::{
    PolicyDecision, Timestamp,
    algorithm::{Ending, KeyLimit, Limit, Policy, TokenBucket},
};

use crate::simulate::{Looks, Request, Run, simulate};

/// One of tollgate's algorithms.
#[derive(Clone)]
pub struct AnyRule(Arc<dyn Rule>);

/// A state or a snapshot of it.
pub type Kept = Arc<dyn Any + Send + Sync>;

impl AnyRule {
    /// This algorithm.
    pub(crate) fn of<A: KeyLimit>(rule: &A) -> Self {
        Self(Arc::new(Of(rule.clone())))
    }

    /// What it does to these requests, by itself.
    pub(crate) fn run(&self, requests: &[Request], looks: &Looks) -> Run {
        self.0.run(requests, looks)
    }
}

impl fmt::Debug for AnyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyRule")
            .field(&self.0.policy_names())
            .finish()
    }
}

/// What an algorithm does, whatever its state and its snapshot are.
trait Rule: Send + Sync {
    fn run(&self, requests: &[Request], looks: &Looks) -> Run;
    fn each_policy(&self, output: &mut dyn FnMut(&Policy));
    fn policy_names(&self) -> String;
    fn inherit(&self, shared: &Kept, now: Timestamp) -> Kept;
    fn refused_for(&self, wait: Duration, now: Timestamp) -> Kept;
    fn fresh(&self, at: Timestamp) -> Kept;
    fn judge(&self, state: &Kept, cost: u32, now: Timestamp) -> bool;
    fn step(&self, state: &mut Kept, cost: u32, now: Timestamp) -> (bool, Kept);
    fn debit(&self, state: &mut Kept, units: u64, now: Timestamp);
    fn end(&self, state: &mut Kept, admission: &Kept, ending: Ending, now: Timestamp);
    fn refund(&self, state: &mut Kept, cost: u32, now: Timestamp);
    fn is_fresh(&self, state: &Kept, now: Timestamp) -> bool;
    fn snapshot(&self, state: &Kept, cost: u32, admitted: bool, now: Timestamp) -> Kept;
    fn describe(&self, snapshot: &Kept, output: &mut dyn FnMut(PolicyDecision));
    fn delay(&self, snapshot: &Kept) -> Duration;
}

/// What is kept, as the algorithm keeps it.
fn own<T: 'static>(kept: &Kept) -> &T {
    kept.downcast_ref().expect("a rule is given what it made")
}

/// The same, to be changed: cloned first if it is shared.
fn own_mut<T: Clone + Send + Sync + 'static>(kept: &mut Kept) -> &mut T {
    if Arc::get_mut(kept).is_none() {
        *kept = Arc::new(own::<T>(kept).clone());
    }
    let kept = Arc::get_mut(kept).expect("nobody else has it");
    kept.downcast_mut().expect("a rule is given what it made")
}

/// An algorithm as a rule whose type is not known.
struct Of<A>(A);

impl<A: KeyLimit> Rule for Of<A> {
    fn run(&self, requests: &[Request], looks: &Looks) -> Run {
        simulate(&self.0, requests, looks)
    }

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        self.0.each_policy(output);
    }

    fn policy_names(&self) -> String {
        self.0.policy_names()
    }

    fn fresh(&self, at: Timestamp) -> Kept {
        Arc::new(self.0.fresh(at))
    }

    fn refused_for(&self, wait: Duration, now: Timestamp) -> Kept {
        Arc::new(self.0.refused_for(wait, now))
    }

    fn inherit(&self, shared: &Kept, now: Timestamp) -> Kept {
        Arc::new(self.0.inherit(own::<A::State>(shared), now))
    }

    fn judge(&self, state: &Kept, cost: u32, now: Timestamp) -> bool {
        self.0.judge(own::<A::State>(state), cost, now)
    }

    fn step(&self, state: &mut Kept, cost: u32, now: Timestamp) -> (bool, Kept) {
        let (admitted, snapshot) = self.0.step(own_mut::<A::State>(state), cost, now);
        (admitted, Arc::new(snapshot))
    }

    fn debit(&self, state: &mut Kept, units: u64, now: Timestamp) {
        self.0.debit(own_mut::<A::State>(state), units, now);
    }

    fn end(&self, state: &mut Kept, admission: &Kept, ending: Ending, now: Timestamp) {
        let admission = own::<A::Snapshot>(admission);
        self.0
            .end(own_mut::<A::State>(state), admission, ending, now);
    }

    fn refund(&self, state: &mut Kept, cost: u32, now: Timestamp) {
        self.0.refund(own_mut::<A::State>(state), cost, now);
    }

    fn is_fresh(&self, state: &Kept, now: Timestamp) -> bool {
        self.0.is_fresh(own::<A::State>(state), now)
    }

    fn snapshot(&self, state: &Kept, cost: u32, admitted: bool, now: Timestamp) -> Kept {
        Arc::new(self.0.snapshot(own::<A::State>(state), cost, admitted, now))
    }

    fn describe(&self, snapshot: &Kept, output: &mut dyn FnMut(PolicyDecision)) {
        self.0.describe(own::<A::Snapshot>(snapshot), output);
    }

    fn delay(&self, snapshot: &Kept) -> Duration {
        self.0.delay_of(own::<A::Snapshot>(snapshot))
    }
}

impl Limit for AnyRule {
    type Snapshot = Kept;
    // One key, as every algorithm.
    type Keys = <TokenBucket as Limit>::Keys;

    // Some algorithms do. One that does not is asked in vain, and does nothing.
    const SETTLES: bool = true;
    const IN_FLIGHT: bool = true;

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        self.0.each_policy(output);
    }

    fn describe(&self, snapshot: &Kept, output: &mut dyn FnMut(PolicyDecision)) {
        self.0.describe(snapshot, output);
    }

    fn delay_of(&self, snapshot: &Kept) -> Duration {
        self.0.delay(snapshot)
    }
}

impl KeyLimit for AnyRule {
    type State = Kept;

    fn fresh(&self, at: Timestamp) -> Kept {
        self.0.fresh(at)
    }

    fn judge(&self, state: &Kept, cost: u32, now: Timestamp) -> bool {
        self.0.judge(state, cost, now)
    }

    fn step(&self, state: &mut Kept, cost: u32, now: Timestamp) -> (bool, Kept) {
        self.0.step(state, cost, now)
    }

    fn debit(&self, state: &mut Kept, units: u64, now: Timestamp) {
        self.0.debit(state, units, now);
    }

    fn end(&self, state: &mut Kept, admission: &Kept, ending: Ending, now: Timestamp) {
        self.0.end(state, admission, ending, now);
    }

    fn refund(&self, state: &mut Kept, cost: u32, now: Timestamp) {
        self.0.refund(state, cost, now);
    }

    fn is_fresh(&self, state: &Kept, now: Timestamp) -> bool {
        self.0.is_fresh(state, now)
    }

    fn snapshot(&self, state: &Kept, cost: u32, admitted: bool, now: Timestamp) -> Kept {
        self.0.snapshot(state, cost, admitted, now)
    }

    fn inherit(&self, shared: &Kept, now: Timestamp) -> Kept {
        self.0.inherit(shared, now)
    }

    fn refused_for(&self, wait: Duration, now: Timestamp) -> Kept {
        self.0.refused_for(wait, now)
    }
}
