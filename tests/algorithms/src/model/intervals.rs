//! The least interval between two requests.

use super::{Bound, Counts, Model};

#[derive(Debug, Clone)]
struct MinInterval {
    interval: i128,
    last: Option<i128>,
    stamp: i128,
}

/// At least this long between two admitted requests.
pub fn min_interval(interval: u64) -> Box<dyn Model> {
    Box::new(MinInterval {
        interval: interval.into(),
        last: None,
        stamp: 0,
    })
}

impl Model for MinInterval {
    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn forget(&mut self, at: i128) {
        (self.last, self.stamp) = (None, at);
    }

    fn limit(&self) -> i128 {
        1
    }

    fn span(&self) -> i128 {
        self.interval
    }

    fn mend(&mut self, now: i128) {
        if self.stamp > now + self.interval {
            self.stamp = now;
            self.last = self.last.map(|_| now);
        }
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        cost == 0 || self.last.is_none_or(|last| now >= last + self.interval)
    }

    fn charge(&mut self, _cost: i128, now: i128) {
        self.stamp = now.max(self.stamp);
        self.last = Some(self.stamp);
    }

    fn refund(&mut self, cost: i128, _now: i128) {
        if cost > 0 {
            self.last = None;
        }
    }

    /// One request in any span of the interval; ⌈P/d⌉ in a span of P follows.
    fn bound(&self, _largest_cost: i128) -> Bound {
        Bound {
            span: self.interval,
            most: 1,
            counts: Counts::Requests,
        }
    }
}
