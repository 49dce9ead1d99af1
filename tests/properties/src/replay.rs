//! Runs a history on one state of the real algorithm, and shows it after each step.

use proptest::test_runner::{TestCaseError, TestCaseResult};
use tollgate::Decision;

use crate::{
    call::Call,
    history::History,
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
        let call = step.op.call(subject.limit());
        let decision = bucket.ask(call, now).map(|told| told.decision);
        let (mut cost, mut refunded) = (None, 0);
        match call {
            Call::Check(asked) => {
                cost = Some(asked);
                wait = decision.as_ref().map_or(0, wait_of);
            }
            Call::Refund(given) => refunded = given,
            _ => {}
        }
        look(Seen {
            bucket: &*bucket,
            now,
            cost,
            decision,
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
