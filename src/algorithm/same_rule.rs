//! One rule under several names.

/// Makes a newtype the algorithm that it holds: users look for a rule under more than one name, and
/// a function cannot implement a trait for each of them.
macro_rules! same_rule {
    ($name:ty, $rule:ty) => {
        $crate::algorithm::same_rule::same_rule!($name, $rule, 0);
    };
    ($name:ty, $rule:ty, $field:tt) => {
        $crate::algorithm::same_rule::same_rule!(
            $name,
            $rule,
            $field,
            <$rule as $crate::algorithm::Scripted>::script
        );
    };
    ($name:ty, $rule:ty, $field:tt, $script:expr) => {
        impl $crate::algorithm::Algorithm for $name {
            type State = <$rule as $crate::algorithm::Algorithm>::State;
            type Snapshot = <$rule as $crate::algorithm::Algorithm>::Snapshot;

            #[inline]
            fn policy_id(&self) -> $crate::algorithm::PolicyId {
                self.$field.policy_id()
            }

            #[inline]
            fn fresh(&self, at: $crate::clock::Timestamp) -> Self::State {
                self.$field.fresh(at)
            }

            #[inline]
            fn judge(&self, state: &Self::State, cost: u32, now: $crate::clock::Timestamp) -> bool {
                self.$field.judge(state, cost, now)
            }

            #[inline]
            fn debit(&self, state: &mut Self::State, units: u64, now: $crate::clock::Timestamp) {
                self.$field.debit(state, units, now);
            }

            #[inline]
            fn refund(&self, state: &mut Self::State, cost: u32, now: $crate::clock::Timestamp) {
                self.$field.refund(state, cost, now);
            }

            #[inline]
            fn is_fresh(&self, state: &Self::State, now: $crate::clock::Timestamp) -> bool {
                self.$field.is_fresh(state, now)
            }

            #[inline]
            fn inherit(&self, shared: &Self::State, now: $crate::clock::Timestamp) -> Self::State {
                self.$field.inherit(shared, now)
            }

            #[inline]
            fn snapshot(
                &self,
                state: &Self::State,
                cost: u32,
                admitted: bool,
                now: $crate::clock::Timestamp,
            ) -> Self::Snapshot {
                self.$field.snapshot(state, cost, admitted, now)
            }

            // Inlined always: a sixth of the instructions of a check (bench `instructions`).
            #[inline(always)]
            fn step(
                &self,
                state: &mut Self::State,
                cost: u32,
                now: $crate::clock::Timestamp,
            ) -> (bool, Self::Snapshot) {
                self.$field.step(state, cost, now)
            }

            #[inline]
            fn describe(
                &self,
                snapshot: &Self::Snapshot,
                tell: &mut dyn FnMut($crate::decision::PolicyDecision),
            ) {
                self.$field.describe(snapshot, tell);
            }

            #[inline]
            fn decision(&self, snapshot: &Self::Snapshot) -> $crate::decision::Decision {
                self.$field.decision(snapshot)
            }

            #[inline]
            fn delay(&self, snapshot: &Self::Snapshot) -> std::time::Duration {
                self.$field.delay(snapshot)
            }

            #[inline]
            fn withdraw(
                &self,
                state: &mut Self::State,
                admission: &Self::Snapshot,
                cost: u32,
                now: $crate::clock::Timestamp,
            ) {
                self.$field.withdraw(state, admission, cost, now);
            }
        }

        impl $crate::algorithm::Scripted for $name {
            fn script() -> $crate::algorithm::Script {
                $script()
            }

            fn parameters(&self, tell: &mut dyn FnMut(u64)) {
                self.$field.parameters(tell);
            }

            fn state(&self, at: $crate::clock::Timestamp, numbers: &[u64]) -> Option<Self::State> {
                self.$field.state(at, numbers)
            }

            fn numbers(
                &self,
                state: &Self::State,
                at: $crate::clock::Timestamp,
                tell: &mut dyn FnMut(u64),
            ) {
                self.$field.numbers(state, at, tell);
            }

            fn admission(&self, admission: &Self::Snapshot, tell: &mut dyn FnMut(u64)) {
                self.$field.admission(admission, tell);
            }

            fn read(
                &self,
                reply: &mut $crate::algorithm::ScriptReply<'_>,
            ) -> Option<Self::Snapshot> {
                self.$field.read(reply)
            }
        }
    };
}

/// The same for a rule that is [additive](super::Additive): so is the newtype.
macro_rules! same_additive_rule {
    ($name:ty, $rule:ty) => {
        $crate::algorithm::same_rule::same_additive_rule!($name, $rule, 0);
    };
    ($name:ty, $rule:ty, $field:tt) => {
        $crate::algorithm::same_rule::same_rule!($name, $rule, $field);

        impl $crate::algorithm::Additive for $name {
            #[inline]
            fn fits(
                &self,
                state: &Self::State,
                amount: u64,
                now: $crate::clock::Timestamp,
            ) -> bool {
                self.$field.fits(state, amount, now)
            }

            #[inline]
            fn amount(&self, units: u64) -> u64 {
                self.$field.amount(units)
            }

            #[inline]
            fn has_counted(&self, state: &Self::State) -> bool {
                self.$field.has_counted(state)
            }

            #[inline]
            fn converted(&self, state: &Self::State, amount: u64) -> u64 {
                self.$field.converted(state, amount)
            }

            #[inline]
            fn debit_amount(
                &self,
                state: &mut Self::State,
                amount: u64,
                now: $crate::clock::Timestamp,
            ) {
                self.$field.debit_amount(state, amount, now);
            }

            #[inline]
            fn snapshot_beside(
                &self,
                state: &Self::State,
                held: u64,
                cost: (u32, bool),
                now: $crate::clock::Timestamp,
            ) -> Self::Snapshot {
                self.$field.snapshot_beside(state, held, cost, now)
            }
        }
    };
}

pub(super) use {same_additive_rule, same_rule};
