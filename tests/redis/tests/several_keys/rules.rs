//! The rules of three keys, stepped by hand over one state for each key.

use std::{collections::HashMap, fmt::Debug};

use proptest::prelude::*;
use tollgate::{
    Decision, EachOf, Limit, Timestamp,
    algorithm::{Algorithm, Scripted},
};

/// The keys of a request: few, so that they meet; some are absent.
pub(crate) type Keys = EachOf<(Option<u8>, Option<u8>, Option<u8>)>;

/// What is asked at one instant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask {
    Check(u32),
    Peek,
    Debit(u32),
    Refund(u32),
    Reset,
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// In microseconds; the clock may step back.
    pub(crate) after: i64,
    pub(crate) keys: Keys,
    pub(crate) ask: Ask,
}

pub(crate) fn history() -> impl Strategy<Value = Vec<Step>> {
    let key = || prop_oneof![1 => Just(None), 4 => (0..2_u8).prop_map(Some)];
    let keys = (key(), key(), key()).prop_map(EachOf);
    let after = prop_oneof![3 => Just(0), 8 => 0..20_i64, 2 => 0..150_i64, 1 => -300..0_i64];
    let ask = prop_oneof![
        12 => (0..5_u32).prop_map(Ask::Check),
        1 => Just(Ask::Check(u32::MAX)),
        3 => Just(Ask::Peek),
        1 => (0..9_u32).prop_map(Ask::Debit),
        1 => (0..4_u32).prop_map(Ask::Refund),
        1 => Just(Ask::Reset),
    ];
    let step = (after, keys, ask).prop_map(|(after, keys, ask)| Step { after, keys, ask });
    prop::collection::vec(step, 1..60)
}

/// The states of the keys of one rule.
pub(crate) struct Place<A: Algorithm> {
    rule: A,
    states: HashMap<u8, A::State>,
}

impl<A: Scripted> Place<A> {
    pub(crate) fn of(rule: &A) -> Self {
        Self {
            rule: rule.clone(),
            states: HashMap::new(),
        }
    }

    fn state(&self, key: u8) -> A::State {
        let fresh = || self.rule.fresh(Timestamp::default());
        self.states.get(&key).cloned().unwrap_or_else(fresh)
    }

    pub(crate) fn admits(&self, key: Option<u8>, cost: u32, now: Timestamp) -> bool {
        key.is_none_or(|key| {
            let state = self.state(key);
            self.rule.judge(&state, cost, now)
        })
    }

    /// Charges if all admit; returns the snapshot. It calls the parts of a step and not `step`,
    /// which charges before the other rules are asked. A rule that admits what another one refuses
    /// gets a cost of 0.
    pub(crate) fn step(
        &mut self,
        key: Option<u8>,
        (cost, all_admit, charges): (u32, bool, bool),
        now: Timestamp,
    ) -> Option<A::Snapshot> {
        let mut state = self.state(key?);
        let admits = self.rule.judge(&state, cost, now);
        if all_admit && charges && cost > 0 {
            self.rule.charge(&mut state, cost, now);
        }
        let told = if admits && !(all_admit && charges) {
            0
        } else {
            cost
        };
        let snapshot = self.rule.snapshot(&state, told, admits, now);
        // A peek mends nothing, and a key that is not charged gets no state.
        let charged = all_admit && charges && cost > 0;
        if charged || (charges && self.states.contains_key(&key?)) {
            self.states.insert(key?, state);
        }
        Some(snapshot)
    }

    pub(crate) fn debit(&mut self, key: Option<u8>, units: u32, now: Timestamp) {
        if let Some(key) = key.filter(|_| units > 0) {
            let mut state = self.state(key);
            self.rule.debit(&mut state, units.into(), now);
            self.states.insert(key, state);
        }
    }

    pub(crate) fn refund(&mut self, key: Option<u8>, cost: u32, now: Timestamp) {
        if let Some(state) = key.and_then(|key| self.states.get_mut(&key)) {
            self.rule.refund(state, cost, now);
        }
    }

    pub(crate) fn reset(&mut self, key: Option<u8>) {
        if let Some(key) = key {
            self.states.remove(&key);
        }
    }
}

/// All three rules.
pub(crate) struct Rules<A: Algorithm, B: Algorithm, C: Algorithm> {
    limits: EachOf<(A, B, C)>,
    places: (Place<A>, Place<B>, Place<C>),
}

impl<A: Scripted + Debug, B: Scripted + Debug, C: Scripted + Debug> Rules<A, B, C> {
    pub(crate) fn of(limits: &EachOf<(A, B, C)>) -> Self {
        let EachOf((a, b, c)) = limits;
        Self {
            limits: limits.clone(),
            places: (Place::of(a), Place::of(b), Place::of(c)),
        }
    }

    pub(crate) fn decide(
        &mut self,
        keys: &Keys,
        cost: u32,
        charges: bool,
        now: Timestamp,
    ) -> Decision {
        let (a, b, c) = &mut self.places;
        let EachOf((x, y, z)) = *keys;
        let all = a.admits(x, cost, now) && b.admits(y, cost, now) && c.admits(z, cost, now);
        let about = (cost, all, charges);
        let snapshot = (
            a.step(x, about, now),
            b.step(y, about, now),
            c.step(z, about, now),
        );
        self.limits.decision_of(&snapshot)
    }

    pub(crate) fn debit(&mut self, keys: &Keys, units: u32, now: Timestamp) {
        let (a, b, c) = &mut self.places;
        let EachOf((x, y, z)) = *keys;
        a.debit(x, units, now);
        b.debit(y, units, now);
        c.debit(z, units, now);
    }

    pub(crate) fn refund(&mut self, keys: &Keys, cost: u32, now: Timestamp) {
        let (a, b, c) = &mut self.places;
        let EachOf((x, y, z)) = *keys;
        a.refund(x, cost, now);
        b.refund(y, cost, now);
        c.refund(z, cost, now);
    }

    pub(crate) fn reset(&mut self, keys: &Keys) {
        let (a, b, c) = &mut self.places;
        let EachOf((x, y, z)) = *keys;
        a.reset(x);
        b.reset(y);
        c.reset(z);
    }
}
