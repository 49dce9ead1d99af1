use std::time::Duration;

use super::*;
use crate::{
    Quota, Timestamp,
    algorithm::{FixedWindow, LeakyBucket, MinInterval, SlidingLog, SlidingWindow, TokenBucket},
};

/// How many units are left after this reply at 100 µs to a cost of 1, if it makes sense.
fn remaining<A: Scripted>(rule: &A, charged: bool, numbers: &[u64]) -> Option<u64> {
    let script = A::script();
    let now = Timestamp::from_micros(100);
    let (members, admitting) = (script.members(), u64::from(charged));
    let mut reply = ScriptReply::new((members, numbers), (admitting, now), (1, charged));
    let snapshot = rule.read(&mut reply)?;
    let decision = rule.decision(&snapshot);
    assert_eq!(decision.is_admitted(), charged);
    Some(decision.remaining())
}

fn quota() -> Quota {
    Quota::new(5, Duration::from_micros(60))
}

/// The values of its parameters: one for each name.
fn parameters<A: Scripted>(rule: &A) -> Vec<u64> {
    let mut told = Vec::new();
    rule.parameters(&mut |number| told.push(number));
    let script = A::script();
    let names: usize = (script.members().iter())
        .map(|member| member.parameters.len())
        .sum();
    assert_eq!(told.len(), names);
    told
}

#[test]
fn a_script_is_told_each_of_its_numbers() {
    let window = FixedWindow::new(quota());
    assert_eq!(parameters(&window), [5, 60, 0]);
    assert_eq!(parameters(&window.from_first_request()), [5, 60, 1]);
    assert_eq!(parameters(&SlidingWindow::new(quota())), [5, 60, 1, 60]);
    let interval = MinInterval::new(Duration::from_micros(10));
    assert_eq!(parameters(&interval), [10]);
    assert_eq!(parameters(&TokenBucket::new(quota()))[..4], [60, 12, 1, 1]);
    let in_coarse_ticks = parameters(&TokenBucket::new(Quota::per_day(1_000_003)));
    let parts_per_unit = 8_640_000_000;
    assert_eq!(
        in_coarse_ticks[..4],
        [1_000_003 * parts_per_unit, parts_per_unit, 1_000_003, 10]
    );
    let per_request = FixedWindow::new(quota()).per_request();
    assert_eq!(parameters(&per_request), [5, 60, 0]);
    let queue = LeakyBucket::new(quota()).queue();
    assert_eq!(parameters(&queue)[..3], [60, 12, 1]);
    assert_eq!(parameters(&SlidingLog::new(quota()))[..3], [5, 1, 60]);
}

#[test]
fn each_member_is_told_whether_it_admits_and_all_whether_they_do() {
    let script = FixedWindow::script().and(MinInterval::script());
    let reply = |admitting| {
        let now = Timestamp::from_micros(100);
        let mut reply = ScriptReply::new(
            (script.members(), &[60, 3, 1, 0]),
            (admitting, now),
            (1, false),
        );
        let admitted = [(); 2].map(|()| reply.next_member().unwrap().admitted);
        assert!(reply.next_member().is_none());
        (reply.is_admitted(), admitted)
    };
    assert_eq!(reply(0b00), (false, [false, false]));
    assert_eq!(reply(0b01), (false, [true, false]));
    assert_eq!(reply(0b10), (false, [false, true]));
    assert_eq!(reply(0b11), (true, [true, true]));
}

#[test]
fn what_every_state_can_be_is_read_from_the_state() {
    assert_eq!(
        remaining(&SlidingWindow::new(quota()), true, &[100, 0, 3]),
        Some(2)
    );
    let queue = LeakyBucket::new(quota()).queue();
    assert_eq!(remaining(&queue, true, &[12, 100]), Some(4));
    assert_eq!(remaining(&queue.per_request(), true, &[12, 100]), Some(4));
}

#[test]
fn what_a_hold_replies_is_what_was_not_charged_and_its_generation() {
    let window = FixedWindow::new(quota()).settled();
    let matters_for = window.config_id().retention().as_micros();
    let held_at_most = window.clone().held_at_most(Duration::from_micros(700));
    let matters_for = u64::try_from(matters_for).unwrap();
    let told = [5, 60, 0, 700, 1_400, matters_for];
    assert_eq!(parameters(&held_at_most), told);
    for charged in [true, false] {
        assert_eq!(remaining(&window, charged, &[60, 3, 77]), Some(2));
        assert_eq!(remaining(&window, charged, &[60, 3]), None);
        assert_eq!(remaining(&window, charged, &[]), None);
    }
    // A bucket that was charged a unit would owe twelve parts at least.
    let bucket = TokenBucket::new(quota()).settled();
    assert_eq!(remaining(&bucket, true, &[11, 100, 77]), Some(4));
}

#[test]
fn a_window_is_told_only_while_it_runs() {
    let rule = FixedWindow::new(quota());
    assert_eq!(remaining(&rule, true, &[60, 3]), Some(2));
    assert_eq!(remaining(&rule, false, &[60, 5]), Some(0));
    assert_eq!(remaining(&rule, true, &[41, 3]), Some(2));
    for numbers in [&[40, 3][..], &[60], &[]] {
        assert_eq!(remaining(&rule, true, numbers), None, "{numbers:?}");
    }
}

#[test]
fn a_bucket_that_was_charged_owes_what_was_charged_and_no_more_than_it_may() {
    // A unit is 12 parts, and each tick pays one of the 60.
    let rule = TokenBucket::new(quota());
    for (debt, left) in [(12, 4), (60, 0)] {
        assert_eq!(remaining(&rule, true, &[debt, 100]), Some(left));
        assert_eq!(remaining(&rule, true, &[debt, 160]), Some(left));
    }
    assert_eq!(remaining(&rule, false, &[60, 100]), Some(0));
    assert_eq!(remaining(&rule, false, &[600, 500]), Some(0));
    for numbers in [&[11, 100][..], &[61, 100], &[12, 161], &[12]] {
        assert_eq!(remaining(&rule, true, numbers), None, "{numbers:?}");
    }
}

#[test]
fn a_log_is_told_by_entries_that_count_still_and_in_their_order() {
    let rule = SlidingLog::new(quota());
    // What is forgotten, the total, the first entry, and the slot of the last.
    assert_eq!(remaining(&rule, true, &[1, 4, 41, 2, 100]), Some(2));
    assert_eq!(remaining(&rule, true, &[0, 1, 160, 1, 160]), Some(4));
    for numbers in [
        &[1, 4, 40, 2, 100][..],
        &[1, 4, 101, 2, 100],
        &[1, 4, 41, 2, 161],
        &[5, 4, 41, 2, 100],
        &[1, 4, 41, 2],
    ] {
        assert_eq!(remaining(&rule, true, numbers), None, "{numbers:?}");
    }
    // The units, and what must be over before there is room for one, for all and for the cost.
    assert_eq!(remaining(&rule, false, &[5, 41, 100, 41]), Some(0));
    assert_eq!(remaining(&rule, false, &[5, 41, 160, 160]), Some(0));
    assert_eq!(remaining(&rule, false, &[5, 41, 100, 0]), Some(0));
    for numbers in [
        &[5, 40, 100, 41][..],
        &[5, 41, 100, 40],
        &[5, 41, 100, 101],
        &[5, 101, 100, 41],
        &[5, 41, 161, 41],
    ] {
        assert_eq!(remaining(&rule, false, numbers), None, "{numbers:?}");
    }
}
