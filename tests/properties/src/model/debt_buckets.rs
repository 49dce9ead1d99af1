//! Token bucket, leaky bucket and GCRA, and the leaky bucket as a queue.

use super::{Bound, Counts, Model};
use crate::formulas::{self, greatest_common_divisor, rounded_up};

#[derive(Debug, Clone)]
struct DebtBucket {
    n: i128,
    period: i128,
    capacity: i128,
    tick: i128,
    is_queue: bool,
    /// In units of 1/P of a unit, so that a microsecond pays n of them.
    debt: i128,
    /// The beginning of the tick that the debt was last seen in.
    stamp: i128,
}

/// A debt that is paid off continuously.
pub fn debt_bucket(n: u64, period: u64, capacity: u64) -> Box<dyn Model> {
    build(n, period, capacity, false)
}

/// The same debt, but an admitted request is delayed until what is owed before it is paid.
pub fn queue(n: u64, period: u64, capacity: u64) -> Box<dyn Model> {
    build(n, period, capacity, true)
}

fn build(n: u64, period: u64, capacity: u64, is_queue: bool) -> Box<dyn Model> {
    let capacity = if n == 0 { 0 } else { capacity.into() };
    let (n, period) = (i128::from(n), i128::from(period));
    Box::new(DebtBucket {
        n,
        period,
        capacity,
        tick: tick(n, period, capacity),
        is_queue,
        debt: 0,
        stamp: 0,
    })
}

/// The smallest power of ten with which every number stays below 2^53.
fn tick(n: i128, period: i128, capacity: i128) -> i128 {
    let fits = |tick: &i128| {
        let divisor = greatest_common_divisor(n * tick, period);
        capacity * (period / divisor) + n * tick / divisor <= 1 << 53
    };
    let mut ticks = (0..=6).map(|exponent| 10_i128.pow(exponent));
    ticks.find(fits).expect("numbers that some tick can hold")
}

impl DebtBucket {
    fn tick_of(&self, now: i128) -> i128 {
        now - now % self.tick
    }

    fn effective(&self, now: i128) -> i128 {
        self.tick_of(now).max(self.stamp)
    }

    fn debt_at(&self, now: i128) -> i128 {
        let elapsed = self.effective(now) - self.stamp;
        (self.debt - elapsed * self.n).max(0)
    }
}

impl Model for DebtBucket {
    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn forget(&mut self, at: i128) {
        self.debt = 0;
        self.stamp = self.tick_of(at);
    }

    fn limit(&self) -> i128 {
        self.capacity
    }

    fn span(&self) -> i128 {
        match self.n {
            0 => 0,
            n => rounded_up(self.capacity * self.period, n * self.tick) * self.tick,
        }
    }

    fn mend(&mut self, now: i128) {
        if self.stamp > self.tick_of(now) + self.span() {
            self.stamp = self.tick_of(now);
        }
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        cost == 0 || self.debt_at(now) + cost * self.period <= self.capacity * self.period
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.debt = self.debt_at(now) + cost * self.period;
        self.stamp = self.effective(now);
    }

    /// A queue gives nothing back: those behind keep the places that were promised.
    fn refund(&mut self, cost: i128, now: i128) {
        if !self.is_queue {
            self.debt = (self.debt_at(now) - cost * self.period).max(0);
            self.stamp = self.effective(now);
        }
    }

    fn delay(&self, cost: i128, now: i128) -> i128 {
        let ahead = self.debt_at(now);
        if !self.is_queue || cost == 0 || ahead == 0 {
            return 0;
        }
        let ticks = rounded_up(ahead, self.n * self.tick);
        self.effective(now) + ticks * self.tick - now
    }

    fn bound(&self, largest_cost: i128) -> Bound {
        let Self {
            n,
            period,
            capacity,
            tick,
            is_queue,
            ..
        } = *self;
        match is_queue {
            true => Bound {
                span: period,
                most: formulas::queue(n, period, tick, largest_cost),
                counts: Counts::Releases,
            },
            false => Bound {
                span: period,
                most: formulas::debt_bucket(capacity, n, period, tick),
                counts: Counts::Units,
            },
        }
    }
}
