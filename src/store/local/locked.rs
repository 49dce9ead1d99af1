//! One of several limits that decide together, while its state is locked.

use crate::{
    algorithm::{Algorithm, member_snapshot},
    clock::Timestamp,
};

use super::call::Call;

/// A call with the state that it is about, which is locked. If all limits that decide together
/// admit the call, each of them is charged; otherwise none is.
pub(super) struct Locked<'a, A: Algorithm> {
    call: Call<'a, A>,
    state: &'a mut A::State,
}

impl<'a, A: Algorithm> Locked<'a, A> {
    #[inline]
    pub(super) fn new(call: Call<'a, A>, state: &'a mut A::State) -> Self {
        Self { call, state }
    }

    /// Whether the call is admitted.
    #[inline]
    pub(super) fn admits(&self, now: Timestamp) -> bool {
        let Call {
            algorithm, cost, ..
        } = self.call;
        algorithm.judge(self.state, cost, now)
    }

    /// Charges the state if all limits admit, and says what it is then.
    #[inline]
    pub(super) fn charge_if(self, all_admit: bool, now: Timestamp) -> A::Snapshot {
        let Self { call, state } = self;
        if all_admit && call.cost > 0 {
            call.algorithm.charge(state, call.cost, now);
        }
        member_snapshot(call.algorithm, state, call.cost, all_admit, now)
    }
}
