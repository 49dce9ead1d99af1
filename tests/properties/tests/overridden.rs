//! Keys that are refused or let through until an instant, in memory.

use tollgate::{
    Quota, RateLimiter, Timestamp, algorithm::Gcra, clock::ManualClock, store::LocalStore,
};
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

#[test]
fn no_more_keys_are_overridden_at_a_time_than_have_room_and_none_that_is_over_counts() {
    const KEYS: u64 = 100;
    let clock = ManualClock::at(instant(0));
    let store = LocalStore::builder()
        .clock(clock.clone())
        .max_keys(KEYS as usize)
        .build();
    let limiter = RateLimiter::new(Gcra::new(Quota::per_hour(1)), store);
    let is_refused = |key: &u64| !limiter.peek(key).now().is_admitted();
    for round in 0..50 {
        let keys = || (1_000 * round..).take(2 * KEYS as usize);
        for key in keys() {
            let until = Timestamp::from_micros(10 * (round + 1));
            limiter.refuse_until(&key, until).now();
        }
        let refused = keys().filter(is_refused).count() as u64;
        // Those of before have left.
        assert_eq!(refused, KEYS, "{round}");
        clock.set(instant(10 * i128::from(round + 1)));
        assert_eq!(keys().filter(is_refused).count(), 0);
    }
}
