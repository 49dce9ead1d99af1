//! What must hold of a limiter over the store in memory, step by step through a history.

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::clock::ManualClock;

use crate::{
    history::{History, LAST, Op},
    model::Counts,
    output::Outputs,
    replay::wait_of,
    subject::{Subject, instant},
    world::World,
};

/// Every decision is the slow model's, in every field.
pub fn every_decision_is_the_models(subject: &Subject, history: &History) -> TestCaseResult {
    let (clock, limiter) = subject.limiter_at(history.start);
    let mut world = World::new(&subject.models);
    let (mut now, mut wait) = (history.start, 0);
    for (index, step) in history.steps.iter().enumerate() {
        now = step.turn.of(now, wait, subject);
        clock.set(instant(now));
        let call = step.op.call(subject.limit());
        let answers = limiter.ask(call).zip(world.ask(call, now));
        if let Some((real, model)) = answers {
            let real = Outputs::from(&real);
            wait = real.all.retry_after.map_or(0, i128::from);
            prop_assert_eq!(real, model, "{} at {}, step {}", subject.name, now, index);
        }
        if world.is_known() && !limiter.is_known() {
            world.was_forgotten(now);
        }
        prop_assert_eq!(world.is_known(), limiter.is_known(), "{}", subject.name);
    }
    Ok(())
}

/// Moves the clock through a history whose steps back are no longer than this, to each of its
/// checks. `step` gets the time, which it may move on, and the cost; it returns the announced wait.
fn each_check(
    subject: &Subject,
    history: &History,
    (clock, longest_back): (&ManualClock, i128),
    mut step: impl FnMut(&mut i128, u32) -> Result<i128, TestCaseError>,
) -> TestCaseResult {
    let (mut now, mut wait, mut latest) = (history.start, 0, history.start);
    for entry in &history.steps {
        now = entry.turn.of(now, wait, subject).max(latest - longest_back);
        latest = latest.max(now);
        clock.set(instant(now));
        if let Op::Check(cost) = entry.op {
            wait = step(&mut now, cost.of(subject.limit()))?;
        }
    }
    Ok(())
}

/// What was let through: when it was admitted, when it was released, and how many units.
pub type Admitted = (i128, i128, i128);

/// The most in a half-open span of this length, of units that come at these instants.
pub fn most_in(counted: &[(i128, i128)], span: i128) -> i128 {
    let until = |end: i128| {
        let in_span = counted
            .iter()
            .filter(|(at, _)| *at > end - span && *at <= end);
        in_span.map(|(_, units)| units).sum()
    };
    let ends = counted.iter().map(|(at, _)| until(*at));
    ends.max().unwrap_or(0)
}

/// In no span is more let through than the printed bound.
pub fn the_bound_is_never_passed(subject: &Subject, history: &History) -> TestCaseResult {
    let (clock, limiter) = subject.limiter_at(history.start);
    let mut admitted: Vec<Admitted> = Vec::new();
    // The limiter's own clock never goes before an admission, nor before the store dropped an idle
    // key.
    let mut own = 0;
    each_check(
        subject,
        history,
        (&clock, subject.shortest_span()),
        |now, cost| {
            let now = *now;
            let was_known = limiter.is_known();
            let decision = limiter.check(cost);
            if decision.is_admitted() && cost > 0 {
                let delay = i128::try_from(decision.delay().as_micros()).unwrap();
                own = own.max(now);
                admitted.push((own, own.max(now + delay), cost.into()));
            }
            if was_known && !limiter.is_known() {
                own = own.max(now);
            }
            Ok(wait_of(&decision))
        },
    )?;
    stays_within_the_bound(subject, &admitted)
}

/// What was let through is no more than the printed bound, in any span.
pub fn stays_within_the_bound(subject: &Subject, admitted: &[Admitted]) -> TestCaseResult {
    let largest_cost = admitted.iter().map(|entry| entry.2).max().unwrap_or(0);
    for bound in subject.models.iter().map(|model| model.bound(largest_cost)) {
        let counted = |(at, release, units): &Admitted| match bound.counts {
            Counts::Units => (*at, *units),
            Counts::Requests => (*at, 1),
            Counts::Releases => (*release, *units),
        };
        let counted: Vec<_> = admitted.iter().map(counted).collect();
        let most = most_in(&counted, bound.span);
        let name = subject.name;
        prop_assert!(
            most <= bound.most,
            "{name}: {most} in {bound:?}: {admitted:?}"
        );
    }
    Ok(())
}

/// A refused request, a cost of 0 and a look change nothing.
pub fn a_refused_request_changes_nothing(subject: &Subject, history: &History) -> TestCaseResult {
    let (clock, saw_all) = subject.limiter_at(history.start);
    let saw_the_admitted = subject.bucket.limiter(clock.clone());
    each_check(
        subject,
        history,
        (&clock, subject.shortest_span()),
        |_, cost| {
            saw_all.peek();
            let decision = saw_all.check(cost);
            if decision.is_admitted() && cost > 0 {
                prop_assert_eq!(&decision, &saw_the_admitted.check(cost));
            }
            prop_assert_eq!(saw_all.peek(), saw_the_admitted.peek());
            Ok(wait_of(&decision))
        },
    )
}

/// A request that waits as long as announced is admitted; one that waits a microsecond less is not.
/// No policy that refuses it tells a longer time until there is more.
pub fn the_announced_wait_is_exact(subject: &Subject, history: &History) -> TestCaseResult {
    let (clock, limiter) = subject.limiter_at(history.start);
    each_check(subject, history, (&clock, LAST), |now, cost| {
        let decision = limiter.check(cost);
        let wait = wait_of(&decision);
        if decision.retry_after().is_some() && *now + wait <= LAST {
            for policy in decision.policies().iter().filter(|it| !it.is_admitted()) {
                prop_assert!(Some(policy.replenished_after()) <= decision.retry_after());
            }
            clock.set(instant(*now + wait - 1));
            prop_assert!(!limiter.check(cost).is_admitted(), "one µs before {wait}");
            clock.set(instant(*now + wait));
            prop_assert!(limiter.check(cost).is_admitted(), "after {wait}");
            *now += wait;
        }
        Ok(wait)
    })
}

/// Exactly the remaining units are admitted at the same instant. This is tried at each other check,
/// and only if they are few.
pub fn what_remains_is_true(subject: &Subject, history: &History) -> TestCaseResult {
    let (clock, limiter) = subject.limiter_at(history.start);
    let mut is_tried = false;
    each_check(subject, history, (&clock, LAST), |_, cost| {
        let decision = limiter.check(cost);
        is_tried = !is_tried;
        if decision.remaining() < 10 && is_tried {
            for left in (0..decision.remaining()).rev() {
                prop_assert_eq!(limiter.check(1).remaining(), left);
            }
            prop_assert!(!limiter.check(1).is_admitted(), "one too many");
        }
        Ok(wait_of(&decision))
    })
}
