//! How many requests and keys were refused, for each row of *what if*.

use std::collections::BTreeMap;

use super::Callers;

/// The outcomes of all requests.
#[derive(Debug)]
pub struct Counts {
    /// All of them.
    pub requests: u64,
    /// Those that were let through by limits.
    pub admitted: u64,
    /// Those that were refused by a limit.
    pub refused: u64,
    /// Those that were let through, and that a limit in shadow would have refused.
    pub would_be_refused: u64,
    /// Those that no rule matched.
    pub without_rule: u64,
    /// Those that had no key and must have one, by the status and the text of the answer.
    pub rejected: BTreeMap<(u16, String), u64>,
    /// The keys of which a request was refused, whatever the limit.
    pub callers_refused: Callers,
    /// Each limit, in the order of the file.
    pub limits: Vec<LimitCounts>,
}

/// What one limit decided.
#[derive(Debug)]
pub struct LimitCounts {
    /// The requests that it was asked about.
    pub requests: u64,
    /// Those that it refused.
    pub refused: u64,
    /// Those that it would have refused, if it were not in shadow.
    pub would_be_refused: u64,
    /// Those that it would have let through, and that another limit refused.
    pub refused_by_others: u64,
    /// The keys of those that it refused, or would have.
    pub callers_refused: Callers,
}

impl Counts {
    /// Counts of zero for this many limits; at most `max_keys` keys are distinguished.
    pub fn new(limits: usize, max_keys: usize) -> Self {
        let limit = || LimitCounts {
            requests: 0,
            refused: 0,
            would_be_refused: 0,
            refused_by_others: 0,
            callers_refused: Callers::new(max_keys),
        };
        Self {
            requests: 0,
            admitted: 0,
            refused: 0,
            would_be_refused: 0,
            without_rule: 0,
            rejected: BTreeMap::new(),
            callers_refused: Callers::new(max_keys),
            limits: std::iter::repeat_with(limit).take(limits).collect(),
        }
    }

    /// How many had no key and must have one.
    pub fn rejected(&self) -> u64 {
        self.rejected.values().sum()
    }
}
