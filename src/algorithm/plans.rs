//! A state that callers with different numbers share: each counts by its own, and nobody makes
//! another's forget. `plans.lua` says the same in Lua.
//!
//! A plan is one set of numbers of a named policy; callers with different plans come in turn. A
//! state is counted under the *latest* plan: that of whoever was admitted last. One *other* plan is
//! kept beside it while that still owes something, and every admission is charged to both. Of
//! *further* plans is kept how many units at most one of them had counted, at which instant at the
//! latest, and until when that matters: those who come back before then begin with as much. So in
//! any span each plan admits what it would have alone, or less; what others admitted may count, and
//! nothing that was admitted is forgotten.
//!
//! Later admissions are not added to what is kept of further plans: each plan had its own count
//! until it became one of them. A sum over all of them would soon fill each plan that comes back.
//!
//! With one plan all this costs a comparison of two pointers.

use std::{cmp::max, fmt::Debug, sync::Arc};

use crate::{clock::Timestamp, lazy_arc::LazyArc};

/// The numbers by which a plan counts, without those that only judge.
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

    /// The most that may have been counted under these numbers if theirs is one of the further
    /// plans; `units` is the most that they admit at once.
    fn begun_from_further(&self, further: &FurtherPlans, units: u64) -> Self::Count;

    /// At least as many units as a count stands for, of these numbers or of others.
    fn units(&self, count: Self::Count) -> u64;

    /// The count with units that were admitted under other numbers: it is never less.
    fn with_units_of_others(&self, count: Self::Count, units: u64, now: Timestamp) -> Self::Count;

    /// The microsecond from which on a count matters no more to these numbers.
    fn matters_until(&self, count: Self::Count) -> u64;

    /// When it was counted, in microseconds.
    fn stamp(&self, count: Self::Count) -> u64;

    /// Whether a count with this stamp is so far ahead of now that it is to be moved.
    fn is_ahead(&self, stamp: u64, now: Timestamp) -> bool;

    /// The same count, as of now: of a stamp that is ahead.
    fn moved_to(&self, count: Self::Count, now: Timestamp) -> Self::Count;
}

/// A count, and the plans beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct CountByPlan<R: Rule> {
    pub(super) count: R::Count,
    plans: Arc<Plans<R>>,
}

/// Under which numbers a state is counted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plans<R: Rule> {
    /// Those of the last admission.
    latest: R,
    other: Option<OtherPlan<R>>,
    /// What those counted that are neither, while it matters.
    further: Option<FurtherPlans>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct OtherPlan<R: Rule> {
    rule: R,
    count: R::Count,
    /// The microsecond from which on what was admitted under these numbers is over.
    expires_at_micros: u64,
}

/// The first of these numbers, if a Lua number holds it exactly.
pub(super) fn next_of(numbers: &mut &[u64]) -> Option<u64> {
    let (first, rest) = numbers.split_first()?;
    *numbers = rest;
    (*first < 1 << 54).then_some(*first)
}

/// What several sets of numbers had counted at most when they were no longer kept one by one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FurtherPlans {
    /// The largest of their counts, in units.
    pub units: u64,
    /// The latest of their stamps.
    pub stamp_micros: u64,
    /// The microsecond from which on none of them matters.
    pub expires_at_micros: u64,
    /// The longest time from a stamp until that count is over.
    pub span_micros: u64,
}

impl FurtherPlans {
    fn with(self, other: Self) -> Self {
        Self {
            units: self.units.max(other.units),
            stamp_micros: self.stamp_micros.max(other.stamp_micros),
            expires_at_micros: self.expires_at_micros.max(other.expires_at_micros),
            span_micros: self.span_micros.max(other.span_micros),
        }
    }
}

