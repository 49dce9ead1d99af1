//! The sliding log, and the sliding buckets, which are a log of coarse instants.

use super::{Admitted, Bound, Counts, Model, take_oldest, units_of};
use crate::formulas;

#[derive(Debug, Clone)]
struct Log {
    n: i128,
    period: i128,
    slot: i128,
    /// How long after its slot began an entry counts.
    counts_for: i128,
    most: i128,
    admitted: Vec<Admitted>,
    stamp: i128,
}

fn log(n: u64, period: u64, slot: u64, counts_for: u64, most: i128) -> Box<dyn Model> {
    Box::new(Log {
        n: n.into(),
        period: period.into(),
        slot: slot.into(),
        counts_for: counts_for.into(),
        most,
        admitted: Vec::new(),
        stamp: 0,
    })
}

/// Exact.
pub fn sliding_log(n: u64, period: u64) -> Box<dyn Model> {
    log(n, period, 1, period, formulas::sliding_log(n.into()))
}

/// The last P/precision sub-counters.
pub fn sliding_buckets(n: u64, period: u64, precision: u64) -> Box<dyn Model> {
    let most = formulas::sliding_buckets(n.into(), precision.into());
    log(n, period, precision, period, most)
}

/// One more sub-counter.
pub fn strict_buckets(n: u64, period: u64, precision: u64) -> Box<dyn Model> {
    log(n, period, precision, period + precision, n.into())
}

impl Log {
    fn slot(&self, now: i128) -> i128 {
        now - now % self.slot
    }

    /// The slot of now, or the stamp if that is later.
    fn effective(&self, now: i128) -> i128 {
        self.slot(now).max(self.stamp)
    }

    fn counts(&self, now: i128) -> impl Fn(&Admitted) -> bool + use<> {
        let (effective, counts_for) = (self.effective(now), self.counts_for);
        move |entry| entry.at + counts_for > effective
    }
}

impl Model for Log {
    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn forget(&mut self, at: i128) {
        self.admitted.clear();
        self.stamp = self.slot(at);
    }

    fn limit(&self) -> i128 {
        self.n
    }

    fn span(&self) -> i128 {
        self.counts_for
    }

    /// Everything moves back by as much as the stamp does, to now, but not beyond the epoch.
    fn mend(&mut self, now: i128) {
        if self.stamp > self.slot(now) + self.counts_for {
            self.admitted.retain(self.counts(now));
            for entry in &mut self.admitted {
                entry.at = (entry.at - (self.stamp - now)).max(0);
            }
            self.stamp = now;
        }
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        cost == 0 || units_of(&self.admitted, self.counts(now)) + cost <= self.n
    }

    fn charge(&mut self, cost: i128, now: i128) {
        let at = self.effective(now);
        self.admitted.retain(self.counts(now));
        self.admitted.push(Admitted { at, units: cost });
        self.stamp = at;
    }

    fn refund(&mut self, cost: i128, now: i128) {
        let counts = self.counts(now);
        self.admitted.retain(&counts);
        take_oldest(&mut self.admitted, cost);
    }

    fn bound(&self, _largest_cost: i128) -> Bound {
        Bound {
            span: self.period,
            most: self.most,
            counts: Counts::Units,
        }
    }
}
