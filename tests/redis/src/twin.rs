//! The pure rule beside the server: both must say the same.

use proptest::{prop_assert_eq, test_runner::TestCaseResult};
use tollgate::{Decision, clock::ManualClock};
use tollgate_properties::{
    history::{History, LAST, Op},
    replay::wait_of,
    subject::{Bucket, Limiter, Subject, instant},
};

/// One state of the rule, without a store that forgets; a key that was never charged has none.
#[derive(Debug)]
pub struct Twin {
    bucket: Box<dyn Bucket>,
    is_known: bool,
    /// The latest instant so far, and the earliest one to which the clock may step back now.
    latest: i128,
    earliest: i128,
}

impl Twin {
    /// A key that was never charged.
    pub fn of(bucket: &dyn Bucket) -> Self {
        let mut bucket = bucket.fork();
        bucket.forget(0);
        Self {
            bucket,
            is_known: false,
            latest: 0,
            earliest: 0,
        }
    }

    /// `check_cost`.
    pub fn check(&mut self, cost: u32, now: i128) -> Decision {
        let decision = self.bucket.check(cost, now);
        self.is_known |= decision.is_admitted() && cost > 0;
        decision
    }

    /// `peek`.
    pub fn peek(&self, now: i128) -> Decision {
        self.bucket.peek(1, now)
    }

    /// `debit`.
    pub fn debit(&mut self, units: u32, now: i128) {
        if units > 0 {
            self.bucket.debit(units, now);
            self.is_known = true;
        }
    }

    /// `refund`.
    pub fn refund(&mut self, cost: u32, now: i128) {
        if self.is_known {
            self.bucket.refund(cost, now);
        }
    }

    /// `reset`.
    pub fn reset(&mut self) {
        self.is_known = false;
        self.bucket.forget(0);
    }

    /// Goes on with the numbers of another algorithm of the same type.
    pub fn renumber(&mut self, other: &dyn Bucket) {
        self.bucket = self.bucket.with_the_numbers_of(other);
    }

    /// The instant of a step that is to be taken at this one, or later. The clock steps back by a
    /// second at most: a key lives for as much longer than it matters. What a rule without a time
    /// of its own was given back is fresh at any time, but not in Redis.
    pub fn instant_of(&mut self, op: Op, now: i128) -> i128 {
        // A state that matters until after 2^53 µs, in the year 2255, is not kept exactly.
        let now = now.max(self.earliest).min(LAST - (1 << 50));
        self.latest = self.latest.max(now);
        self.earliest = match op {
            Op::Refund(_) => self.latest,
            Op::Reset => 0,
            Op::Check(_) | Op::Debit(_) | Op::Peek => self.earliest.max(now - 1_000_000),
        };
        now
    }

    /// Both take a step, and say the same. Returns the announced wait, if it was a decision.
    ///
    /// # Errors
    ///
    /// They differ.
    pub fn steps_as(
        &mut self,
        limiter: &dyn Limiter,
        op: Op,
        limit: u64,
        now: i128,
    ) -> Result<Option<i128>, proptest::test_runner::TestCaseError> {
        let (theirs, ours) = match op {
            Op::Check(cost) => {
                let cost = cost.of(limit);
                (limiter.check(cost), self.check(cost, now))
            }
            Op::Peek => (limiter.peek(), self.peek(now)),
            Op::Debit(cost) => {
                limiter.debit(cost.of(limit));
                self.debit(cost.of(limit), now);
                return Ok(None);
            }
            Op::Refund(cost) => {
                limiter.refund(cost.of(limit));
                self.refund(cost.of(limit), now);
                return Ok(None);
            }
            Op::Reset => {
                limiter.reset();
                self.reset();
                return Ok(None);
            }
        };
        prop_assert_eq!(&theirs, &ours);
        Ok(Some(wait_of(&ours)))
    }
}

/// Every decision of this limiter, with this clock, is that of the pure rule in every field.
///
/// # Errors
///
/// One is not.
pub fn the_decisions_are_the_rules(
    subject: &Subject,
    history: &History,
    limiter: &dyn Limiter,
    clock: &ManualClock,
) -> TestCaseResult {
    let mut twin = Twin::of(&*subject.bucket);
    let (mut now, mut wait) = (history.start, 0);
    for (index, step) in history.steps.iter().enumerate() {
        now = twin.instant_of(step.op, step.turn.of(now, wait, subject));
        clock.set(instant(now));
        let stepped = twin.steps_as(limiter, step.op, subject.limit(), now);
        let stepped = stepped.map_err(|error| {
            let place = format!("{} at {now}, step {index}", subject.name);
            proptest::test_runner::TestCaseError::fail(format!("{place}: {error}"))
        })?;
        wait = stepped.unwrap_or(wait);
    }
    Ok(())
}
