//! What must always hold, for every algorithm and tuple, over random histories.

use proptest::{prelude::*, strategy::Strategy, test_runner::TestCaseResult};
use tollgate_properties::{
    claims::{self, in_memory},
    conformance::every_algorithm,
    for_all,
    history::{History, LAST, any_history, checks, forward_history},
    model::Counts,
    numbers::numbers,
    replay::{Seen, replay, wait_of},
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
    for_every_algorithm(checks(), |subject, history| {
        claims::the_bound_is_never_passed(subject, history, &in_memory)
    });
}

#[test]
fn a_refused_request_a_cost_of_0_and_a_look_change_nothing() {
    for_every_algorithm(forward_history(), |subject, history| {
        claims::a_refused_request_changes_nothing(subject, history, &in_memory)
    });
}

#[test]
fn the_announced_wait_is_exact() {
    for_every_algorithm(any_history(), |subject, history| {
        replay(subject, history, |seen| {
            let (Some(cost), Some(decision)) = (seen.cost, &seen.decision) else {
                return Ok(());
            };
            let wait = wait_of(decision);
            if decision.retry_after().is_none() || seen.now + wait > LAST {
                return Ok(());
            }
            prop_assert!(wait > 0, "refused and told to come at once");
            let all = 0..wait;
            let some = [0, 1, wait / 3, wait / 2, wait - 2, wait - 1];
            let ticks: Vec<i128> = if wait <= 64 {
                all.collect()
            } else {
                some.into()
            };
            for tick in ticks {
                let early = seen.bucket.fork().check(cost, seen.now + tick);
                prop_assert!(!early.is_admitted(), "after {tick} of {wait}");
                prop_assert_eq!(wait_of(&early), wait - tick);
            }
            let in_time = seen.bucket.fork().check(cost, seen.now + wait);
            prop_assert!(in_time.is_admitted(), "not admitted after {wait}");
            Ok(())
        })
    });
}

#[test]
fn a_caller_who_waits_exactly_as_long_as_announced_is_admitted_by_the_limiter() {
    for_every_algorithm(any_history(), |subject, history| {
        claims::the_announced_wait_is_exact(subject, history, &in_memory)
    });
}

#[test]
fn the_limiter_admits_exactly_what_it_says_remains() {
    for_every_algorithm(any_history(), |subject, history| {
        claims::what_remains_is_true(subject, history, &in_memory)
    });
}

/// So many units are taken one by one.
const FEW: u64 = 300;

/// Takes so many units at once, or with several costs if one cannot carry them.
fn take(bucket: &mut dyn Bucket, mut units: u64, now: i128) -> TestCaseResult {
    let one_by_one = units <= FEW;
    while units > 0 {
        let most = if one_by_one { 1 } else { u32::MAX };
        let cost = most.min(u32::try_from(units).unwrap_or(u32::MAX));
        let decision = bucket.check(cost, now);
        prop_assert!(decision.is_admitted(), "{cost} of {units}: {decision:?}");
        units -= u64::from(cost);
    }
    Ok(())
}

#[test]
fn exactly_the_remaining_units_are_admitted_at_the_same_instant() {
    for_every_algorithm(any_history(), |subject, history| {
        replay(subject, history, |seen| {
            let Some(decision) = &seen.decision else {
                return Ok(());
            };
            if decision.remaining() > FEW && !subject.counts_units() {
                // So many requests would take too long.
                return Ok(());
            }
            let mut bucket = seen.bucket.fork();
            take(&mut *bucket, decision.remaining(), seen.now)?;
            prop_assert!(!bucket.check(1, seen.now).is_admitted(), "one too many");
            // Of each member too: what it says is left does not depend on the others.
            let least = decision.policies().iter().map(|policy| policy.remaining());
            prop_assert_eq!(least.min(), Some(decision.remaining()));
            Ok(())
        })
    });
}

#[test]
fn a_cost_never_fits_if_and_only_if_a_fresh_bucket_refuses_it() {
    for_every_algorithm(any_history(), |subject, history| {
        replay(subject, history, |seen| {
            let (Some(cost), Some(decision)) = (seen.cost, &seen.decision) else {
                return Ok(());
            };
            let fits = subject.bucket.fork().check(cost, seen.now).is_admitted();
            let refused = !decision.is_admitted();
            prop_assert_eq!(decision.never_fits(), !fits);
            prop_assert_eq!(decision.retry_after().is_some(), refused && fits);
            Ok(())
        })
    });
}

#[test]
fn a_cost_of_0_is_admitted_and_reports_and_no_cost_wraps() {
    for_every_algorithm(any_history(), |subject, history| {
        replay(subject, history, |Seen { bucket, now, .. }| {
            let look = bucket.peek(1, now);
            let mut charged_nothing = bucket.fork();
            let nothing = charged_nothing.check(0, now);
            prop_assert!(nothing.is_admitted() && nothing.delay().is_zero());
            prop_assert_eq!(nothing.remaining(), look.remaining());
            prop_assert_eq!(nothing.reset_after(), look.reset_after());
            prop_assert_eq!(charged_nothing.peek(1, now), look);
            for huge in [u32::MAX, u32::MAX - 1, 1 << 31] {
                let mut bucket = bucket.fork();
                let decision = bucket.check(huge, now);
                let counts_units = subject
                    .models
                    .iter()
                    .any(|model| model.bound(1).counts != Counts::Requests);
                if counts_units {
                    let fits = u64::from(huge) <= nothing.remaining();
                    prop_assert_eq!(decision.is_admitted(), fits, "{}", huge);
                }
                prop_assert!(decision.remaining() <= nothing.remaining());
            }
            Ok(())
        })
    });
}

#[test]
fn a_step_back_in_time_opens_nothing_and_nobody_waits_longer_than_until_it_is_caught_up() {
    let back = (1..4_i128, 0..=255_i128);
    for_all(
        (numbers(), any_history(), back),
        |(numbers, history, (spans, part))| {
            every_algorithm(&numbers).iter().try_for_each(|subject| {
                let span = subject.longest_span();
                let mut own = 0;
                replay(subject, &history, |Seen { bucket, now, .. }| {
                    own = own.max(now);
                    let before = bucket.peek(1, now);
                    for by in [
                        1,
                        span * part / 255,
                        span + 1,
                        2 * span + 1,
                        spans * span + part + 1,
                    ] {
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
        },
    );
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
                    _ => twin.refund(seen.refunded, now),
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
        replay(
            subject,
            history,
            |Seen {
                 bucket,
                 now,
                 decision,
                 ..
             }| {
                let Some(decision) = decision else {
                    return Ok(());
                };
                let reset = i128::try_from(decision.reset_after().as_micros()).unwrap();
                prop_assert!(bucket.is_fresh(now + reset), "not fresh after {reset}");
                prop_assert!(
                    reset == 0 || !bucket.is_fresh(now + reset - 1),
                    "fresh before {reset}"
                );
                Ok(())
            },
        )
    });
}
