//! Keys that are refused or let through until an instant, in memory.

use tollgate_properties::{
    conformance::every_algorithm,
    for_all,
    numbers::numbers,
    overridden::{decides_as_was_said, overridden_history},
    subject::instant,
};

#[test]
fn a_key_is_refused_or_let_through_until_the_instant_that_was_said() {
    for_all(
        (numbers(), overridden_history()),
        |(numbers, (history, told))| {
            every_algorithm(&numbers).iter().try_for_each(|subject| {
                let (clock, limiter) = subject.limiter_at(history.start);
                decides_as_was_said(subject, (&history, &told), &mut |call, now| {
                    clock.set(instant(now));
                    Ok(limiter.ask(call))
                })
            })
        },
    );
}
