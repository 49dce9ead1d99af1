//! Several plans under one name, in turn: each keeps its own bound, whatever the others did in
//! between.

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate_properties::{
    conformance::every_algorithm,
    for_all,
    history::{History, LAST, Op, Step, any_history, checks_back_and_forth},
    model::Counts,
    numbers::{Numbers, numbers, real, small},
    replay::wait_of,
    subject::{Bucket, Subject},
};

/// Two to four plans, and which of them each step is of.
fn plans() -> impl Strategy<Value = (Vec<Numbers>, Vec<u8>)> {
    let some = prop_oneof![
        4 => prop::collection::vec(small(), 2..=4),
        1 => prop::collection::vec(real(), 2..=4),
        1 => prop::collection::vec(numbers(), 2..=3),
    ];
    (some, prop::collection::vec(any::<u8>(), 80))
}

/// One step of a history under one of several plans.
struct Turned<'a> {
    plan: usize,
    before: &'a dyn Bucket,
    after: &'a dyn Bucket,
    now: i128,
    /// How much time has passed by a clock that stands still while the callers' clock steps back.
    passed: i128,
    step: &'a Step,
    cost: u32,
    decision: Option<tollgate::Decision>,
}

/// Whether one of them is a queue.
fn holds_back(subjects: &[Subject]) -> bool {
    let models = subjects.iter().flat_map(|subject| &subject.models);
    models
        .into_iter()
        .any(|model| model.bound(1).counts == Counts::Releases)
}

