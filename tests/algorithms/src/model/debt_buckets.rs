//! Token bucket, leaky bucket and GCRA, as they are and where requests wait, and the leaky bucket
//! as a queue.

use super::{Bound, Counts, Model};
use crate::formulas::{self, greatest_common_divisor, rounded_up};

#[derive(Debug, Clone)]
struct DebtBucket {
    n: i128,
    period: i128,
    /// The largest debt, in units of 1/P of a unit.
    capacity: i128,
    tick: i128,
    queue: Option<Queue>,
    /// In units of 1/P of a unit, so that a microsecond pays n of them.
    debt: i128,
    /// The beginning of the tick that the debt was last seen in.
    stamp: i128,
}

/// Requests wait.
#[derive(Debug, Clone, Copy)]
struct Queue {
    /// How many units go at once.
    burst: i128,
    bound: fn(n: i128, period: i128, tick: i128, burst: i128, largest_cost: i128) -> i128,
}

/// A debt that is paid off continuously.
pub fn debt_bucket(n: u64, period: u64, capacity: u64) -> Box<dyn Model> {
    build(n, period, capacity, 0, None)
}

/// The same debt, but an admitted request is delayed until what is owed before it is paid.
pub fn queue(n: u64, period: u64, capacity: u64) -> Box<dyn Model> {
    let queue = Queue {
        burst: 1,
        bound: |n, period, tick, _, largest_cost| formulas::queue(n, period, tick, largest_cost),
    };
    build(n, period, capacity, 0, Some(queue))
}

/// The same debt, but a request that comes on top of the burst is delayed, at most for so many
/// microseconds.
pub fn wait_at_most(n: u64, period: u64, burst: u64, wait: u64) -> Box<dyn Model> {
    let queue = Queue {
        burst: burst.into(),
        bound: formulas::wait_at_most,
    };
    build(n, period, burst, wait, Some(queue))
}

fn build(n: u64, period: u64, burst: u64, wait: u64, queue: Option<Queue>) -> Box<dyn Model> {
    let burst: i128 = if n == 0 { 0 } else { burst.into() };
    let wait = if burst == 0 { 0 } else { i128::from(wait) };
    let (n, period) = (i128::from(n), i128::from(period));
    let capacity = |tick: i128| burst * period + wait / tick * tick * n;
    let tick = tick(n, period, capacity);
    Box::new(DebtBucket {
        n,
        period,
        capacity: capacity(tick),
        tick,
        queue,
        debt: 0,
        stamp: 0,
    })
}

/// The smallest power of ten with which every number stays below 2^53.
fn tick(n: i128, period: i128, capacity: impl Fn(i128) -> i128) -> i128 {
    let fits = |tick: &i128| {
        let divisor = greatest_common_divisor(n * tick, period);
        (capacity(*tick) + n * tick) / divisor <= 1 << 53
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

    fn paid_after(&self, debt: i128, now: i128) -> i128 {
        let ticks = rounded_up(debt, self.n * self.tick);
        self.effective(now) + ticks * self.tick - now
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
        self.capacity / self.period
    }

    fn span(&self) -> i128 {
        match self.n {
            0 => 0,
            n => rounded_up(self.capacity, n * self.tick) * self.tick,
        }
    }

    fn mend(&mut self, now: i128) {
        if self.stamp > self.tick_of(now) + self.span() {
            self.stamp = self.tick_of(now);
        }
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        cost == 0 || self.debt_at(now) + cost * self.period <= self.capacity
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.debt = self.debt_at(now) + cost * self.period;
        self.stamp = self.effective(now);
    }

    /// A queue gives nothing back: those behind keep the turns that they were promised.
    fn refund(&mut self, cost: i128, now: i128) {
        if self.queue.is_none() {
            self.debt = (self.debt_at(now) - cost * self.period).max(0);
            self.stamp = self.effective(now);
        }
    }

    fn delay(&self, cost: i128, now: i128) -> i128 {
        let Some(queue) = self.queue else { return 0 };
        let before_it = (queue.burst - cost).max(0) * self.period;
        let late = self.debt_at(now) - before_it;
        if cost == 0 || late <= 0 {
            return 0;
        }
        self.paid_after(late, now)
    }

    /// A fraction of a unit may be owed while all whole units remain.
    fn reset_after(&self, now: i128) -> Option<i128> {
        match self.debt_at(now) {
            debt if self.n > 0 && debt > 0 => Some(self.paid_after(debt, now)),
            _ => Some(0),
        }
    }

    fn bound(&self, largest_cost: i128) -> Bound {
        let Self {
            n, period, tick, ..
        } = *self;
        match self.queue {
            Some(Queue { burst, bound }) => Bound {
                span: period,
                most: bound(n, period, tick, burst, largest_cost),
                counts: Counts::Releases,
            },
            None => Bound {
                span: period,
                most: formulas::debt_bucket(self.capacity / period, n, period, tick),
                counts: Counts::Units,
            },
        }
    }
}
