//! Every decision, in every field, is the slow model's.

use proptest::prelude::*;
use tollgate::clock::ManualClock;
use tollgate_properties::{
    conformance::every_algorithm,
    for_all,
    history::{History, Op, any_history},
    numbers::numbers,
    subject::{Subject, instant},
    told::ToldAll,
    world::World,
};

#[test]
fn every_decision_is_the_slow_models_in_every_field() {
    for_all((numbers(), any_history()), |(numbers, history)| {
        every_algorithm(&numbers)
            .iter()
            .try_for_each(|subject| agrees(subject, &history))
    });
}

fn agrees(subject: &Subject, history: &History) -> Result<(), TestCaseError> {
    let clock = ManualClock::at(instant(history.start));
    let limiter = subject.bucket.limiter(clock.clone());
    let mut world = World::new(&subject.models);
    let (mut now, mut wait) = (history.start, 0);
    for (index, step) in history.steps.iter().enumerate() {
        now = step.turn.of(now, wait, subject);
        clock.set(instant(now));
        let answers = match step.op {
            Op::Check(cost) => {
                let cost = cost.of(subject.limit());
                Some((limiter.check(cost), world.check(cost, now)))
            }
            Op::Peek => Some((limiter.peek(), world.peek(now))),
            Op::Refund(cost) => {
                let cost = cost.of(subject.limit());
                limiter.refund(cost);
                world.refund(cost, now);
                None
            }
            Op::Reset => {
                limiter.reset();
                world.reset();
                None
            }
        };
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
