//! What a replay has found: one value, which is printed as text, JSON or a page.
//!
//! As JSON it has the fields of [`Report`] under their names. Spans of time are in whole
//! microseconds, in fields that end with `_micros`; instants are text as RFC 3339 has it, in UTC.

mod html;
mod limit;
mod text;

use serde::Serialize;

use crate::{
    rules_file::Scale,
    scenario::Scenario,
    shown::Instant,
    tally::{
        Callers,
        over_time::{Bin, OverTime},
    },
};

pub use limit::{LimitReport, Quantiles, TopKey, WorstSpan};

/// What a replay has found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The version of this format: it grows when a field is removed or changes its meaning.
    pub version: u32,
    /// The file of rules.
    pub rules: String,
    /// What was read.
    pub logs: Vec<Log>,
    /// When the first request came, if there was any.
    pub from: Option<Instant>,
    /// When the last one came.
    pub until: Option<Instant>,
    /// The outcomes of all requests.
    pub requests: Requests,
    /// What each limit did, in the order of the file.
    pub limits: Vec<LimitReport>,
    /// When requests came, and when they were refused, whatever the limit.
    pub over_time: TimeLine,
    /// What would be if all quotas were half or double; none if nobody asked.
    pub what_if: Option<Vec<WhatIf>>,
    /// How many keys there are.
    pub keys: Keys,
    /// What the log does not tell, and what to do about it.
    pub notes: Vec<String>,
}

/// A log that was read.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Log {
    /// Its file; `-` for standard input.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many lines are not about a request.
    pub other_lines: u64,
    /// How many lines could not be read.
    pub unreadable: u64,
    /// The first of these.
    pub first_unreadable: Vec<Unreadable>,
    /// How many requests came too late to be put into their order: they were decided about at the
    /// instant of the one before.
    pub out_of_order: u64,
    /// How many requests were dated more than a minute ahead of the lines around them: they were
    /// decided about at the time of those.
    pub ahead: u64,
}

/// A line that could not be read.
#[derive(Debug, Clone, Serialize)]
pub struct Unreadable {
    /// Its number, from 1 on.
    pub line: u64,
    /// Its beginning.
    pub text: String,
    /// Why.
    pub why: String,
}

/// The outcomes of requests.
#[derive(Debug, Clone, Serialize)]
pub struct Requests {
    /// All of them.
    pub total: u64,
    /// Let through by limits.
    pub admitted: u64,
    /// Refused by a limit.
    pub refused: u64,
    /// Let through, and a limit in shadow would have refused it.
    pub would_be_refused: u64,
    /// No rule is for them: they pass.
    pub without_rule: u64,
    /// They have no key and must have one, or no rule matches them and the file refuses those.
    pub rejected: u64,
    /// Why they were rejected.
    pub rejections: Vec<Rejection>,
    /// The keys of which a request was refused.
    pub callers_refused: Number,
}

/// Why requests were rejected.
#[derive(Debug, Clone, Serialize)]
pub struct Rejection {
    /// The status of the answer.
    pub status: u16,
    /// Its text.
    pub why: String,
    /// How many.
    pub requests: u64,
}

/// How many, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Number {
    /// So many.
    pub count: u64,
    /// Whether these are all; if not, there are more.
    pub is_exact: bool,
}

/// When something happened: a number of bins of the same width.
#[derive(Debug, Clone, Serialize)]
pub struct TimeLine {
    /// When the first bin begins, if there is any.
    pub from: Option<Instant>,
    /// How long each bin lasts.
    pub bin_micros: u64,
    /// The bins, one after the other.
    pub bins: Vec<Bin>,
}

/// What would be with other numbers.
#[derive(Debug, Clone, Serialize)]
pub struct WhatIf {
    /// What all quotas, bursts and capacities are: `half`, the `same`, or `double`.
    pub quotas: Scale,
    /// tollgate's error about the scaled quotas, if there is one: the other fields are then empty.
    pub error: Option<String>,
    /// Requests refused by a limit.
    pub refused: u64,
    /// Requests that a limit in shadow would have refused.
    pub would_be_refused: u64,
    /// The keys of which a request was refused.
    pub callers_refused: Number,
    /// Each limit.
    pub limits: Vec<WhatIfLimit>,
}

/// What a limit would do with other numbers.
#[derive(Debug, Clone, Serialize)]
pub struct WhatIfLimit {
    /// Its name.
    pub name: String,
    /// Requests that it refused, or would have if it were not in shadow.
    pub refused: u64,
    /// The keys of these.
    pub callers_refused: Number,
}