impl<R: Rule> OtherPlan<R> {
    fn further(&self) -> FurtherPlans {
        let (stamp, expires_at_micros) = (self.rule.stamp(self.count), self.expires_at_micros);
        FurtherPlans {
            units: self.rule.units(self.count),
            stamp_micros: stamp,
            expires_at_micros,
            span_micros: expires_at_micros.saturating_sub(stamp),
        }
    }
}

impl<R: Rule> Plans<R> {
    /// Those of a state that no other numbers have counted, to be shared by all of them.
    pub(super) fn of_one(latest: R) -> LazyArc<Self> {
        LazyArc::new(Self {
            latest,
            other: None,
            further: None,
        })
    }
}

impl<R: Rule> CountByPlan<R> {
    #[inline]
    pub(super) fn new(count: R::Count, own: &LazyArc<Plans<R>>) -> Self {
        Self {
            count,
            plans: own.shared(),
        }
    }

    /// Tells the count, under which numbers it was counted, and the plans of others.
    pub(super) fn write(&self, tell: &mut dyn FnMut(u64)) {
        R::write_count(self.count, tell);
        self.plans.latest.write(tell);
        let further = self.plans.further;
        further
            .map_or([0; 4], |further| {
                [
                    further.units,
                    further.stamp_micros,
                    further.expires_at_micros,
                    further.span_micros,
                ]
            })
            .into_iter()
            .for_each(&mut *tell);
        if let Some(OtherPlan {
            rule,
            count,
            expires_at_micros,
        }) = &self.plans.other
        {
            rule.write(tell);
            R::write_count(*count, tell);
            tell(*expires_at_micros);
        }
    }

    /// The state of which these numbers were [told](Self::write), if they make sense. A count alone
    /// is one under these numbers.
    pub(super) fn read(own: &LazyArc<Plans<R>>, mut numbers: &[u64]) -> Option<Self> {
        let numbers = &mut numbers;
        let count = R::read_count(numbers)?;
        if numbers.is_empty() {
            return own.latest.can_count(count).then(|| Self::new(count, own));
        }
        let latest = R::read(numbers)?;
        let further = FurtherPlans {
            units: next_of(numbers)?,
            stamp_micros: next_of(numbers)?,
            expires_at_micros: next_of(numbers)?,
            span_micros: next_of(numbers)?,
        };
        let other = match numbers.is_empty() {
            true => None,
            false => Some(OtherPlan {
                rule: R::read(numbers)?,
                count: R::read_count(numbers)?,
                expires_at_micros: next_of(numbers)?,
            }),
        };
        let makes_sense = numbers.is_empty()
            && latest.can_count(count)
            && other.is_none_or(|other| other.rule.can_count(other.count));
        let plans = Plans {
            latest,
            other,
            further: (further.expires_at_micros > 0).then_some(further),
        };
        makes_sense.then(|| match plans == **own {
            true => Self::new(count, own),
            false => Self {
                count,
                plans: Arc::new(plans),
            },
        })
    }

    /// Whether it was counted under these numbers alone.
    #[inline]
    pub(super) fn is_of_one(&self, own: &LazyArc<Plans<R>>) -> bool {
        own.is(&self.plans)
    }

    /// The count in these numbers, whoever was admitted; `units` is the most that they admit at
    /// once.
    pub(super) fn seen_by(&self, own: &Plans<R>, units: u64) -> R::Count {
        let Plans {
            latest,
            other,
            further,
        } = &*self.plans;
        match (other, further) {
            _ if *latest == own.latest => self.count,
            (Some(other), _) if other.rule == own.latest => other.count,
            (_, Some(further)) => own.latest.begun_from_further(further, units),
            _ => own.latest.begun_from(latest, self.count),
        }
    }