/// Runs the history for each algorithm, each step under its plan. States are forgotten as soon as
/// they may be.
fn in_turn(
    (plans, turns): &(Vec<Numbers>, Vec<u8>),
    history: &History,
    mut look: impl FnMut(&[Subject], Turned<'_>) -> TestCaseResult,
) -> TestCaseResult {
    let all: Vec<Vec<Subject>> = plans.iter().map(every_algorithm).collect();
    for index in 0..all[0].len() {
        let of_each = all.iter().map(|plan| &plan[index]);
        let subjects: Vec<Subject> = of_each
            .map(|subject| Subject {
                name: subject.name,
                models: subject.models.iter().map(|model| model.fork()).collect(),
                bucket: subject.bucket.fork(),
            })
            .collect();
        let mut bucket = subjects[0].bucket.fork();
        bucket.forget(0);
        let (mut now, mut wait) = (history.start, 0);
        let (mut passed, mut latest) = (0, 0);
        // A store keeps when it forgot a key, and the next to be charged begins with that.
        let mut forgotten_at = Some(0);
        let mut story = String::new();
        for (at, step) in history.steps.iter().enumerate() {
            let plan = usize::from(turns[at % turns.len()]) % subjects.len();
            let subject = &subjects[plan];
            let before = now;
            now = step.turn.of(now, wait, subject);
            if holds_back(&subjects) {
                // A release that is scheduled is not moved back with the stamp.
                let spans = subjects.iter().map(Subject::shortest_span);
                now = now.max(latest - spans.min().unwrap_or(0));
            }
            passed += (now - before).max(0);
            bucket = bucket.with_the_numbers_of(&*subject.bucket);
            // A store keeps a state that is fresh for the caller for as long as the slowest plan
            // needs it. These algorithms rely on it: an interval keeps no plans, and a window of
            // one plan does not know that others may come.
            let all_must_say_so =
                subject.name.contains("interval") || subject.name.contains("fixed window");
            let is_fresh = |plan: &Subject| bucket.with_the_numbers_of(&*plan.bucket).is_fresh(now);
            if bucket.is_fresh(now) && (!all_must_say_so || subjects.iter().all(is_fresh)) {
                forgotten_at = Some(now.max(forgotten_at.unwrap_or(0)));
            }
            if let Some(at) = forgotten_at {
                latest = at.max(latest);
                bucket.forget(at);
            }
            let before = bucket.fork();
            let (mut cost, mut decision) = (0, None);
            match step.op {
                Op::Check(asked) => {
                    cost = asked.of(subject.limit());
                    let decided = bucket.check(cost, now);
                    wait = wait_of(&decided);
                    if decided.is_admitted() && cost > 0 {
                        latest = now.max(latest);
                        forgotten_at = None;
                    }
                    decision = Some(decided);
                }
                Op::Debit(asked) => bucket.debit(asked.of(subject.limit()), now),
                Op::Refund(asked) => bucket.refund(asked.of(subject.limit()), now),
                Op::Peek | Op::Reset => {}
            }
            let said = decision.as_ref().map(tollgate::Decision::is_admitted);
            story += &format!("\n  {now}: plan {plan}, cost {cost}: {said:?}");
            let turned = Turned {
                plan,
                before: &*before,
                after: &*bucket,
                now,
                passed,
                step,
                cost,
                decision,
            };
            look(&subjects, turned).map_err(|error| {
                let name = subject.name;
                TestCaseError::fail(format!("{name}, plan {plan}, step {at}: {error}{story}"))
            })?;
        }
    }
    Ok(())
}

/// What one plan admitted, by its own clock that never steps back: `(instant, units)`.
type Admitted = Vec<(i128, i128)>;

#[test]
fn each_plan_keeps_its_own_bound_whatever_the_others_did_in_between() {
    for_all((plans(), checks_back_and_forth()), |(plans, history)| {
        let mut name = "";
        let mut units: Vec<Vec<Admitted>> = Vec::new();
        let mut largest = Vec::new();
        in_turn(&plans, &history, |subjects, turned| {
            if name != subjects[0].name {
                name = subjects[0].name;
                units = subjects
                    .iter()
                    .map(|subject| vec![Vec::new(); subject.models.len()])
                    .collect();
                largest = vec![0; subjects.len()];
            }
            let (plan, cost) = (turned.plan, i128::from(turned.cost));
            let Some(decision) = &turned.decision else {
                return Ok(());
            };
            if !decision.is_admitted() || cost == 0 {
                return Ok(());
            }
            largest[plan] = cost.max(largest[plan]);
            for (member, model) in subjects[plan].models.iter().enumerate() {
                let bound = model.bound(largest[plan]);
                let delay = decision.policies()[member].delay().as_micros();
                let delay = i128::try_from(delay).unwrap();
                let (at, counted) = match bound.counts {
                    Counts::Units => (turned.passed, cost),
                    Counts::Requests => (turned.passed, 1),
                    Counts::Releases => (turned.passed + delay, cost),
                };
                let admitted = &mut units[plan][member];
                admitted.push((at, counted));
                for (end, _) in admitted.iter().rev() {
                    let in_span = admitted
                        .iter()
                        .filter(|(at, _)| *at > end - bound.span && at <= end);
                    let most: i128 = in_span.map(|(_, units)| units).sum();
                    prop_assert!(
                        most <= bound.most,
                        "{most} of {} in {} µs, member {member}: {admitted:?}",
                        bound.most,
                        bound.span
                    );
                }
            }
            Ok(())
        })
    });
}

#[test]
fn a_refused_request_changes_nothing_for_any_plan() {
    for_all((plans(), any_history()), |(plans, history)| {
        in_turn(&plans, &history, |subjects, turned| {
            let refused = |decision: &tollgate::Decision| !decision.is_admitted();
            if !turned.decision.as_ref().is_some_and(refused) {
                return Ok(());
            }
            let (mut before, mut after) = (turned.before.fork(), turned.after.fork());
            // A stamp of the future is mended by the first of two that are refused.
            before.check(turned.cost, turned.now);
            after.check(turned.cost, turned.now);
            for subject in subjects {
                let seen = [&before, &after].map(|bucket| {
                    let bucket = bucket.with_the_numbers_of(&*subject.bucket);
                    bucket.peek(1, turned.now)
                });
                prop_assert_eq!(&seen[0], &seen[1], "{:?}", turned.step.op);
            }
            Ok(())
        })
    });
}

#[test]
fn the_announced_wait_and_what_remains_are_exact_in_turn() {
    for_all((plans(), any_history()), |(plans, history)| {
        in_turn(&plans, &history, |_, turned| {
            let Some(decision) = &turned.decision else {
                return Ok(());
            };
            let (now, wait) = (turned.now, wait_of(decision));
            if decision.retry_after().is_some() && now + wait <= LAST {
                let mut then = turned.after.fork();
                prop_assert!(!then.check(turned.cost, now + wait - 1).is_admitted());
                let mut then = turned.after.fork();
                let admitted = then.check(turned.cost, now + wait).is_admitted();
                prop_assert!(admitted, "{:?}", decision);
            }
            if decision.remaining() < 50 {
                let mut bucket = turned.after.fork();
                for _ in 0..decision.remaining() {
                    prop_assert!(bucket.check(1, now).is_admitted(), "{:?}", decision);
                }
                prop_assert!(!bucket.check(1, now).is_admitted(), "{:?}", decision);
            }
            Ok(())
        })
    });
}

/// Histories that once passed the bounds, as one would write them.
fn alternating(plans: [Numbers; 2], rounds: usize, gap: i128, name: &str) -> u64 {
    let [first, second] = plans.map(|numbers| {
        let mut all = every_algorithm(&numbers);
        let at = all.iter().position(|subject| subject.name == name).unwrap();
        all.swap_remove(at)
    });
    let start = 1_700_000_000_000_000;
    let (mut bucket, mut admitted, mut now) = (first.bucket.fork(), 0, start);
    bucket.forget(0);
    for _ in 0..rounds {
        bucket = bucket.with_the_numbers_of(&*first.bucket);
        while bucket.check(1, now).is_admitted() {
            admitted += 1;
        }
        now += gap;
        bucket = bucket.with_the_numbers_of(&*second.bucket);
        bucket.check(1, now);
    }
    admitted
}

fn quota(units: u64, seconds: u64) -> Numbers {
    let period = seconds * 1_000_000;
    Numbers {
        units,
        period,
        burst: units,
        precision: period,
        interval: 1,
        other_units: units,
        other_period: period,
    }
}

#[test]
fn a_short_plan_in_between_opens_nothing_of_a_long_one() {
    let plans = || [quota(1_000, 3_600), quota(1, 1)];
    for (name, bound) in [
        ("sliding log", 1_000),
        ("strict buckets", 1_000),
        ("sliding window", 1_999),
        ("window from first request", 1_999),
        ("fixed window", 2_000),
        ("token bucket", 1_016),
    ] {
        let admitted = alternating(plans(), 60, 1_000_000, name);
        assert!(admitted <= bound, "{name}: {admitted} in a minute");
    }
    let admitted = alternating(
        [quota(10, 60), quota(50, 60)],
        5,
        12_000_000,
        "token bucket",
    );
    assert!(admitted <= 19, "{admitted} in a minute");
}

#[test]
fn refusals_in_turn_neither_lengthen_a_wait_nor_open_anything() {
    let at = 1_700_000_000_000_000;
    let bucket = |units, seconds| every_algorithm(&quota(units, seconds)).swap_remove(6);
    let (a, b) = (bucket(3, 17), bucket(3, 19));
    let mut state = a.bucket.fork();
    state.forget(0);
    assert!(state.check(3, at).is_admitted());
    let wait = state.peek(1, at).retry_after();
    for _ in 0..2_000 {
        state = state.with_the_numbers_of(&*b.bucket);
        assert!(!state.check(1, at).is_admitted());
        state = state.with_the_numbers_of(&*a.bucket);
        assert!(!state.check(1, at).is_admitted());
    }
    assert_eq!(state.peek(1, at).retry_after(), wait);

    let (fast, slow) = (bucket(1_000, 1), bucket(1_000_003, 365 * 86_400));
    let mut state = fast.bucket.fork();
    state.forget(0);
    let mut admitted = 0;
    for _ in 0..20_000 {
        admitted += u64::from(state.check(1, at).is_admitted());
        state = state.with_the_numbers_of(&*slow.bucket);
        state.check(u32::MAX, at);
        state = state.with_the_numbers_of(&*fast.bucket);
    }
    assert_eq!(admitted, 1_000);
}

/// How many single units are admitted at an instant.
fn drained(bucket: &mut dyn Bucket, now: i128) -> u64 {
    let mut admitted = 0;
    while bucket.check(1, now).is_admitted() {
        admitted += 1;
    }
    admitted
}

#[test]
fn a_step_back_of_the_clock_opens_no_window_at_its_edge() {
    for (name, step) in [
        ("fixed window", 1),
        ("sliding buckets", 1),
        ("strict buckets", 1),
    ] {
        let subjects = every_algorithm(&Numbers {
            units: 5,
            period: 1_000,
            precision: 1_000,
            ..quota(5, 1)
        });
        let subject = subjects
            .iter()
            .find(|subject| subject.name == name)
            .unwrap();
        let mut bucket = subject.bucket.fork();
        bucket.forget(0);
        let mut admitted = 0;
        // Each time until just before an edge, and then over it.
        for round in 0..5 {
            let edge = 10_000_000 - round * 4_000;
            admitted += drained(&mut *bucket, edge - step) + drained(&mut *bucket, edge);
        }
        assert!(admitted <= 10, "{name}: {admitted} of 5 in 5 µs");
    }
}

#[test]
fn a_window_that_a_step_back_moves_is_not_followed_by_two_within_a_period() {
    for name in ["fixed window", "sliding buckets", "strict buckets"] {
        let subjects = every_algorithm(&Numbers {
            units: 5,
            period: 1_000,
            precision: 1_000,
            ..quota(5, 1)
        });
        let subject = subjects.into_iter().find(|subject| subject.name == name);
        let mut bucket = subject.expect("a subject of this name").bucket;
        bucket.forget(0);
        assert!(bucket.check(1, 10_000_500).is_admitted());
        // The window is moved with room left. A period later is just before an edge.
        let moved_at = 9_996_999;
        bucket.check(0, moved_at);
        let instants = [999, 1_000, 1_001].map(|later| moved_at + later);
        let admitted: u64 = instants.map(|now| drained(&mut *bucket, now)).iter().sum();
        assert!(admitted <= 10, "{name}: {admitted} of 5 in 3 µs");
    }
}

#[test]
fn a_step_back_of_the_clock_opens_no_window_that_was_over_before_another_plan_came() {
    for name in ["fixed window", "sliding window"] {
        let [ten, seven] = buckets_of(name, [(5, 10), (9, 7)]);
        let mut state = ten.fork();
        state.forget(0);
        // A window of ten seconds begins here, and one of seven began before.
        let edge = 1_700_000_010_000_000;
        let mut admitted = drained(&mut *state, edge - 1);
        state = state.with_the_numbers_of(&*seven);
        assert!(state.check(1, edge).is_admitted(), "{name}");
        state = state.with_the_numbers_of(&*ten);
        admitted += drained(&mut *state, edge - 1) + drained(&mut *state, edge);
        assert!(admitted <= 10, "{name}: {admitted} of 5 in 3 µs");
    }
}

#[test]
fn a_caller_who_goes_back_to_a_small_plan_waits_no_longer_than_for_a_full_bucket() {
    let (free, paid) = (quota(10, 86_400), quota(100_000, 86_400));
    let [free, paid] = [free, paid].map(|numbers| every_algorithm(&numbers).swap_remove(6));
    let mut state = free.bucket.fork();
    state.forget(0);
    let mut now = 1_700_000_000_000_000;
    assert!(state.check(5, now).is_admitted());
    state = state.with_the_numbers_of(&*paid.bucket);
    for _ in 0..2_000 {
        assert!(state.check(10, now).is_admitted());
        now += 8_640_000;
    }
    state = state.with_the_numbers_of(&*free.bucket);
    let wait = wait_of(&state.peek(1, now));
    assert!(wait <= 8_640_000_000, "{wait} µs");
}

#[test]
fn what_a_plan_used_before_the_clock_stepped_back_still_counts_where_two_others_came_after_it() {
    for name in ["fixed window", "sliding window"] {
        let [second, day, hour] = [quota(1, 1), quota(9, 86_400), quota(9, 3_600)].map(|numbers| {
            let mut all = every_algorithm(&numbers);
            let at = all.iter().position(|subject| subject.name == name).unwrap();
            all.swap_remove(at)
        });
        let (edge, later) = (172_800_000_000, 10_000);
        let (before, back) = (edge + later, edge - 7_200_000_000 - later);
        let mut state = second.bucket.fork();
        state.forget(0);
        assert!(state.check(1, before).is_admitted());
        for (plan, now) in [(&day, before), (&hour, back)] {
            state = state.with_the_numbers_of(&*plan.bucket);
            assert!(state.check(1, now).is_admitted());
        }
        state = state.with_the_numbers_of(&*second.bucket);
        // Twenty milliseconds later by the clock, over the edge of a second.
        let again = state.check(1, back + 2 * later);
        assert!(!again.is_admitted(), "{name}: {again:?}");
    }
}

/// The buckets of this algorithm with these quotas.
fn buckets_of<const N: usize>(name: &str, quotas: [(u64, u64); N]) -> [Box<dyn Bucket>; N] {
    quotas.map(|(units, seconds)| {
        let mut all = every_algorithm(&quota(units, seconds));
        let at = all.iter().position(|subject| subject.name == name).unwrap();
        all.swap_remove(at).bucket
    })
}

const DAY_MICROS: i128 = 86_400_000_000;

#[test]
fn of_several_plans_each_is_refused_only_by_what_it_may_have_used() {
    for name in [
        "fixed window",
        "window from first request",
        "sliding window",
        "token bucket",
        "sliding log",
    ] {
        let [day, half_a_day, second, minute] =
            buckets_of(name, [(1_000, 86_400), (500, 43_200), (10, 1), (10, 60)]);
        let mut now = 19_676 * DAY_MICROS + DAY_MICROS / 3;
        let mut state = day.fork();
        state.forget(0);
        for plan in [&day, &half_a_day, &second, &day] {
            state = state.with_the_numbers_of(&**plan);
            assert!(state.check(1, now).is_admitted(), "{name}");
        }
        now += 2_000_000;
        for plan in [&half_a_day, &second, &minute] {
            let decision = state.with_the_numbers_of(&**plan).check(1, now);
            assert!(decision.is_admitted(), "{name}: {decision:?}");
        }
        // A plan that nobody used waits no longer than its own bound makes it wait.
        state = state.with_the_numbers_of(&*minute);
        while state.check(1, now).is_admitted() {}
        let wait = wait_of(&state.check(1, now));
        assert!(wait <= 120_000_000, "{name}: {wait} µs");
    }
}

#[test]
fn after_a_step_back_no_plan_waits_longer_than_two_of_its_spans_whoever_asks_first() {
    let (now, hour_micros) = (19_676 * DAY_MICROS + 80_000_000_000, 3_600_000_000);
    for (name, span) in [
        ("fixed window", hour_micros),
        ("window from first request", hour_micros),
        ("sliding window", 2 * hour_micros),
        ("token bucket", hour_micros),
        ("sliding log", hour_micros),
    ] {
        let [hour, day, second, month] =
            buckets_of(name, [(1, 3_600), (9, 86_400), (1, 1), (9, 30 * 86_400)]);
        for (admitted, first, hours_back) in [
            ([&hour, &day, &second], &day, 50),
            ([&hour, &day, &second], &second, 50),
            ([&hour, &month, &day], &hour, 20),
            ([&hour, &month, &day], &month, 20),
        ] {
            let mut state = hour.fork();
            state.forget(0);
            for plan in admitted {
                state = state.with_the_numbers_of(&**plan);
                state.check(1, now);
            }
            let back = now - hours_back * hour_micros;
            for plan in [first, &hour] {
                state = state.with_the_numbers_of(&**plan);
                state.check(100, back);
            }
            let wait = wait_of(&state.check(1, back));
            assert!(wait <= 2 * span, "{name}, {hours_back} h: {wait} µs");
        }
    }
}
