//! What a caller is told by the real limiter and by the model, in one form, so that they can be
//! compared.

use std::time::Duration;

use tollgate::{Decision, PolicyDecision};

use crate::model::Model;

/// What one policy says; times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// Whether it lets the request through.
    pub admitted: bool,
    /// The most at once.
    pub limit: u64,
    /// How many more.
    pub remaining: u64,
    /// How long to wait.
    pub retry_after: Option<u64>,
    /// Whether the cost never fits.
    pub never_fits: bool,
    /// How long until there is more.
    pub replenished_after: u64,
    /// How long until all is there.
    pub reset_after: u64,
    /// How long it is delayed.
    pub delay: u64,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("a wait of less than 2^64 µs")
}

impl From<&PolicyDecision> for Output {
    fn from(policy: &PolicyDecision) -> Self {
        Self {
            admitted: policy.is_admitted(),
            limit: policy.limit(),
            remaining: policy.remaining(),
            retry_after: policy.retry_after().map(micros),
            never_fits: policy.never_fits(),
            replenished_after: micros(policy.replenished_after()),
            reset_after: micros(policy.reset_after()),
            delay: micros(policy.delay()),
        }
    }
}

/// What every policy says, and what all together mean for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    /// All together; the limit is the binding policy's and not compared (0).
    pub all: Output,
    /// Each.
    pub each: Vec<Output>,
}

impl From<&Decision> for Outputs {
    fn from(decision: &Decision) -> Self {
        let each: Vec<Output> = decision.policies().iter().map(Output::from).collect();
        let all = Output {
            admitted: decision.is_admitted(),
            limit: 0,
            remaining: decision.remaining(),
            retry_after: decision.retry_after().map(micros),
            never_fits: decision.never_fits(),
            replenished_after: 0,
            reset_after: micros(decision.reset_after()),
            delay: micros(decision.delay()),
        };
        Self { all, each }
    }
}

impl Outputs {
    /// What several policies mean together: all must admit, the longest wait counts, the least
    /// remains.
    pub fn of_each(each: Vec<Output>) -> Self {
        let admitted = each.iter().all(|told| told.admitted);
        let never_fits = each.iter().any(|told| told.never_fits);
        let longest = |of: fn(&Output) -> u64| each.iter().map(of).max().unwrap_or(0);
        let all = Output {
            admitted,
            limit: 0,
            remaining: each.iter().map(|told| told.remaining).min().unwrap_or(0),
            retry_after: match admitted || never_fits {
                true => None,
                false => each.iter().filter_map(|told| told.retry_after).max(),
            },
            never_fits,
            replenished_after: 0,
            reset_after: longest(|told| told.reset_after),
            delay: u64::from(admitted) * longest(|told| told.delay),
        };
        Self { all, each }
    }
}

/// What the model says after a decision about a cost. It is searched for: at which instant is the
/// cost first admitted, and what is the most that is admitted now?
pub fn by_search(model: &dyn Model, cost: u32, admitted: bool, delay: i128, now: i128) -> Output {
    let cost = i128::from(cost);
    let remaining = most_admitted(model, now);
    let since = |at: i128| narrow(at - now);
    let retry_after = match admitted {
        true => None,
        false => first(now, |at| model.admits(cost, at)).map(since),
    };
    let wait = |units: i128| first(now, |at| model.has_room_for(units, at)).map(since);
    let limit = model.limit();
    let until = |units| wait(units).filter(|_| remaining < limit).unwrap_or(0);
    Output {
        admitted,
        limit: narrow(limit),
        remaining: narrow(remaining),
        retry_after,
        never_fits: !admitted && retry_after.is_none(),
        replenished_after: until(remaining + 1),
        reset_after: model.reset_after(now).map_or_else(|| until(limit), narrow),
        delay: narrow(delay),
    }
}

fn narrow(number: i128) -> u64 {
    u64::try_from(number).expect("a number of 64 bits")
}

fn most_admitted(model: &dyn Model, now: i128) -> i128 {
    let refuses = |units| !model.has_room_for(units, now);
    between(0, model.limit() + 1, refuses) - 1
}

/// The first number of which it is so, up to the second of these, of which it is.
fn between(mut before: i128, mut first: i128, is_so: impl Fn(i128) -> bool) -> i128 {
    while first - before > 1 {
        let middle = (before + first) / 2;
        match is_so(middle) {
            true => first = middle,
            false => before = middle,
        }
    }
    first
}

/// The first instant from now on at which the condition holds; it holds from then on.
fn first(now: i128, is_so: impl Fn(i128) -> bool) -> Option<i128> {
    if is_so(now) {
        return Some(now);
    }
    let mut refused = now;
    let mut step = 1;
    while !is_so(now + step) {
        refused = now + step;
        step *= 2;
        if step > 1 << 60 {
            return None;
        }
    }
    Some(between(refused, now + step, is_so))
}