    /// Becomes what these numbers count after an admission under them; the others are charged too.
    pub(super) fn admitted(
        &mut self,
        own: &LazyArc<Plans<R>>,
        count: R::Count,
        units: u64,
        now: Timestamp,
    ) {
        let micros = now.as_micros();
        let Plans {
            latest,
            other,
            further,
        } = *self.plans;
        let mut further = further.filter(|further| further.expires_at_micros > micros);
        let last = || OtherPlan {
            rule: latest,
            count: self.count,
            expires_at_micros: latest.matters_until(self.count),
        };
        let mut other = match other {
            _ if latest == own.latest => other,
            Some(other) if other.rule != own.latest => {
                let (kept, left) = match last() {
                    last if last.expires_at_micros > other.expires_at_micros => (last, other),
                    last => (other, last),
                };
                if left.expires_at_micros > micros {
                    further = Some(
                        further.map_or(left.further(), |further| further.with(left.further())),
                    );
                }
                Some(kept)
            }
            _ => Some(last()),
        };
        other = other.filter(|other| other.expires_at_micros > micros);
        if let Some(OtherPlan { rule, count, .. }) = &mut other {
            *count = rule.with_units_of_others(*count, units, now);
        }
        self.count = count;
        if other.is_none() && further.is_none() {
            self.plans = own.shared();
            return;
        }
        let plans = Plans {
            latest: own.latest,
            other,
            further,
        };
        match Arc::get_mut(&mut self.plans) {
            Some(kept) => *kept = plans,
            None => self.plans = Arc::new(plans),
        }
    }

    /// Whether whoever was admitted last was so under these numbers.
    pub(super) fn was_last_admitted_under(&self, own: &Plans<R>) -> bool {
        self.plans.latest == own.latest
    }

    /// Changes the count of the plan with these numbers, or, if there is none, the latest plan's.
    pub(super) fn change(&mut self, own: &Plans<R>, change: impl Fn(&R, R::Count) -> R::Count) {
        let latest = self.plans.latest;
        match self.plans.other {
            Some(other) if latest != own.latest && other.rule == own.latest => {
                let count = change(&other.rule, other.count);
                Arc::make_mut(&mut self.plans).other = Some(OtherPlan { count, ..other });
            }
            _ => self.count = change(&latest, self.count),
        }
    }

    /// Moves what is too far ahead of now for these numbers, and everything beside it that is ahead
    /// at all.
    pub(super) fn mend(&mut self, own: &Plans<R>, now: Timestamp) {
        let (latest, micros) = (self.plans.latest, now.as_micros());
        let stamp = match (self.plans.other, self.plans.further) {
            _ if latest == own.latest => latest.stamp(self.count),
            (Some(other), _) if other.rule == own.latest => other.rule.stamp(other.count),
            (_, further) => max(
                latest.stamp(self.count),
                further.map_or(0, |further| further.stamp_micros),
            ),
        };
        if !own.latest.is_ahead(stamp, now) {
            return;
        }
        if latest.stamp(self.count) > micros {
            self.count = latest.moved_to(self.count, now);
        }
        if self.plans.other.is_none() && self.plans.further.is_none() {
            return;
        }
        let plans = Arc::make_mut(&mut self.plans);
        if let Some(further) = &mut plans.further
            && further.stamp_micros > micros
        {
            further.stamp_micros = micros;
            further.expires_at_micros = further
                .expires_at_micros
                .min(micros + further.span_micros)
                .max(1);
        }
        if let Some(OtherPlan {
            rule,
            count,
            expires_at_micros,
        }) = &mut plans.other
        {
            let stamp = rule.stamp(*count);
            if stamp > micros {
                *count = rule.moved_to(*count, now);
                let back = stamp.saturating_sub(rule.stamp(*count));
                *expires_at_micros = expires_at_micros.saturating_sub(back);
            }
        }
    }

    /// Whether it says no more than a fresh one, whoever asks.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        let Plans {
            latest,
            other,
            further,
        } = &*self.plans;
        let micros = now.as_micros();
        latest.matters_until(self.count) <= micros
            && other.is_none_or(|other| other.expires_at_micros <= micros)
            && further.is_none_or(|further| further.expires_at_micros <= micros)
    }
}

#[cfg(test)]
mod tests;
