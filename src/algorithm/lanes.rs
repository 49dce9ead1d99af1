//! A state that callers with different numbers share: each counts by its own, and nobody makes
//! another's forget.
//!
//! A named policy may have several sets of numbers, which come in turn. A state is counted under
//! those of whoever was admitted last, its *main* lane. The lane of one other set is kept beside it
//! while that still owes something, and every admission is charged to both. Of further ones, the
//! *rest*, is kept how many units at most one of them had counted, at which instant at the latest,
//! and until when that matters: those who come back before then begin with as much. So in any span
//! each set of numbers admits what it would have alone, or less; what others admitted may count,
//! and nothing that was admitted is forgotten.
//!
//! What is admitted later is not added to the rest: whoever it was has a lane, or had one that
//! became the rest. A sum over all of them would soon fill each plan that comes back.
//!
//! One set of numbers pays a comparison of two pointers.

use std::{cmp::max, fmt::Debug, sync::Arc};

use crate::{clock::Timestamp, lazy_arc::LazyArc};

/// The numbers by which a lane counts, without those that only judge.
pub trait Rule: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// What is counted.
    type Count: Copy + PartialEq + Debug + Send + Sync + 'static;

    /// Tells these numbers; [`read`](Self::read) makes them again.
    fn write(&self, tell: &mut dyn FnMut(u64));

    /// Takes these numbers from the first of those, if they make sense.
    fn read(numbers: &mut &[u64]) -> Option<Self>;

    /// Tells a count; [`read_count`](Self::read_count) makes it again.
    fn write_count(count: Self::Count, tell: &mut dyn FnMut(u64));

    /// Takes a count from the first of those numbers.
    fn read_count(numbers: &mut &[u64]) -> Option<Self::Count>;

    /// Whether these numbers can have counted so.
    fn can_count(&self, _count: Self::Count) -> bool {
        true
    }

    /// What these numbers make of a count under others that were never together with them.
    fn begun_from(&self, others: &Self, count: Self::Count) -> Self::Count;

    /// The most that may have been counted under these numbers if they are among the rest; `units`
    /// is the most that they admit at once.
    fn begun_from_rest(&self, rest: &Rest, units: u64) -> Self::Count;

    /// At least as many units as a count stands for, of these numbers or of others.
    fn units(&self, count: Self::Count) -> u64;

    /// The count with a cost that was admitted under other numbers: it is never less.
    fn with_cost_of_others(&self, count: Self::Count, cost: u32, now: Timestamp) -> Self::Count;

    /// The microsecond from which on a count matters no more to these numbers.
    fn matters_until(&self, count: Self::Count) -> u64;

    /// When it was counted, in microseconds.
    fn stamp(&self, count: Self::Count) -> u64;

    /// Whether a count with this stamp is so far ahead of now that it is to be moved.
    fn is_ahead(&self, stamp: u64, now: Timestamp) -> bool;

    /// The same count, as of now: of a stamp that is ahead.
    fn moved_to(&self, count: Self::Count, now: Timestamp) -> Self::Count;
}

/// A count, and the lanes beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Laned<R: Rule> {
    pub(super) count: R::Count,
    lanes: Arc<Lanes<R>>,
}

/// Under which numbers a state is counted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lanes<R: Rule> {
    /// Those of the last admission.
    main: R,
    other: Option<Other<R>>,
    /// What those counted that are neither, while it matters.
    rest: Option<Rest>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Other<R: Rule> {
    rule: R,
    count: R::Count,
    /// The microsecond from which on what was admitted under these numbers is over.
    until: u64,
}

/// The first of these numbers, if a Lua number holds it exactly.
pub(super) fn next_of(numbers: &mut &[u64]) -> Option<u64> {
    let (first, rest) = numbers.split_first()?;
    *numbers = rest;
    (*first < 1 << 54).then_some(*first)
}

/// What several sets of numbers had counted at most when they lost their lanes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rest {
    /// The largest of their counts, in units.
    pub units: u64,
    /// The latest of their stamps, in microseconds.
    pub stamp: u64,
    /// When the last of them is over, in microseconds.
    pub until: u64,
    /// The longest time from a stamp until that count is over, in microseconds.
    pub span: u64,
}

