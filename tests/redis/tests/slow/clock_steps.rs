//! The server's own clock is stepped, back and forth, while limits run by it.

use std::time::Duration;

use tollgate::{Decision, Quota, RateLimiter, algorithm::TokenBucket};
use tollgate_properties::{
    model::{Counts, Model},
    numbers::Numbers,
    shared::SharedLimiter,
    subject::Subject,
};
use tollgate_redis_tests::{SteppedServer, every_algorithm, patient};

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;

/// Windows of all lengths in this file begin at its multiples, and no state matters for so long.
const CYCLE: i64 = HOUR / 2;

/// An instant so far into a cycle that no window's edge is near.
const BETWEEN_EDGES: i64 = 270 * SECOND;

/// Periods so long that the time a test takes is nothing beside them.
const SLOW: Numbers =
    Numbers::new((6, 600_000_000), 9, 60_000_000, 300_000_000).beside(7, 900_000_000);

/// One limiter after the other, each over a key and an hour of its own.
async fn each(test: impl AsyncFn(&SteppedServer, &Subject, &dyn SharedLimiter, i64)) {
    let stepped = SteppedServer::start().await;
    let client = stepped.server().client().await;
    let store = patient(client).prefix("stepped").build();
    let begin = stepped.now().await / CYCLE * CYCLE + BETWEEN_EDGES;
    for (turn, subject) in (1..).zip(every_algorithm(&SLOW)) {
        let key = subject.name.to_owned();
        let limiter = subject.bucket.limiter_over(store.clone(), key);
        let begin = begin + turn * 24 * HOUR;
        stepped.set(begin).await;
        test(&stepped, &subject, &*limiter, begin).await;
    }
    let for_ever = stepped.server().keys_without_ttl("").await;
    assert_eq!(for_ever, [""; 0]);
}

async fn check(limiter: &dyn SharedLimiter) -> Decision {
    limiter.check(1).await.expect("a decision")
}

/// Asks until it is refused: how many were admitted, and the refusal.
async fn fill(limiter: &dyn SharedLimiter) -> (i64, Decision) {
    let mut admitted = 0;
    loop {
        let decision = check(limiter).await;
        if !decision.is_admitted() {
            return (admitted, decision);
        }
        admitted += 1;
        assert!(admitted < 100, "it is never refused");
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap()
}

fn two_spans(subject: &Subject) -> i64 {
    i64::try_from(2 * subject.longest_span()).unwrap()
}

#[tokio::test]
async fn a_step_back_opens_nothing_and_locks_nobody_for_more_than_two_spans() {
    each(async |stepped, subject, limiter, _| {
        let name = subject.name;
        fill(limiter).await;
        for step in [SECOND, 20 * SECOND, HOUR, 5 * HOUR] {
            stepped.step(-step);
            let (admitted, refused) = fill(limiter).await;
            assert_eq!(admitted, 0, "{name}, {step} µs back");
            let wait = micros(refused.retry_after().expect("a wait"));
            assert!(wait <= two_spans(subject), "{name}: {wait} after {step} µs");
            let reset = micros(refused.reset_after());
            let is_short = reset <= two_spans(subject);
            assert!(is_short, "{name}: {reset} after {step} µs");
        }
        // What is announced after a step is true: refused until shortly before the end (as a slow
        // machine may be late), and admitted at the end.
        let refused = check(limiter).await;
        let wait = micros(refused.retry_after().expect("a wait"));
        let (slack, now) = (15 * SECOND, stepped.now().await);
        if wait > slack {
            stepped.set(now + wait - slack).await;
            assert!(!check(limiter).await.is_admitted(), "{name}: before {wait}");
        }
        stepped.set(now + wait).await;
        assert!(check(limiter).await.is_admitted(), "{name}: after {wait}");
    })
    .await;
}

#[tokio::test]
async fn a_short_limit_is_locked_for_no_more_than_two_recoveries_a_sixty_fourth_and_a_second() {
    let stepped = SteppedServer::start().await;
    let store = patient(stepped.server().client().await).build();
    let rule = TokenBucket::new(Quota::per_second(20)).burst(1);
    let (limiter, recovery) = (RateLimiter::new(rule, store), SECOND / 20);
    let mut longest = 0;
    for step in [
        SECOND / 10,
        SECOND / 2,
        SECOND * 9 / 10,
        SECOND,
        2 * SECOND,
        HOUR,
    ] {
        assert!(limiter.check(&step).await.unwrap().is_admitted());
        stepped.step(-step);
        let decision = limiter.check(&step).await.unwrap();
        let wait = micros(decision.retry_after().unwrap_or_default());
        assert!(
            wait <= 2 * recovery + recovery / 64 + SECOND,
            "{wait} after {step}"
        );
        longest = wait.max(longest);
    }
    // More than two recoveries alone.
    assert!(longest > SECOND / 2, "{longest}");
}

#[tokio::test]
async fn a_step_forward_is_time_that_has_passed_and_the_one_back_is_not() {
    each(async |stepped, subject, limiter, _| {
        let name = subject.name;
        let (first, _) = fill(limiter).await;
        assert!(first > 0, "{name}");
        for round in 0..5 {
            stepped.step(HOUR);
            let (admitted, _) = fill(limiter).await;
            assert_eq!(admitted, first, "{name}, forward in round {round}");
            stepped.step(-HOUR);
            let (admitted, _) = fill(limiter).await;
            assert_eq!(admitted, 0, "{name}, back in round {round}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_charged_while_the_clock_is_behind_lives_until_it_has_recovered() {
    let stepped = SteppedServer::start().await;
    let store = patient(stepped.server().client().await).build();
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_hour(60)), store);
    let begin = stepped.now().await;
    limiter.debit("bob", 30).await.unwrap();
    stepped.set(begin - 1_500 * SECOND).await;
    limiter.debit("bob", 30).await.unwrap();
    // An hour after the second charge by the clock that is behind, and a sixty-fourth and a second.
    stepped.set(begin + 2_200 * SECOND).await;
    let mut admitted = 0;
    while limiter.check("bob").await.unwrap().is_admitted() {
        admitted += 1;
    }
    // What was paid off in 2 200 s, and what a slow machine takes.
    assert!((36..=38).contains(&admitted), "{admitted}");
}

#[tokio::test]
async fn steps_back_to_a_windows_edge_open_no_more_than_one_edge_does() {
    each(async |stepped, subject, limiter, begin| {
        let (mut admitted, _) = fill(limiter).await;
        for round in 1..=6 {
            let edge = begin - BETWEEN_EDGES - round * HOUR;
            stepped.set(edge - SECOND / 20).await;
            admitted += fill(limiter).await.0;
            while stepped.now().await <= edge {}
            admitted += fill(limiter).await.0;
        }
        for model in &subject.models {
            let most = most_at_one_edge(&**model);
            assert!(admitted <= most, "{}: {admitted}, {most}", subject.name);
        }
    })
    .await;
}

/// On the limiter's own clock, which never steps back, almost no time has passed, and at most one
/// edge.
fn most_at_one_edge(model: &dyn Model) -> i64 {
    let bound = model.bound(1);
    let in_no_time = match bound.counts {
        // Twice the limit if windows have edges; else the rest is what refills or is released in a
        // span.
        Counts::Units if bound.most == 2 * model.limit() => bound.most,
        Counts::Units | Counts::Requests | Counts::Releases => model.limit(),
    };
    i64::try_from(in_no_time).unwrap()
}
