//! What one limit did.

use playground::{bound::Counts as Counted, lines, span};
use serde::Serialize;

use super::{Number, TimeLine};
use crate::{
    rules_file::LimitInfo,
    shown::Instant,
    tally::{LimitCounts, LimitDetails, details::bound_of, waits::Waits},
};

/// What one limit did.
#[derive(Debug, Clone, Serialize)]
pub struct LimitReport {
    /// Its name.
    pub name: String,
    /// The name of its rule.
    pub rule: String,
    /// Its algorithm as a line of Rust, and that of each plan.
    pub numbers: Vec<String>,
    /// Whether it is in shadow.
    pub shadow: bool,
    /// Requests that it was asked about.
    pub requests: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that it would have refused, if it were not in shadow.
    pub would_be_refused: u64,
    /// Requests that another limit refused: this one was not charged.
    pub refused_by_others: u64,
    /// Requests that it let through after a delay.
    pub delayed: u64,
    /// Refused requests that cost more than can ever fit.
    pub never_fit: u64,
    /// The waits of refused requests. For a limit in shadow it is the time until one more unit is
    /// admitted, which is exact for a cost of 1.
    pub wait: Option<Quantiles>,
    /// How long the delayed waited.
    pub delay: Option<Quantiles>,
    /// The keys that were refused, or would have been.
    pub callers_refused: Number,
    /// Those that were refused most often, or would have been.
    pub most_refused: Vec<TopKey>,
    /// Whether these counts are exact: each key had a counter.
    pub most_refused_is_exact: bool,
    /// The span in which most was let through for one key.
    pub worst_span: Option<WorstSpan>,
    /// When requests came to it, and when they were refused.
    pub over_time: TimeLine,
}

/// Quantiles of waits. They are at most a thousandth too long, and never too short; the longest is
/// exact.
#[derive(Debug, Clone, Serialize)]
pub struct Quantiles {
    /// How many waits there are.
    pub count: u64,
    /// Half of them took no longer.
    pub p50_micros: u64,
    /// Nine of ten took no longer.
    pub p90_micros: u64,
    /// Ninety-nine of a hundred took no longer.
    pub p99_micros: u64,
    /// None took longer.
    pub longest_micros: u64,
}

/// A key, and how often it was refused.
#[derive(Debug, Clone, Serialize)]
pub struct TopKey {
    /// The key.
    pub key: String,
    /// How often it was refused, or would have been, at most.
    pub refused: u64,
    /// How often it was refused, or would have been, at least.
    pub at_least: u64,
}

/// The span in which most was let through for one key, beside the printed bound.
#[derive(Debug, Clone, Serialize)]
pub struct WorstSpan {
    /// How long the span is: (t − P, t].
    pub span_micros: u64,
    /// What is counted: `units`, `released units` or `requests`.
    pub counts: &'static str,
    /// How much was let through; 0 if nothing was.
    pub most: u64,
    /// The documented bound; `None` for quotas so large that time is counted in coarser ticks.
    pub bound: Option<u64>,
    /// The bound, as the docs print it.
    pub formula: &'static str,
    /// Whose span it is.
    pub key: Option<String>,
    /// When something was first let through in it.
    pub from: Option<Instant>,
    /// When something was last let through in it.
    pub until: Option<Instant>,
    /// How many admissions were not examined, as too many keys were active within one span.
    pub overlooked: u64,
}

impl LimitReport {
    pub(super) fn new(
        limit: &LimitInfo,
        counts: &LimitCounts,
        details: &LimitDetails,
        top: usize,
    ) -> Self {
        let top = details.top.top(top).iter().map(|counter| TopKey {
            key: counter.shown.clone(),
            refused: counter.count,
            at_least: counter.count - counter.excess,
        });
        Self {
            name: limit.name.clone(),
            rule: limit.rule.clone(),
            numbers: limit.numbers.iter().map(lines::rust).collect(),
            shadow: limit.in_shadow,
            requests: counts.requests,
            refused: counts.refused,
            would_be_refused: counts.would_be_refused,
            refused_by_others: counts.refused_by_others,
            delayed: details.delays.count(),
            never_fit: details.never_fit,
            wait: Quantiles::of(&details.waits),
            delay: Quantiles::of(&details.delays),
            callers_refused: Number::of(&counts.callers_refused),
            most_refused: top.collect(),
            most_refused_is_exact: details.top.is_exact(),
            worst_span: worst_span(limit, details),
            over_time: TimeLine::of(&details.over_time),
        }
    }
}

impl Quantiles {
    fn of(waits: &Waits) -> Option<Self> {
        (waits.count() > 0).then(|| Self {
            count: waits.count(),
            p50_micros: waits.percentile(50.0),
            p90_micros: waits.percentile(90.0),
            p99_micros: waits.percentile(99.0),
            longest_micros: waits.longest(),
        })
    }
}

fn worst_span(limit: &LimitInfo, details: &LimitDetails) -> Option<WorstSpan> {
    let bound = bound_of(limit, details.largest_cost.max(1))?;
    let found = details.worst.as_ref()?;
    let worst = found.worst();
    Some(WorstSpan {
        span_micros: bound.span_micros,
        counts: match bound.counts {
            Counted::Units => "units",
            Counted::Releases => "released units",
            Counted::Requests | Counted::InFlight => "requests",
        },
        most: worst.map_or(0, |worst| worst.most),
        bound: bound.most,
        formula: bound.formula,
        key: worst.map(|worst| worst.key.clone()),
        from: worst.map(|worst| Instant(worst.from_micros)),
        until: worst.map(|worst| Instant(worst.until_micros)),
        overlooked: found.overlooked(),
    })
}

impl WorstSpan {
    /// How long the span is, as a person reads it.
    pub fn span(&self) -> String {
        span::told(self.span_micros)
    }
}
