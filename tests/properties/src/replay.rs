//! Runs a history on one state of the real algorithm, and shows it after each step.

use proptest::test_runner::{TestCaseError, TestCaseResult};
use tollgate::Decision;

use crate::{
    history::{History, Op},
    subject::{Bucket, Subject},
};

/// What a look sees after a step.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The state, to be forked.
    pub bucket: &'a dyn Bucket,
    /// The instant.
    pub now: i128,
    /// The cost that was decided about, if any.
    pub cost: Option<u32>,
    /// What was decided.
    pub decision: Option<Decision>,
    /// What was given back.
    pub refunded: u32,
}

/// Runs the history; `look` is called after each step.
pub fn replay(
    subject: &Subject,
    history: &History,
    mut look: impl FnMut(Seen<'_>) -> TestCaseResult,
) -> TestCaseResult {
    let mut bucket = subject.bucket.fork();
    let (mut now, mut wait) = (history.start, 0);
    for step in &history.steps {
        now = step.turn.of(now, wait, subject);
        let mut seen = (None, None);
        let mut refunded = 0;
        match step.op {
            Op::Check(cost) => {
                let cost = cost.of(subject.limit());
                let decision = bucket.check(cost, now);
                wait = wait_of(&decision);
                seen = (Some(cost), Some(decision));
            }
            Op::Peek => seen = (None, Some(bucket.peek(1, now))),
            Op::Debit(cost) => bucket.debit(cost.of(subject.limit()), now),
            Op::Refund(cost) => {
                refunded = cost.of(subject.limit());
                bucket.refund(refunded, now);
            }
            Op::Reset => bucket.forget(0),
        }
        look(Seen {
            bucket: &*bucket,
            now,
            cost: seen.0,
            decision: seen.1,
            refunded,
        })
        .map_err(|error| at(error, subject, now))?;
    }
    Ok(())
}

/// The announced wait in microseconds; 0 if there is none.
pub fn wait_of(decision: &Decision) -> i128 {
    let wait = decision.retry_after().map(|wait| wait.as_micros());
    i128::try_from(wait.unwrap_or(0)).expect("a wait of less than 2^127 µs")
}

fn at(error: TestCaseError, subject: &Subject, now: i128) -> TestCaseError {
    TestCaseError::fail(format!("{} at {now}: {error}", subject.name))
}
