//! A state that is kept as numbers, anywhere, is the same state.

use proptest::prelude::*;
use tollgate_properties::{
    conformance::every_algorithm,
    for_all,
    history::{Op, any_history},
    numbers::{Numbers, numbers, small},
    replay::wait_of,
    subject::Subject,
};

fn plans() -> impl Strategy<Value = (Vec<Numbers>, Vec<u8>)> {
    let some = prop_oneof![
        1 => prop::collection::vec(small(), 1..=4),
        1 => prop::collection::vec(numbers(), 1..=3),
    ];
    (some, prop::collection::vec(any::<u8>(), 80))
}

#[test]
fn a_state_that_is_written_as_numbers_and_read_again_at_each_step_decides_as_before() {
    for_all((plans(), any_history()), |((plans, turns), history)| {
        let all: Vec<Vec<Subject>> = plans.iter().map(every_algorithm).collect();
        for index in 0..all[0].len() {
            let mut bucket = all[0][index].bucket.fork();
            bucket.forget(0);
            let mut elsewhere = bucket.fork();
            let (mut now, mut wait) = (history.start, 0);
            for (at, step) in history.steps.iter().enumerate() {
                let plan = usize::from(turns[at % turns.len()]) % all.len();
                let subject = &all[plan][index];
                now = step.turn.of(now, wait, subject);
                bucket = bucket.with_the_numbers_of(&*subject.bucket);
                // Written under the numbers of before, and read under these.
                let told = elsewhere.told();
                let made = subject.bucket.made_of(&told);
                prop_assert!(made.is_some(), "{}: {told:?} is no state", subject.name);
                elsewhere = made.unwrap();
                match step.op {
                    Op::Check(asked) => {
                        let cost = asked.of(subject.limit());
                        let decision = bucket.check(cost, now);
                        let again = elsewhere.check(cost, now);
                        prop_assert_eq!(&again, &decision, "{}, plan {}", subject.name, plan);
                        wait = wait_of(&decision);
                    }
                    Op::Debit(asked) => {
                        let units = asked.of(subject.limit());
                        bucket.debit(units, now);
                        elsewhere.debit(units, now);
                    }
                    Op::Refund(asked) => {
                        let cost = asked.of(subject.limit());
                        bucket.refund(cost, now);
                        elsewhere.refund(cost, now);
                    }
                    Op::Peek | Op::Reset => {
                        prop_assert_eq!(elsewhere.peek(1, now), bucket.peek(1, now));
                    }
                }
                prop_assert_eq!(elsewhere.is_fresh(now), bucket.is_fresh(now));
            }
        }
        Ok(())
    });
}

#[test]
fn numbers_that_are_no_state_are_refused_or_decided_without_a_panic() {
    let changes = prop::collection::vec(
        (any::<prop::sample::Index>(), any::<u64>(), 0..64_u32),
        0..4,
    );
    for_all(
        (plans(), any_history(), changes, any::<u8>()),
        |((plans, turns), history, changes, cut)| {
            let all: Vec<Vec<Subject>> = plans.iter().map(every_algorithm).collect();
            for index in 0..all[0].len() {
                let mut bucket = all[0][index].bucket.fork();
                bucket.forget(0);
                let mut now = history.start;
                for (at, step) in history.steps.iter().enumerate() {
                    let plan = usize::from(turns[at % turns.len()]) % all.len();
                    let subject = &all[plan][index];
                    now = step.turn.of(now, 0, subject);
                    bucket = bucket.with_the_numbers_of(&*subject.bucket);
                    if let Op::Check(asked) = step.op {
                        bucket.check(asked.of(subject.limit()), now);
                    }
                }
                let mut told = bucket.told();
                for (which, number, shift) in &changes {
                    let at = which.index(told.len());
                    told[at] = number >> shift;
                }
                if cut < 20 {
                    told.truncate(told.len() * usize::from(cut) / 20);
                }
                for plan in &all {
                    if let Some(mut made) = plan[index].bucket.made_of(&told) {
                        for cost in [0, 1, u32::MAX] {
                            let decision = made.check(cost, now);
                            prop_assert!(decision.remaining() <= plan[index].limit());
                            let _ = (decision.retry_after(), decision.reset_after());
                        }
                        made.refund(3, now);
                        made.check(1, now + 1);
                    }
                }
            }
            Ok(())
        },
    );
}
