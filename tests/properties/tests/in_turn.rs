//! Several plans under one name, in turn: each keeps its own bound, whatever the others did in
//! between, and nobody waits longer than the slowest of them takes to recover.

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate_properties::{
    call::Call,
    claims::most_in,
    conformance::every_algorithm,
    for_all,
    history::{History, LAST, any_history, checks_back_and_forth},
    model::Counts,
    numbers::{Numbers, numbers, of_one_shape, real, small},
    replay::wait_of,
    subject::{Bucket, Subject},
};

/// Two to four plans, and which of them each step is of. Some of them differ in nothing but units,
/// bursts and intervals, as windows of one name must.
fn plans() -> impl Strategy<Value = (Vec<Numbers>, Vec<u8>)> {
    let some = prop_oneof![
        2 => prop::collection::vec(small(), 2..=4),
        2 => prop::collection::vec(small(), 2..=4).prop_map(of_one_shape),
        1 => prop::collection::vec(real(), 2..=4).prop_map(of_one_shape),
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
    /// The latest instant so far.
    own: i128,
    /// How much time has passed by a clock that stands still while the callers' clock steps back.
    passed: i128,
    cost: u32,
    decision: Option<tollgate::Decision>,
}

/// Runs the history for each algorithm, each step under its plan, of those that may share a state.
/// States are forgotten as soon as they may be, by whichever plan is asked.
fn in_turn(
    (plans, turns): &(Vec<Numbers>, Vec<u8>),
    history: &History,
    mut look: impl FnMut(&[Subject], Turned<'_>) -> TestCaseResult,
) -> TestCaseResult {
    let mut all: Vec<Vec<Subject>> = plans.iter().map(every_algorithm).collect();
    for _ in 0..all[0].len() {
        let mut subjects: Vec<Subject> = all.iter_mut().map(|plan| plan.remove(0)).collect();
        let of_the_first = subjects[0].shape();
        subjects.retain(|subject| subject.shape() == of_the_first);
        let mut bucket = subjects[0].bucket.fork();
        bucket.forget(0);
        let (mut now, mut own, mut wait, mut passed) = (history.start, 0, 0, 0);
        let mut story = String::new();
        for (at, step) in history.steps.iter().enumerate() {
            let plan = usize::from(turns[at % turns.len()]) % subjects.len();
            let subject = &subjects[plan];
            let before = now;
            now = step.turn.of(now, wait, subject);
            own = own.max(now);
            passed += (now - before).max(0);
            bucket = bucket.with_the_numbers_of(&*subject.bucket);
            if bucket.is_fresh(now) {
                bucket.forget(now);
            }
            let before = bucket.fork();
            let (mut cost, mut decision) = (0, None);
            let call = step.op.call(subject.limit());
            if !matches!(call, Call::Look(_) | Call::Reset) {
                decision = bucket.ask(call, now).map(|told| told.decision);
            }
            if let (Call::Check(asked), Some(decided)) = (call, &decision) {
                (cost, wait) = (asked, wait_of(decided));
            }
            let said = decision.as_ref().map(tollgate::Decision::is_admitted);
            story += &format!("\n  {now}: plan {plan}, cost {cost}: {said:?}");
            let turned = Turned {
                plan,
                before: &*before,
                after: &*bucket,
                now,
                own,
                passed,
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
                let of_each = |subject: &Subject| vec![Vec::new(); subject.models.len()];
                units = subjects.iter().map(of_each).collect();
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
                let most = most_in(admitted, bound.span);
                prop_assert!(
                    most <= bound.most,
                    "{most} of {} in {} µs, member {member}: {admitted:?}",
                    bound.most,
                    bound.span
                );
            }
            Ok(())
        })
    });
}

#[test]
fn nobody_waits_longer_than_the_slowest_plan_takes_to_recover() {
    for_all((plans(), checks_back_and_forth()), |(plans, history)| {
        in_turn(&plans, &history, |subjects, turned| {
            let Some(decision) = &turned.decision else {
                return Ok(());
            };
            let longest = subjects.iter().map(Subject::longest_span).max();
            // Until the clock has caught up no time passes.
            let behind = turned.own - turned.now;
            let wait = wait_of(decision) - behind;
            prop_assert!(wait <= longest.unwrap_or(0), "{wait} µs: {decision:?}");
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
            for subject in subjects {
                let seen = [turned.before, turned.after].map(|bucket| {
                    let bucket = bucket.with_the_numbers_of(&*subject.bucket);
                    bucket.peek(1, turned.now)
                });
                prop_assert_eq!(&seen[0], &seen[1]);
            }
            Ok(())
        })
    });
}

#[test]
fn a_state_that_is_fresh_for_one_plan_is_fresh_for_all() {
    for_all((plans(), any_history()), |(plans, history)| {
        in_turn(&plans, &history, |subjects, turned| {
            let is_fresh = |subject: &Subject| {
                let bucket = turned.after.with_the_numbers_of(&*subject.bucket);
                bucket.is_fresh(turned.now)
            };
            let first = is_fresh(&subjects[0]);
            prop_assert!(subjects.iter().all(|subject| is_fresh(subject) == first));
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
