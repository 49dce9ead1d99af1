//! What must always hold, for every algorithm and tuple, over random histories.

use proptest::{prelude::*, strategy::Strategy, test_runner::TestCaseResult};
use tollgate_properties::{
    call::Call,
    claims,
    conformance::every_algorithm,
    for_all,
    history::{History, any_history, checks_back_and_forth, forward_history},
    numbers::numbers,
    replay::{Seen, replay},
    subject::{Bucket, Subject},
};

fn for_every_algorithm(
    histories: impl Strategy<Value = History>,
    holds: impl Fn(&Subject, &History) -> TestCaseResult,
) {
    for_all((numbers(), histories), |(numbers, history)| {
        let subjects = every_algorithm(&numbers);
        subjects.iter().try_for_each(|subject| {
            holds(subject, &history)
                .map_err(|error| TestCaseError::fail(format!("{}: {error}", subject.name)))
        })
    });
}

#[test]
fn the_printed_bound_is_never_passed() {
    for_every_algorithm(checks_back_and_forth(), claims::the_bound_is_never_passed);
}

#[test]
fn a_refused_request_a_cost_of_0_and_a_look_change_nothing() {
    for_every_algorithm(forward_history(), claims::a_refused_request_changes_nothing);
}

#[test]
fn a_caller_who_waits_exactly_as_long_as_announced_is_admitted_by_the_limiter() {
    for_every_algorithm(any_history(), claims::the_announced_wait_is_exact);
}

#[test]
fn the_limiter_admits_exactly_what_it_says_remains() {
    for_every_algorithm(any_history(), claims::what_remains_is_true);
}

#[test]
fn a_step_back_in_time_opens_nothing_and_nobody_waits_longer_than_until_it_is_caught_up() {
    let values = (numbers(), any_history(), (1..4_i128, 0..=255_i128));
    for_all(values, |(numbers, history, (spans, part))| {
        every_algorithm(&numbers).iter().try_for_each(|subject| {
            let span = subject.longest_span();
            let mut own = 0;
            replay(subject, &history, |Seen { bucket, now, .. }| {
                own = own.max(now);
                let before = bucket.peek(1, now);
                let (a_part, more) = (span * part / 255, spans * span + part + 1);
                for by in [1, a_part, span + 1, 2 * span + 1, more] {
                    let back = (now - by).max(0);
                    let after = bucket.peek(1, back);
                    prop_assert!(after.remaining() <= before.remaining(), "{by} back");
                    let locked = i128::try_from(after.reset_after().as_micros()).unwrap();
                    let until = own - back + span;
                    prop_assert!(locked <= until, "{by} back: {locked} > {until}");
                }
                Ok(())
            })
        })
    });
}

#[test]
fn a_forgotten_key_is_a_fresh_key() {
    for_every_algorithm(forward_history(), |subject, history| {
        let mut forgotten: Vec<Box<dyn Bucket>> = Vec::new();
        replay(subject, history, |seen| {
            let now = seen.now;
            for twin in &mut forgotten {
                match (seen.cost, &seen.decision) {
                    (Some(cost), Some(decision)) => {
                        prop_assert_eq!(&twin.check(cost, now), decision);
                    }
                    _ => drop(twin.ask(Call::Refund(seen.refunded), now)),
                }
            }
            if seen.bucket.is_fresh(now) {
                for last_seen in [0, now] {
                    let mut twin = seen.bucket.fork();
                    twin.forget(last_seen);
                    forgotten.push(twin);
                }
            }
            Ok(())
        })
    });
}

#[test]
fn a_key_may_be_forgotten_exactly_when_its_reset_is_over() {
    for_every_algorithm(forward_history(), |subject, history| {
        replay(subject, history, |seen| {
            if let Some(decision) = seen.decision {
                let reset = i128::try_from(decision.reset_after().as_micros()).unwrap();
                let is_fresh = |after| seen.bucket.is_fresh(seen.now + after);
                let is_exact = is_fresh(reset) && (reset == 0 || !is_fresh(reset - 1));
                prop_assert!(is_exact, "not fresh after {reset}, or before");
            }
            Ok(())
        })
    });
}
