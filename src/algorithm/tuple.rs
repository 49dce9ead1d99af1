//! Several algorithms as one: every member admits, or none is charged.

use std::time::Duration;

use crate::{
    algorithm::{Ending, KeyLimit, Limit, Policy, Script, ScriptReply, Scripted, limit::OneKey},
    clock::Timestamp,
    decision::PolicyDecision,
};

/// Implements the traits for tuples: Rust has no other way to say "a tuple of any length".
macro_rules! tuple {
    ($($member:ident . $index:tt),+) => {
        impl<$($member: KeyLimit),+> Limit for ($($member),+) {
            type Snapshot = ($($member::Snapshot),+);
            type Keys = OneKey;

            const SETTLES: bool = false $(|| $member::SETTLES)+;
            const IN_FLIGHT: bool = false $(|| $member::IN_FLIGHT)+;

            fn unheld(&self) -> Self {
                ($(self.$index.unheld()),+)
            }

            fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
                $(self.$index.each_policy(output);)+
            }

            fn describe(&self, snapshot: &Self::Snapshot, output: &mut dyn FnMut(PolicyDecision)) {
                $(self.$index.describe(&snapshot.$index, output);)+
            }

            fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration {
                Duration::ZERO$(.max(self.$index.delay_of(&snapshot.$index)))+
            }
        }

        /// Admits a request if every member does; otherwise charges none of them.
        ///
        /// The wait and the delay are the longest member's, and what remains is the least. Beside a
        /// queue the bounds of the other members hold for what is admitted, not for what is
        /// released.
        impl<$($member: KeyLimit),+> KeyLimit for ($($member),+) {
            type State = ($($member::State),+);

            fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool {
                true $(&& self.$index.judge(&state.$index, cost, now))+
            }

            fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp) {
                $(self.$index.debit(&mut state.$index, units, now);)+
            }

            fn holds(&self, state: &Self::State, admission: &Self::Snapshot) -> bool {
                false $(|| self.$index.holds(&state.$index, &admission.$index))+
            }

            fn end(
                &self,
                state: &mut Self::State,
                admission: &Self::Snapshot,
                ending: Ending,
                now: Timestamp,
            ) {
                $(self.$index.end(&mut state.$index, &admission.$index, ending, now);)+
            }

            fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
                $(self.$index.refund(&mut state.$index, cost, now);)+
            }

            fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool {
                true $(&& self.$index.is_fresh(&state.$index, now))+
            }

            fn fresh(&self, at: Timestamp) -> Self::State {
                ($(self.$index.fresh(at)),+)
            }

            fn inherit(&self, shared: &Self::State, now: Timestamp) -> Self::State {
                (
                    $(self.$index.inherit(&shared.$index, now)),+
                )
            }

            fn snapshot(
                &self,
                state: &Self::State,
                cost: u32,
                admitted: bool,
                now: Timestamp,
            ) -> Self::Snapshot {
                (
                    $(member_snapshot(&self.$index, &state.$index, cost, admitted, now)),+
                )
            }

            fn refused_for(&self, wait: Duration, now: Timestamp) -> Self::Snapshot {
                ($(self.$index.refused_for(wait, now)),+)
            }

            fn step(
                &self,
                state: &mut Self::State,
                cost: u32,
                now: Timestamp,
            ) -> (bool, Self::Snapshot) {
                match self.judge(state, cost, now) {
                    true => (true, ($(self.$index.step(&mut state.$index, cost, now).1),+)),
                    false => (false, self.snapshot(state, cost, false, now)),
                }
            }
        }

        impl<$($member: Scripted),+> Scripted for ($($member),+) {
            fn script() -> Script {
                let members = [$($member::script()),+];
                members.into_iter().reduce(Script::and).expect("at least two")
            }

            fn parameters(&self, output: &mut dyn FnMut(u64)) {
                $(self.$index.parameters(output);)+
            }

            fn holding(&self, output: &mut dyn FnMut(u64)) {
                $(self.$index.holding(output);)+
            }

            /// The numbers of each member, after how many they are.
            fn state(&self, at: Timestamp, mut numbers: &[u64]) -> Option<Self::State> {
                let state = (
                    $(state_of(&self.$index, at, &mut numbers)?),+
                );
                numbers.is_empty().then_some(state)
            }

            fn numbers(&self, state: &Self::State, at: Timestamp, output: &mut dyn FnMut(u64)) {
                $(output_counted(&self.$index, &state.$index, at, output);)+
            }

            fn admission(&self, admission: &Self::Snapshot, output: &mut dyn FnMut(u64)) {
                $(self.$index.admission(&admission.$index, output);)+
            }

            fn read(&self, reply: &mut ScriptReply) -> Option<Self::Snapshot> {
                Some(($(self.$index.read(reply)?),+))
            }
        }
    };
}

tuple!(A.0, B.1);
tuple!(A.0, B.1, C.2);
tuple!(A.0, B.1, C.2, D.3);
tuple!(A.0, B.1, C.2, D.3, E.4);
tuple!(A.0, B.1, C.2, D.3, E.4, F.5);
tuple!(A.0, B.1, C.2, D.3, E.4, F.5, G.6);
tuple!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7);

/// Takes the state of a member from the numbers of all.
fn state_of<A: Scripted>(member: &A, at: Timestamp, numbers: &mut &[u64]) -> Option<A::State> {
    let (count, rest) = numbers.split_first()?;
    let (own, rest) = rest.split_at_checked(usize::try_from(*count).ok()?)?;
    *numbers = rest;
    member.state(at, own)
}

fn output_counted<A: Scripted>(
    member: &A,
    state: &A::State,
    at: Timestamp,
    output: &mut dyn FnMut(u64),
) {
    let mut count = 0;
    member.numbers(state, at, &mut |_| count += 1);
    output(count);
    member.numbers(state, at, output);
}

/// The snapshot of a member. If it admits what another member refuses, it is charged nothing, so
/// its snapshot is that of a cost of 0.
fn member_snapshot<A: KeyLimit>(
    member: &A,
    state: &A::State,
    cost: u32,
    all_admit: bool,
    now: Timestamp,
) -> A::Snapshot {
    match !all_admit && member.judge(state, cost, now) {
        true => member.snapshot(state, 0, true, now),
        false => member.snapshot(state, cost, all_admit, now),
    }
}
