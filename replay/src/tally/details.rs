//! Who was refused by each limit, when, and for how long; and the most in any one span.

use playground::bound::{Bound, Counts as Counted, bound};

use super::{over_time::OverTime, top_keys::TopKeys, waits::Waits, worst_span::WorstSpan};
use crate::rules_file::LimitInfo;

/// How many keys of each limit have a counter.
const COUNTERS: usize = 1_000;

/// Everything besides the counts.
#[derive(Debug)]
pub struct Details {
    /// When requests came, and were refused, by any limit.
    pub over_time: OverTime,
    /// When the first one came, and the last one.
    pub first_and_last_micros: Option<(u64, u64)>,
    /// Each limit, in the order of the file.
    pub limits: Vec<LimitDetails>,
}

/// What is known of one limit.
#[derive(Debug)]
pub struct LimitDetails {
    /// The keys that it refused most often, or would have.
    pub top: TopKeys,
    /// How long those that it refused had to wait, or would have had to.
    pub waits: Waits,
    /// How long those that it delayed had to wait.
    pub delays: Waits,
    /// How many cost more than can ever fit.
    pub never_fit: u64,
    /// When requests came to it, and were refused.
    pub over_time: OverTime,
    /// The span in which it admitted most; `None` if its plans have spans of several lengths.
    pub worst: Option<WorstSpan>,
    /// The largest cost that it was charged.
    pub largest_cost: u32,
    /// What it counts in a span.
    pub counted: Counted,
}

impl Details {
    /// Nothing yet, of these limits.
    pub fn new(limits: &[LimitInfo]) -> Self {
        Self {
            over_time: OverTime::default(),
            first_and_last_micros: None,
            limits: limits.iter().map(LimitDetails::new).collect(),
        }
    }

    /// A request came.
    pub fn came(&mut self, at_micros: u64) {
        let (first, _) = self.first_and_last_micros.unwrap_or((at_micros, at_micros));
        self.first_and_last_micros = Some((first, at_micros));
        self.over_time.at(at_micros).requests += 1;
    }
}

impl LimitDetails {
    fn new(limit: &LimitInfo) -> Self {
        let bound = bound_of(limit, 1);
        Self {
            top: TopKeys::new(COUNTERS),
            waits: Waits::default(),
            delays: Waits::default(),
            never_fit: 0,
            over_time: OverTime::default(),
            worst: bound
                .as_ref()
                .map(|bound| WorstSpan::new(bound.span_micros)),
            largest_cost: 0,
            counted: bound.map_or(Counted::Units, |bound| bound.counts),
        }
    }

    /// Counts an admission with this cost and delay.
    pub fn passed(
        &mut self,
        (at_micros, delay_micros): (u64, u64),
        key_hash: u64,
        cost: u32,
        shown: impl FnOnce() -> String,
    ) {
        if delay_micros > 0 {
            self.delays.add(delay_micros);
        }
        self.largest_cost = self.largest_cost.max(cost);
        let Some(worst) = self.worst.as_mut().filter(|_| cost > 0) else {
            return;
        };
        let (at, weight) = match self.counted {
            Counted::Releases => (at_micros.saturating_add(delay_micros), cost.into()),
            Counted::Units => (at_micros, cost.into()),
            Counted::Requests | Counted::InFlight => (at_micros, 1),
        };
        worst.add(at, key_hash, weight, shown);
    }
}

/// The documented bound of a limit for requests up to this cost. Of several plans it is the
/// loosest, if their spans have the same length.
pub fn bound_of(limit: &LimitInfo, largest_cost: u32) -> Option<Bound> {
    let mut bounds = limit.numbers.iter().map(|limit| bound(limit, largest_cost));
    let first = bounds.next()?;
    bounds.try_fold(first, |loosest, next| {
        let alike = (loosest.span_micros, loosest.counts) == (next.span_micros, next.counts);
        let is_looser = next.most.is_none() || loosest.most.is_some() && next.most > loosest.most;
        alike.then_some(if is_looser { next } else { loosest })
    })
}
