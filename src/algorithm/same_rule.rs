//! One rule under several names.

use crate::{clock::Timestamp, decision::LazyStatus};

use super::{Additive, Algorithm, JudgedCost, Policy, Script, ScriptReply, Scripted, Status};

type State<T> = <T as Algorithm>::State;

/// A type that decides by the rule that it has inside: users look for a rule under more than one
/// name.
pub trait SameRule: Clone + Send + Sync + 'static {
    type Rule: Algorithm;

    /// Whether requests wait for their turns.
    const IS_A_QUEUE: bool = false;

    fn rule(&self) -> &Self::Rule;
}

/// Makes methods of a trait: each is that of the rule inside. (One function cannot be them all.)
macro_rules! of_the_rule {
    ($(
        $(#[$attribute:meta])*
        fn $method:ident(&$self:ident $(, $argument:ident: $Argument:ty)*) $(-> $Returns:ty)?;
    )+) => {$(
        $(#[$attribute])*
        fn $method(&$self $(, $argument: $Argument)*) $(-> $Returns)? {
            $self.rule().$method($($argument),*)
        }
    )+};
}

#[diagnostic::do_not_recommend]
impl<T: SameRule> Algorithm for T {
    type State = <T::Rule as Algorithm>::State;

    of_the_rule! {
        fn policy(&self) -> &Policy;
        fn fresh(&self, at: Timestamp) -> State<T>;
        fn judge(&self, state: &State<T>, cost: u32, now: Timestamp) -> bool;
        fn debit(&self, state: &mut State<T>, units: u64, now: Timestamp);
        fn refund(&self, state: &mut State<T>, cost: u32, now: Timestamp);
        #[inline]
        fn is_fresh(&self, state: &State<T>, now: Timestamp) -> bool;
        fn status(&self, state: &State<T>, cost: u32, admitted: bool, now: Timestamp) -> Status;
        // Inlined always: a sixth of the instructions of a check (bench `instructions`).
        #[inline(always)]
        fn step(&self, state: &mut State<T>, cost: u32, now: Timestamp) -> (bool, LazyStatus);
        fn lazy_status(&self, state: &State<T>, cost: JudgedCost, now: Timestamp) -> LazyStatus;
        fn inherit(&self, shared: &State<T>, now: Timestamp) -> State<T>;
        fn withdraw(&self, state: &mut State<T>, admission: &LazyStatus, cost: u32, now: Timestamp);
    }
}

#[diagnostic::do_not_recommend]
impl<T> Scripted for T
where
    T: SameRule<Rule: Scripted<State = State<T>, Snapshot = LazyStatus>>,
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

    of_the_rule! {
        fn parameters(&self, output: &mut dyn FnMut(u64));
        fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<State<T>>;
        fn numbers(&self, state: &State<T>, at: Timestamp, output: &mut dyn FnMut(u64));
        fn admission(&self, admission: &LazyStatus, output: &mut dyn FnMut(u64));
        fn read(&self, reply: &mut ScriptReply) -> Option<LazyStatus>;
    }
}

/// One whose units can be held.
pub(crate) trait SameAdditiveRule: SameRule<Rule: Additive> {}

#[diagnostic::do_not_recommend]
impl<T: SameAdditiveRule> Additive for T {
    of_the_rule! {
        fn fits(&self, state: &State<T>, amount: u64, now: Timestamp) -> bool;
        fn amount(&self, units: u64) -> u64;
        fn converted(&self, state: &State<T>, amount: u64) -> u64;
        fn debit_amount(&self, state: &mut State<T>, amount: u64, now: Timestamp);
        fn status_beside(&self, state: &State<T>, held: u64, cost: JudgedCost, now: Timestamp)
            -> Status;
    }
}