impl Rest {
    fn with(self, other: Self) -> Self {
        Self {
            units: self.units.max(other.units),
            stamp: self.stamp.max(other.stamp),
            until: self.until.max(other.until),
            span: self.span.max(other.span),
        }
    }
}

impl<R: Rule> Other<R> {
    fn rest(&self) -> Rest {
        let (stamp, until) = (self.rule.stamp(self.count), self.until);
        Rest {
            units: self.rule.units(self.count),
            stamp,
            until,
            span: until.saturating_sub(stamp),
        }
    }
}

impl<R: Rule> Lanes<R> {
    /// Those of a state that no other numbers have counted, to be shared by all of them.
    pub(super) fn of_one(main: R) -> LazyArc<Self> {
        LazyArc::new(Self {
            main,
            other: None,
            rest: None,
        })
    }
}

impl<R: Rule> Laned<R> {
    #[inline]
    pub(super) fn new(count: R::Count, own: &LazyArc<Lanes<R>>) -> Self {
        Self {
            count,
            lanes: own.shared(),
        }
    }

    /// Tells the count, under which numbers it was counted, and the lanes of others.
    pub(super) fn write(&self, tell: &mut dyn FnMut(u64)) {
        R::write_count(self.count, tell);
        self.lanes.main.write(tell);
        let rest = self.lanes.rest;
        rest.map_or([0; 4], |rest| {
            [rest.units, rest.stamp, rest.until, rest.span]
        })
        .into_iter()
        .for_each(&mut *tell);
        if let Some(Other { rule, count, until }) = &self.lanes.other {
            rule.write(tell);
            R::write_count(*count, tell);
            tell(*until);
        }
    }

    /// The state of which these numbers were [told](Self::write), if they make sense. A count alone
    /// is one under these numbers.
    pub(super) fn read(own: &LazyArc<Lanes<R>>, mut numbers: &[u64]) -> Option<Self> {
        let numbers = &mut numbers;
        let count = R::read_count(numbers)?;
        if numbers.is_empty() {
            return own.main.can_count(count).then(|| Self::new(count, own));
        }
        let main = R::read(numbers)?;
        let rest = Rest {
            units: next_of(numbers)?,
            stamp: next_of(numbers)?,
            until: next_of(numbers)?,
            span: next_of(numbers)?,
        };
        let other = match numbers.is_empty() {
            true => None,
            false => Some(Other {
                rule: R::read(numbers)?,
                count: R::read_count(numbers)?,
                until: next_of(numbers)?,
            }),
        };
        let makes_sense = numbers.is_empty()
            && main.can_count(count)
            && other.is_none_or(|other| other.rule.can_count(other.count));
        let lanes = Lanes {
            main,
            other,
            rest: (rest.until > 0).then_some(rest),
        };
        makes_sense.then(|| match lanes == **own {
            true => Self::new(count, own),
            false => Self {
                count,
                lanes: Arc::new(lanes),
            },
        })
    }

    /// Whether it was counted under these numbers alone.
    #[inline(always)]
    pub(super) fn is_of_one(&self, own: &LazyArc<Lanes<R>>) -> bool {
        own.is(&self.lanes)
    }

    /// The count in these numbers, whoever was admitted; `units` is the most that they admit at
    /// once.
    #[cold]
    pub(super) fn seen_by(&self, own: &Lanes<R>, units: u64) -> R::Count {
        let Lanes { main, other, rest } = &*self.lanes;
        match (other, rest) {
            _ if *main == own.main => self.count,
            (Some(other), _) if other.rule == own.main => other.count,
            (_, Some(rest)) => own.main.begun_from_rest(rest, units),
            _ => own.main.begun_from(main, self.count),
        }
    }

