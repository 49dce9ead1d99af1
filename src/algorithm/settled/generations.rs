//! What is held, in two generations.

use std::cmp::max;

use crate::clock::Timestamp;

use super::SettledSnapshot;

/// A state of the algorithm, and what is held beside it.
#[derive(Debug, Clone)]
pub struct SettledState<S> {
    pub(super) state: S,
    pub(super) earlier: Generation,
    pub(super) later: Generation,
}

/// What is held for requests of one span, as the rule counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    /// When it began: a receipt names it by this.
    pub(super) start_micros: u64,
    /// When what it still holds counts as spent.
    pub(super) ends_at_micros: u64,
    pub(super) amount: u64,
}

impl Generation {
    pub(super) const NONE: Self = Self {
        start_micros: 0,
        ends_at_micros: 0,
        amount: 0,
    };

    /// The earlier one and the later one, of their numbers.
    pub(super) fn read_both(numbers: &[u64; 6]) -> [Self; 2] {
        let [starts, ends, amount, later_starts, later_ends, later_amount] = *numbers;
        [
            (starts, ends, amount),
            (later_starts, later_ends, later_amount),
        ]
        .map(|(start_micros, ends_at_micros, amount)| Self {
            start_micros,
            ends_at_micros,
            amount,
        })
    }

    #[inline]
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.amount > 0 && self.ends_at_micros <= now.as_micros()
    }

    #[inline]
    pub(super) fn is_named_by(&self, receipt: &SettledSnapshot) -> bool {
        self.amount > 0
            && self.start_micros > 0
            && self.start_micros == receipt.generation_start_micros
    }

    /// Both together, unowned: no receipt names them.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            start_micros: 0,
            ends_at_micros: max(self.ends_at_micros, other.ends_at_micros),
            amount: self.amount + other.amount,
        }
    }
}

impl<S> SettledState<S> {
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.earlier.amount + self.later.amount
    }

    #[inline]
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.earlier.has_ended(now) || self.later.has_ended(now)
    }

    /// Takes out the generations that have ended, the one that ended first at the front.
    pub(super) fn take_ended(
        &mut self,
        now: Timestamp,
    ) -> impl Iterator<Item = Generation> + use<S> {
        let mut ended = [&mut self.earlier, &mut self.later].map(|generation| {
            let ended = *generation;
            ended.has_ended(now).then(|| {
                generation.amount = 0;
                ended
            })
        });
        ended.sort_by_key(|ended| ended.map_or(0, |ended| ended.ends_at_micros));
        ended.into_iter().flatten()
    }

    /// The generation that a receipt names, if it still holds units.
    pub(super) fn generation(&mut self, receipt: &SettledSnapshot) -> Option<&mut Generation> {
        [&mut self.earlier, &mut self.later]
            .into_iter()
            .find(|generation| generation.is_named_by(receipt))
    }
}
