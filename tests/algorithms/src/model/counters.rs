//! The fixed window and the sliding window of two counters.

use super::{Admitted, Bound, Counts, Model, take_newest, units_of};
use crate::formulas;

#[derive(Debug, Clone)]
struct FixedWindow {
    n: i128,
    period: i128,
    from_first: bool,
    start: i128,
    admitted: Vec<Admitted>,
}

fn window(n: u64, period: u64, from_first: bool) -> Box<dyn Model> {
    Box::new(FixedWindow {
        n: n.into(),
        period: period.into(),
        from_first,
        start: 0,
        admitted: Vec::new(),
    })
}

/// Windows at the multiples of the period.
pub fn fixed_window(n: u64, period: u64) -> Box<dyn Model> {
    window(n, period, false)
}

/// Windows that open at the first unit, and close early if all units are given back.
pub fn window_from_first_request(n: u64, period: u64) -> Box<dyn Model> {
    window(n, period, true)
}

impl FixedWindow {
    fn is_running(&self, now: i128) -> bool {
        let is_open = !self.from_first || units_of(&self.admitted, |_| true) > 0;
        is_open && now < self.start + self.period
    }

    fn start_at(&self, at: i128) -> i128 {
        if self.from_first {
            at
        } else {
            at - at % self.period
        }
    }

    fn roll(&mut self, now: i128) {
        if !self.is_running(now) {
            self.admitted.clear();
            self.start = self.start_at(now.max(self.start));
        }
    }
}

impl Model for FixedWindow {
    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn forget(&mut self, at: i128) {
        self.admitted.clear();
        self.start = self.start_at(at);
    }

    fn limit(&self) -> i128 {
        self.n
    }

    fn span(&self) -> i128 {
        self.period
    }

    /// The window lasts for a whole period from now, and an aligned one until the end of the one
    /// that begins next. If it ended sooner, another one would open too early.
    fn mend(&mut self, now: i128) {
        if self.start > now + self.period {
            let to_the_next = (self.period - now % self.period) % self.period;
            self.start = now + if self.from_first { 0 } else { to_the_next };
        }
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        let running = self.is_running(now);
        cost == 0 || units_of(&self.admitted, |_| running) + cost <= self.n
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.roll(now);
        let at = now.max(self.start);
        self.admitted.push(Admitted { at, units: cost });
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.roll(now);
        take_newest(&mut self.admitted, cost, |_| true);
    }

    fn bound(&self, _largest_cost: i128) -> Bound {
        let formula = match self.from_first {
            true => formulas::window_from_first_request,
            false => formulas::fixed_window,
        };
        Bound {
            span: self.period,
            most: formula(self.n, self.period),
            counts: Counts::Units,
        }
    }
}

#[derive(Debug, Clone)]
struct SlidingWindow {
    n: i128,
    period: i128,
    tick: i128,
    admitted: Vec<Admitted>,
    stamp: i128,
}

/// Two counters; ticks are the smallest power of ten that divides the period and keeps n·P below
/// 2^53.
pub fn sliding_window(n: u64, period: u64) -> Box<dyn Model> {
    let (n, period) = (i128::from(n), i128::from(period));
    let fits = |tick: &i128| period % tick == 0 && n * (period / tick) <= 1 << 53;
    let mut ticks = (0..=6).map(|exponent| 10_i128.pow(exponent));
    Box::new(SlidingWindow {
        n,
        period,
        tick: ticks.find(fits).expect("numbers that some tick can hold"),
        admitted: Vec::new(),
        stamp: 0,
    })
}

impl SlidingWindow {
    /// The units of the running window, those of the one before, and how many ticks of that are
    /// covered.
    fn counted(&self, now: i128) -> (i128, i128, i128) {
        let now = now.max(self.stamp);
        let running = now / self.period;
        let in_window =
            |window: i128| units_of(&self.admitted, |entry| entry.at / self.period == window);
        let covered = self.period / self.tick - now % self.period / self.tick;
        (in_window(running), in_window(running - 1), covered)
    }

    /// current + previous·covered + cost ≤ n, all times the ticks of a period.
    fn weighed(&self, now: i128) -> i128 {
        let (current, previous, covered) = self.counted(now);
        current * (self.period / self.tick) + previous * covered
    }
}

impl Model for SlidingWindow {
    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn forget(&mut self, at: i128) {
        self.admitted.clear();
        self.stamp = at;
    }

    fn limit(&self) -> i128 {
        self.n
    }

    fn span(&self) -> i128 {
        2 * self.period
    }

    /// The whole estimate, rounded up, becomes units of the running window: so the step opens
    /// nothing.
    fn mend(&mut self, now: i128) {
        if self.stamp > now + 2 * self.period {
            let ticks = self.period / self.tick;
            let units = (self.weighed(self.stamp) + ticks - 1) / ticks;
            self.admitted = vec![Admitted { at: now, units }];
            self.stamp = now;
        }
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        let ticks = self.period / self.tick;
        cost == 0 || self.weighed(now) + cost * ticks <= self.n * ticks
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.stamp = now.max(self.stamp);
        self.admitted.push(Admitted {
            at: self.stamp,
            units: cost,
        });
    }

    /// Takes from the running window first, then from the one before.
    fn refund(&mut self, cost: i128, now: i128) {
        self.stamp = now.max(self.stamp);
        let (running, period) = (self.stamp / self.period, self.period);
        let left = take_newest(&mut self.admitted, cost, |entry| {
            entry.at / period == running
        });
        take_newest(&mut self.admitted, left, |entry| {
            entry.at / period == running - 1
        });
    }

    fn bound(&self, _largest_cost: i128) -> Bound {
        Bound {
            span: self.period,
            most: formulas::sliding_window(self.n, self.period),
            counts: Counts::Units,
        }
    }
}