    /// Becomes what these numbers count after an admission under them; the others are charged too.
    #[cold]
    pub(super) fn admitted(
        &mut self,
        own: &LazyArc<Lanes<R>>,
        count: R::Count,
        cost: u32,
        now: Timestamp,
    ) {
        let micros = now.as_micros();
        let Lanes { main, other, rest } = *self.lanes;
        let mut rest = rest.filter(|rest| rest.until > micros);
        let last = || Other {
            rule: main,
            count: self.count,
            until: main.matters_until(self.count),
        };
        let mut other = match other {
            _ if main == own.main => other,
            Some(other) if other.rule != own.main && other.until > micros => {
                let (kept, left) = match last() {
                    last if last.until > other.until => (last, other),
                    last => (other, last),
                };
                if left.until > micros {
                    rest = Some(rest.map_or(left.rest(), |rest| rest.with(left.rest())));
                }
                Some(kept)
            }
            _ => Some(last()),
        };
        other = other.filter(|other| other.until > micros);
        if let Some(Other { rule, count, .. }) = &mut other {
            *count = rule.with_cost_of_others(*count, cost, now);
        }
        self.count = count;
        if other.is_none() && rest.is_none() {
            self.lanes = own.shared();
            return;
        }
        let lanes = Lanes {
            main: own.main,
            other,
            rest,
        };
        match Arc::get_mut(&mut self.lanes) {
            Some(kept) => *kept = lanes,
            None => self.lanes = Arc::new(lanes),
        }
    }

    /// Whether whoever was admitted last was so under these numbers.
    pub(super) fn was_last_admitted_under(&self, own: &Lanes<R>) -> bool {
        self.lanes.main == own.main
    }

    /// Whether there is a lane of these numbers.
    pub(super) fn has_lane(&self, own: &Lanes<R>) -> bool {
        let other = &self.lanes.other;
        self.lanes.main == own.main || other.is_some_and(|other| other.rule == own.main)
    }

    /// Changes the lane of these numbers, or, if they have none, that of the last admission.
    #[cold]
    pub(super) fn change(&mut self, own: &Lanes<R>, change: impl Fn(&R, R::Count) -> R::Count) {
        let main = self.lanes.main;
        match self.lanes.other {
            Some(other) if main != own.main && other.rule == own.main => {
                let count = change(&other.rule, other.count);
                Arc::make_mut(&mut self.lanes).other = Some(Other { count, ..other });
            }
            _ => self.count = change(&main, self.count),
        }
    }

    /// Moves what is too far ahead of now for these numbers, and everything beside it that is ahead
    /// at all.
    #[cold]
    pub(super) fn mend(&mut self, own: &Lanes<R>, now: Timestamp) {
        let (main, micros) = (self.lanes.main, now.as_micros());
        let stamp = match (self.lanes.other, self.lanes.rest) {
            _ if main == own.main => main.stamp(self.count),
            (Some(other), _) if other.rule == own.main => other.rule.stamp(other.count),
            (_, rest) => max(main.stamp(self.count), rest.map_or(0, |rest| rest.stamp)),
        };
        if !own.main.is_ahead(stamp, now) {
            return;
        }
        if main.stamp(self.count) > micros {
            self.count = main.moved_to(self.count, now);
        }
        if self.lanes.other.is_none() && self.lanes.rest.is_none() {
            return;
        }
        let lanes = Arc::make_mut(&mut self.lanes);
        if let Some(rest) = &mut lanes.rest
            && rest.stamp > micros
        {
            rest.stamp = micros;
            rest.until = rest.until.min(micros + rest.span).max(1);
        }
        if let Some(Other { rule, count, until }) = &mut lanes.other {
            let back = rule.stamp(*count).saturating_sub(micros);
            if back > 0 {
                *until = until.saturating_sub(back);
                *count = rule.moved_to(*count, now);
            }
        }
    }

    /// Whether it says no more than a fresh one, whoever asks.
    #[cold]
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        let Lanes { main, other, rest } = &*self.lanes;
        let micros = now.as_micros();
        main.matters_until(self.count) <= micros
            && other.is_none_or(|other| other.until <= micros)
            && rest.is_none_or(|rest| rest.until <= micros)
    }
}