/// How many keys there are.
#[derive(Debug, Clone, Serialize)]
pub struct Keys {
    /// How many have a bucket at the end, over all limits.
    pub in_store: u64,
    /// The most that have one, for each limit.
    pub max: u64,
    /// How many decisions were made by the overflow bucket.
    pub decided_in_shared_bucket: u64,
}

/// How the runs ended.
#[derive(Debug)]
pub struct Found<'a> {
    /// The file of rules.
    pub rules: String,
    /// What was read.
    pub logs: Vec<Log>,
    /// The rules as they are, with the details.
    pub main: &'a Scenario,
    /// With other numbers, the smallest first, and the rules as they are among them.
    pub what_if: Option<Vec<WhatIf>>,
    /// What the log does not tell.
    pub notes: Vec<String>,
    /// How many keys to list for each limit.
    pub top: usize,
}

impl Report {
    /// The report of these runs.
    pub fn new(found: Found<'_>) -> Self {
        let (main, counts) = (found.main, &found.main.counts);
        let details = main.details.as_ref();
        let first_and_last = details.and_then(|details| details.first_and_last_micros);
        let rejections = counts
            .rejected
            .iter()
            .map(|((status, why), requests)| Rejection {
                status: *status,
                why: why.clone(),
                requests: *requests,
            });
        let limits = (main.setting().limits.iter()).zip(&counts.limits);
        let limits = limits.zip(details.map_or(&[][..], |details| &details.limits));
        let (in_store, shared) = main.keys_and_shared_decisions();
        Self {
            version: 1,
            rules: found.rules,
            logs: found.logs,
            from: first_and_last.map(|(first, _)| Instant(first)),
            until: first_and_last.map(|(_, last)| Instant(last)),
            requests: Requests {
                total: counts.requests,
                admitted: counts.admitted,
                refused: counts.refused,
                would_be_refused: counts.would_be_refused,
                without_rule: counts.without_rule,
                rejected: counts.rejected(),
                rejections: rejections.collect(),
                callers_refused: Number::of(&counts.callers_refused),
            },
            limits: limits
                .map(|((limit, counts), details)| {
                    LimitReport::new(limit, counts, details, found.top)
                })
                .collect(),
            over_time: details.map_or_else(TimeLine::empty, |it| TimeLine::of(&it.over_time)),
            what_if: found.what_if,
            keys: Keys {
                in_store: in_store as u64,
                max: main.setting().max_keys as u64,
                decided_in_shared_bucket: shared,
            },
            notes: found.notes,
        }
    }

    /// The report as one document of JSON.
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.unwrap_or_else(|error| unreachable!("all of it is text and numbers: {error}"))
    }
}

impl WhatIf {
    /// What a scenario has found.
    pub fn of(scenario: &Scenario) -> Self {
        let counts = &scenario.counts;
        let limits = scenario.setting().limits.iter().zip(&counts.limits);
        Self {
            quotas: scenario.scale,
            error: None,
            refused: counts.refused,
            would_be_refused: counts.would_be_refused,
            callers_refused: Number::of(&counts.callers_refused),
            limits: limits
                .map(|(limit, counts)| WhatIfLimit {
                    name: limit.name.clone(),
                    refused: counts.refused + counts.would_be_refused,
                    callers_refused: Number::of(&counts.callers_refused),
                })
                .collect(),
        }
    }

    /// Numbers that tollgate does not take.
    pub fn wrong(quotas: Scale, error: String) -> Self {
        Self {
            quotas,
            error: Some(error),
            refused: 0,
            would_be_refused: 0,
            callers_refused: Number {
                count: 0,
                is_exact: true,
            },
            limits: Vec::new(),
        }
    }
}

impl Number {
    fn of(callers: &Callers) -> Self {
        Self {
            count: callers.count() as u64,
            is_exact: callers.is_exact(),
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_exact {
            true => write!(f, "{}", self.count),
            false => write!(f, "more than {}", self.count),
        }
    }
}

impl TimeLine {
    fn empty() -> Self {
        Self::of(&OverTime::default())
    }

    fn of(line: &OverTime) -> Self {
        Self {
            from: (!line.bins().is_empty()).then(|| Instant(line.start_micros())),
            bin_micros: line.width_micros(),
            bins: line.bins().to_vec(),
        }
    }

    /// When a bin begins.
    pub fn begins(&self, place: usize) -> Instant {
        let from = self.from.map_or(0, |from| from.0);
        Instant(from.saturating_add(self.bin_micros.saturating_mul(place as u64)))
    }
}
