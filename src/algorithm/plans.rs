//! A state that several plans share: each counts by its own numbers, and none makes another one
//! forget. `plans.lua` says the same in Lua.
//!
//! A plan is one configuration of a named policy; callers with different plans come in turn. A
//! state is counted under the *latest* plan: that of the last admission. One *other* plan is kept
//! beside it while it still owes something, and every admission is charged to both. *Further* plans
//! are kept as one: the most units that any of them had counted, the latest instant at which one
//! did, and until when that matters. A plan that comes back before then begins with as many units.
//! So in any span each plan admits what it would have alone, or less; what others admitted may
//! count, and nothing that was admitted is forgotten.
//!
//! Later admissions are not added to what is kept of further plans: each plan had its own count
//! until it became one of them. A sum over all of them would soon fill each plan that comes back.
//!
//! With one plan all this costs a comparison of two pointers.

use std::{cmp::max, fmt::Debug, sync::Arc};

use crate::{clock::Timestamp, lazy_arc::LazyArc};

/// How a plan counts: its numbers, without those that only judge.
pub trait Rule: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// What is counted.
    type Count: Copy + PartialEq + Debug + Send + Sync + 'static;

    /// Calls `tell` with the plan as numbers; [`read`](Self::read) reads them back.
    fn write(&self, tell: &mut dyn FnMut(u64));

    /// Reads a plan from the first of these numbers, if they make sense.
    fn read(numbers: &mut &[u64]) -> Option<Self>;

    /// Calls `tell` with a count as numbers; [`read_count`](Self::read_count) reads them back.
    fn write_count(count: Self::Count, tell: &mut dyn FnMut(u64));

    /// Reads a count from the first of these numbers.
    fn read_count(numbers: &mut &[u64]) -> Option<Self::Count>;

    /// Whether this plan can have such a count.
    fn can_count(&self, _count: Self::Count) -> bool {
        true
    }

    /// The first count of this plan, taken over from that of another plan.
    fn begun_from(&self, others: &Self, count: Self::Count) -> Self::Count;

    /// The first count of this plan if it may be one of the further plans: the most that it may
    /// have counted. `units` is the most that it admits at once.
    fn begun_from_further(&self, further: &FurtherPlans, units: u64) -> Self::Count;

    /// How many units a count stands for, rounded up.
    fn units(&self, count: Self::Count) -> u64;

    /// The count after units were admitted under another plan; it is never less than before.
    fn with_units_of_others(&self, count: Self::Count, units: u64, now: Timestamp) -> Self::Count;

    /// The microsecond from which on a count no longer matters to this plan.
    fn matters_until(&self, count: Self::Count) -> u64;

    /// When it was counted, in microseconds.
    fn stamp(&self, count: Self::Count) -> u64;

    /// Whether a count with this stamp is so far ahead of now that it is to be moved.
    fn is_ahead(&self, stamp: u64, now: Timestamp) -> bool;

    /// The same count as of now, for a stamp that is ahead.
    fn moved_to(&self, count: Self::Count, now: Timestamp) -> Self::Count;
}

/// A count, and the plans under which it is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct CountByPlan<R: Rule> {
    pub(super) count: R::Count,
    plans: Arc<Plans<R>>,
}

/// The plans under which a state is counted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plans<R: Rule> {
    /// The plan of the last admission.
    latest: R,
    other: Option<OtherPlan<R>>,
    /// All plans that are neither, while what they counted matters.
    further: Option<FurtherPlans>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct OtherPlan<R: Rule> {
    rule: R,
    count: R::Count,
    /// The microsecond from which on the count no longer matters.
    expires_at_micros: u64,
}

/// The first of these numbers, if a Lua number holds it exactly.
pub(super) fn next_of(numbers: &mut &[u64]) -> Option<u64> {
    let (first, rest) = numbers.split_first()?;
    *numbers = rest;
    (*first < 1 << 54).then_some(*first)
}

/// What is kept of plans that are no longer kept one by one.
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
    /// The plans of a state that only this plan has counted. All such states share them.
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

    /// Calls `tell` with the count, the latest plan, the further plans and the other plan.
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

    /// Reads the numbers of a state that was [written](Self::write), if they make sense. A count
    /// alone is one of this plan.
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

    #[inline]
    pub(super) fn only_own_plan_counted(&self, own: &LazyArc<Plans<R>>) -> bool {
        own.is(&self.plans)
    }

    /// The plan that has counted, if it is one alone.
    pub(super) fn sole_plan(&self) -> Option<R> {
        let Plans {
            latest,
            other,
            further,
        } = *self.plans;
        (other.is_none() && further.is_none()).then_some(latest)
    }

    /// The count as this plan counts it, whichever plan was admitted last; `units` is the most that
    /// it admits at once.
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

    /// Sets the count after an admission under this plan, and charges the other plan too.
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

    /// Whether the last admission was under this plan.
    pub(super) fn was_last_admitted_under(&self, own: &Plans<R>) -> bool {
        self.plans.latest == own.latest
    }

    /// Changes this plan's count, or, if it has none, the latest plan's.
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

    /// If this plan's count is too far ahead of now, moves every count that is ahead to now.
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

    /// Whether it says no more than a fresh one, under any plan.
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
