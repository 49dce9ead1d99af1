//! One rule under several names.

use crate::{clock::Timestamp, decision::LazyStatus};

use super::{Additive, Algorithm, JudgedCost, Policy, Script, ScriptReply, Scripted, Status};

/// A type that decides by the rule that it has inside: users look for a rule under more than one
/// name.
pub trait SameRule: Clone + Send + Sync + 'static {
    type Rule: Algorithm;

    /// Whether requests wait for their turns.
    const IS_A_QUEUE: bool = false;

    fn rule(&self) -> &Self::Rule;
}

#[diagnostic::do_not_recommend]
impl<T: SameRule> Algorithm for T {
    type State = <T::Rule as Algorithm>::State;

    fn policy(&self) -> &Policy {
        self.rule().policy()
    }

    fn fresh(&self, at: Timestamp) -> Self::State {
        self.rule().fresh(at)
    }

    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool {
        self.rule().judge(state, cost, now)
    }

    fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp) {
        self.rule().debit(state, units, now);
    }

    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
        self.rule().refund(state, cost, now);
    }

    #[inline]
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool {
        self.rule().is_fresh(state, now)
    }

    fn status(&self, state: &Self::State, cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.rule().status(state, cost, admitted, now)
    }

    // Inlined always: a sixth of the instructions of a check (bench `instructions`).
    #[inline(always)]
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        self.rule().step(state, cost, now)
    }

    fn lazy_status(&self, state: &Self::State, cost: JudgedCost, now: Timestamp) -> LazyStatus {
        self.rule().lazy_status(state, cost, now)
    }

    fn inherit(&self, shared: &Self::State, now: Timestamp) -> Self::State {
        self.rule().inherit(shared, now)
    }

    fn withdraw(&self, state: &mut Self::State, admission: &LazyStatus, cost: u32, now: Timestamp) {
        self.rule().withdraw(state, admission, cost, now);
    }
}

#[diagnostic::do_not_recommend]
impl<T> Scripted for T
where
    T: SameRule<Rule: Scripted<State = <T as Algorithm>::State, Snapshot = LazyStatus>>,
{
    fn script() -> Script {
        let mut script = T::Rule::script();
        if T::IS_A_QUEUE {
            script = script.charged_last().with(|member| {
                member.keeps_refunds = true;
                member.withdraws = true;
                member.can_be_leased = false;
            });
        }
        script
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        self.rule().parameters(output);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<<T as Algorithm>::State> {
        self.rule().state(at, numbers)
    }

    fn numbers(&self, state: &<T as Algorithm>::State, at: Timestamp, output: &mut dyn FnMut(u64)) {
        self.rule().numbers(state, at, output);
    }

    fn admission(&self, admission: &LazyStatus, output: &mut dyn FnMut(u64)) {
        self.rule().admission(admission, output);
    }

    fn read(&self, reply: &mut ScriptReply) -> Option<LazyStatus> {
        self.rule().read(reply)
    }
}

/// One whose units can be held.
pub(crate) trait SameAdditiveRule: SameRule<Rule: Additive> {}

#[diagnostic::do_not_recommend]
impl<T: SameAdditiveRule> Additive for T {
    fn fits(&self, state: &Self::State, amount: u64, now: Timestamp) -> bool {
        self.rule().fits(state, amount, now)
    }

    fn amount(&self, units: u64) -> u64 {
        self.rule().amount(units)
    }

    fn converted(&self, state: &Self::State, amount: u64) -> u64 {
        self.rule().converted(state, amount)
    }

    fn debit_amount(&self, state: &mut Self::State, amount: u64, now: Timestamp) {
        self.rule().debit_amount(state, amount, now);
    }

    fn status_beside(
        &self,
        state: &Self::State,
        held: u64,
        cost: JudgedCost,
        now: Timestamp,
    ) -> Status {
        self.rule().status_beside(state, held, cost, now)
    }
}
