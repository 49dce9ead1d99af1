//! What is held, in two generations.

use std::cmp::{max, min};

use crate::clock::Timestamp;

use super::SettledSnapshot;

/// A state of the algorithm, and what is held beside it.
#[derive(Debug, Clone)]
pub struct SettledState<S> {
    pub(super) state: S,
    pub(super) earlier: Generation,
    pub(super) later: Generation,
}

/// The units that are held for requests of one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    /// When it began: a receipt names it by this.
    pub(super) start_micros: u64,
    /// When what it still holds counts as spent.
    pub(super) ends_at_micros: u64,
    pub(super) units: u64,
}

impl Generation {
    pub(super) const NONE: Self = Self {
        start_micros: 0,
        ends_at_micros: 0,
        units: 0,
    };

    #[inline]
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.units > 0 && self.ends_at_micros <= now.as_micros()
    }

    #[inline]
    pub(super) fn is_named_by<B>(&self, receipt: &SettledSnapshot<B>) -> bool {
        self.units > 0
            && self.start_micros > 0
            && self.start_micros == receipt.generation_start_micros
    }

    /// Both together, unowned: no receipt names them.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            start_micros: 0,
            ends_at_micros: max(self.ends_at_micros, other.ends_at_micros),
            units: self.units + other.units,
        }
    }
}

impl<S> SettledState<S> {
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.earlier.units + self.later.units
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
                generation.units = 0;
                ended
            })
        });
        ended.sort_by_key(|ended| ended.map_or(0, |ended| ended.ends_at_micros));
        ended.into_iter().flatten()
    }

    /// The generation that a receipt names, if it still holds units.
    pub(super) fn generation<B>(
        &mut self,
        receipt: &SettledSnapshot<B>,
    ) -> Option<&mut Generation> {
        [&mut self.earlier, &mut self.later]
            .into_iter()
            .find(|generation| generation.is_named_by(receipt))
    }

    /// Units that no receipt names end at this instant, or before.
    pub(in crate::algorithm) fn end_unowned_by(&mut self, micros: u64) {
        if self.earlier.start_micros == 0 {
            self.earlier.ends_at_micros = min(self.earlier.ends_at_micros, micros);
        }
    }

    /// Moves generations that begin after now to now: the clock has stepped back. No receipt names
    /// them any more.
    pub(super) fn move_to(&mut self, now: Timestamp) {
        let micros = now.as_micros();
        let earlier = self.earlier;
        let moved = |generation: Generation| {
            let by = generation.start_micros.saturating_sub(micros);
            generation.ends_at_micros.saturating_sub(by)
        };
        self.earlier.ends_at_micros = moved(earlier);
        self.earlier.start_micros = 0;
        self.later.ends_at_micros = moved(self.later);
        self.later.start_micros = micros;
    }
}
