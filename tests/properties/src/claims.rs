//! What must hold of a limiter over any store, step by step through a history.

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::clock::ManualClock;

use crate::{
    history::{History, LAST, Op},
    model::{Bound, Counts},
    replay::wait_of,
    subject::{Bucket, Limiter, Subject, instant},
    told::ToldAll,
    world::World,
};

/// A limiter over a store of its own with this clock.
pub type Open<'a> = &'a dyn Fn(&dyn Bucket, ManualClock) -> Box<dyn Limiter>;

/// Over the store in memory.
pub fn in_memory(bucket: &dyn Bucket, clock: ManualClock) -> Box<dyn Limiter> {
    bucket.limiter(clock)
}

/// Every decision is the slow model's, in every field.
pub fn every_decision_is_the_models(
    subject: &Subject,
    history: &History,
    open: Open<'_>,
) -> TestCaseResult {
    let clock = ManualClock::at(instant(history.start));
    let limiter = open(&*subject.bucket, clock.clone());
    let mut world = World::new(&subject.models);
    let (mut now, mut wait) = (history.start, 0);
    for (index, step) in history.steps.iter().enumerate() {
        now = step.turn.of(now, wait, subject);
        clock.set(instant(now));
        let call = step.op.call(subject.limit());
        let answers = limiter.ask(call).zip(world.ask(call, now));
        if let Some((real, model)) = answers {
            let real = ToldAll::from(&real);
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
type Admitted = (i128, i128, i128);

fn most_in_a_span(admitted: &[Admitted], bound: Bound) -> i128 {
    let at = |entry: &Admitted| match bound.counts {
        Counts::Releases => entry.1,
        Counts::Units | Counts::Requests => entry.0,
    };
    let weight = |entry: &Admitted| match bound.counts {
        Counts::Requests => 1,
        Counts::Units | Counts::Releases => entry.2,
    };
    let in_span_until = |end: i128| {
        let inside = move |entry: &&Admitted| at(entry) <= end && at(entry) > end - bound.span;
        admitted.iter().filter(inside).map(weight).sum()
    };
    let ends = admitted.iter().map(at);
    ends.map(in_span_until).max().unwrap_or(0)
}

/// In no span is more let through than the printed bound.
pub fn the_bound_is_never_passed(
    subject: &Subject,
    history: &History,
    open: Open<'_>,
) -> TestCaseResult {
    let clock = ManualClock::at(instant(history.start));
    let limiter = open(&*subject.bucket, clock.clone());
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
    let largest_cost = admitted.iter().map(|entry| entry.2).max().unwrap_or(0);
    for bound in subject.models.iter().map(|model| model.bound(largest_cost)) {
        let most = most_in_a_span(&admitted, bound);
        prop_assert!(most <= bound.most, "{most} in {bound:?}: {admitted:?}");
    }
    Ok(())
}

/// A refused request, a cost of 0 and a look change nothing.
pub fn a_refused_request_changes_nothing(
    subject: &Subject,
    history: &History,
    open: Open<'_>,
) -> TestCaseResult {
    let clock = ManualClock::at(instant(history.start));
    let saw_all = open(&*subject.bucket, clock.clone());
    let saw_the_admitted = open(&*subject.bucket, clock.clone());
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
pub fn the_announced_wait_is_exact(
    subject: &Subject,
    history: &History,
    open: Open<'_>,
) -> TestCaseResult {
    let clock = ManualClock::at(instant(history.start));
    let limiter = open(&*subject.bucket, clock.clone());
    each_check(subject, history, (&clock, LAST), |now, cost| {
        let decision = limiter.check(cost);
        let wait = wait_of(&decision);
        if decision.retry_after().is_some() && *now + wait <= LAST {
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
pub fn what_remains_is_true(
    subject: &Subject,
    history: &History,
    open: Open<'_>,
) -> TestCaseResult {
    let clock = ManualClock::at(instant(history.start));
    let limiter = open(&*subject.bucket, clock.clone());
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
