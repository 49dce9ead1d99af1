//! What the observer of a limiter sees: each call that charges or would have, once, and how it
//! ended.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use crate::ready::ready;
use crate::seen::{Seen, panics, panics_at};
use crate::stores::over_every_store;
use crate::support::{Remote, broken, by_hand, daily};
use crate::tokio_time::{is_due, millis, store, ten_a_second};
use futures_util::FutureExt;
use tokio::time::{Instant, sleep, timeout};
use tollgate::{
    Quota, RateLimiter, StoreErrorKind,
    algorithm::*,
    observe::{Event, Observe, Outcome},
    store::{LocalStore, Store},
};
use tollgate_algorithms::for_every_algorithm;

/// What is told of each call, as it was answered.
type Outcomes = (Outcome, Option<String>);

async fn is_told_once_as_it_is_answered<A, S>(name: &str, algorithm: A, store: S)
where
    A: KeyLimit,
    S: Store<A, u64>,
{
    let seen: Arc<Mutex<Vec<Outcomes>>> = Arc::default();
    let told = Arc::clone(&seen);
    let limiter = RateLimiter::new(algorithm, store).observe(move |event: &Event<'_, u64>| {
        assert_eq!((event.key(), event.cost()), (Some(&7), 1));
        assert_eq!(event.passes(), event.outcome() != Outcome::Refused);
        let decision = event.decision().map(|decision| format!("{decision:?}"));
        told.lock().unwrap().push((event.outcome(), decision));
    });
    let taken = || std::mem::take(&mut *seen.lock().unwrap());
    let mut refused = 0;
    for _ in 0..12 {
        let decision = limiter.check(&7).await.unwrap();
        let outcome = match decision.is_admitted() {
            true => Outcome::Admitted,
            false => Outcome::Refused,
        };
        refused += usize::from(!decision.is_admitted());
        let told = (outcome, Some(format!("{decision:?}")));
        assert_eq!(taken(), [told], "{name}");
    }
    assert!((1..12).contains(&refused), "{name}: {refused}");

    limiter.peek(&7).await.unwrap();
    limiter.refund(&7, 1).await.unwrap();
    limiter.reset(&7).await.unwrap();
    assert_eq!(taken(), [], "{name}");

    let hold = limiter.hold(&7, 1).await.unwrap().expect("as good as new");
    let decision = format!("{:?}", hold.decision());
    assert_eq!(taken(), [(Outcome::Admitted, Some(decision))], "{name}");
    hold.settle(1).await.unwrap();
    assert_eq!(taken(), [], "{name}");

    limiter.debit(&7, 1).await.unwrap();
    assert_eq!(taken(), [(Outcome::Debited, None)], "{name}");
}

#[tokio::test]
async fn each_call_of_every_algorithm_is_told_once_as_it_is_answered() {
    let period = Duration::from_secs(100);
    let (quota, burst, precision) = (Quota::new(6, period), 4, period / 10);
    let interval = Duration::from_secs(1);
    for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
        over_every_store!(by_hand().1, |store| {
            is_told_once_as_it_is_answered(name, rule.clone(), store).await
        });
    });
    let pair = || (Gcra::new(quota), MinInterval::new(interval));
    is_told_once_as_it_is_answered("a pair", pair(), by_hand().1).await;
    is_told_once_as_it_is_answered("settled", Gcra::new(quota).settled(), by_hand().1).await;
}

#[test]
fn a_call_that_is_dropped_before_its_answer_is_not_told() {
    let seen = Seen::default();
    let near = RateLimiter::new(daily(3), by_hand().1).observe(seen.clone());
    drop(near.check("bob"));
    drop(near.hold("bob", 1));
    let far = RateLimiter::new(daily(3), Remote(by_hand().1)).observe(seen.clone());
    assert!(far.check("bob").now_or_never().is_none());
    seen.is(&[]);
}

#[tokio::test]
async fn a_store_that_cannot_decide_is_told_with_its_error() {
    use StoreErrorKind::{InvalidInput, Misconfigured, Unavailable};

    for kind in [Unavailable, Misconfigured, InvalidInput] {
        let seen = Seen::default();
        let limiter = RateLimiter::new(daily(1), broken(kind)).observe(seen.clone());
        assert_eq!(limiter.check("bob").await.unwrap_err().kind(), kind);
        assert_eq!(limiter.hold("bob", 2).await.unwrap_err().kind(), kind);
        assert_eq!(limiter.debit("bob", 3).await.unwrap_err().kind(), kind);
        let never_ready = limiter.until_ready("bob", 4).await;
        assert_eq!(never_ready.unwrap_err().kind(), kind);
        let line = |cost| format!(r#"store_error "bob" cost {cost} {kind:?}, answered"#);
        assert_eq!(seen.taken(), [1, 2, 3, 4].map(line));
        limiter.peek("bob").await.unwrap_err();
        limiter.refund("bob", 1).await.unwrap_err();
        limiter.reset("bob").await.unwrap_err();
        seen.is(&[]);
    }
}

/// Writes down the outcome, and how long was waited, with the time at which it was told.
#[derive(Clone)]
struct Waits(Instant, Arc<Mutex<Vec<Wait>>>);

type Wait = (Outcome, Option<Duration>, Duration);

impl Waits {
    fn new() -> Self {
        Self(Instant::now(), Arc::default())
    }

    /// Each was told at this millisecond, and had waited so many.
    fn are(&self, expected: &[(Outcome, Option<u64>, u64)]) {
        let told = std::mem::take(&mut *self.1.lock().unwrap());
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for ((outcome, waited, at), (of, due, told_at)) in told.iter().zip(expected) {
            assert_eq!((outcome, waited.is_some()), (of, due.is_some()), "{told:?}");
            let has_waited = due.is_none_or(|due| is_due(waited.unwrap(), due));
            assert!(has_waited && is_due(*at, *told_at), "{told:?}");
        }
    }
}

impl<K> Observe<K> for Waits {
    fn observe(&self, event: &Event<'_, K>) {
        let told = (event.outcome(), event.waited(), self.0.elapsed());
        self.1.lock().unwrap().push(told);
    }
}

async fn who_waits_is_told_at_its_turn_with_how_long<A, S>(algorithm: A, store: S)
where
    A: KeyLimit,
    S: Store<A, String>,
{
    let waits = Waits::new();
    let limiter = RateLimiter::new(algorithm, store).observe(waits.clone());
    let one = async || limiter.until_ready("bob", 1).await.unwrap();
    tokio::join!(one(), one(), one());
    waits.are(&[
        (Outcome::Admitted, None, 0),
        (Outcome::Admitted, Some(100), 100),
        (Outcome::Admitted, Some(200), 200),
    ]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_until_it_is_ready_is_told_once_at_its_turn_with_how_long() {
    let quota = Quota::per_second(10);
    over_every_store!(store(), |store| {
        let one_at_a_time = Gcra::new(quota).burst(1);
        who_waits_is_told_at_its_turn_with_how_long(one_at_a_time, store).await
    });
    over_every_store!(store(), |store| {
        // It is admitted at once, and delayed.
        let queue = LeakyBucket::new(quota).capacity(3).queue();
        who_waits_is_told_at_its_turn_with_how_long(queue, store).await
    });
    who_waits_is_told_at_its_turn_with_how_long(ten_a_second(1, millis(500)), store()).await;
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_is_not_told_and_who_can_never_be_ready_is_refused() {
    let waits = Waits::new();
    let one_at_a_time = Gcra::new(Quota::per_second(10)).burst(1);
    let limiter = RateLimiter::new(one_at_a_time, store()).observe(waits.clone());
    limiter.until_ready("bob", 1).await.unwrap();
    let given_up = timeout(millis(50), limiter.until_ready("bob", 1));
    assert!(given_up.await.is_err());
    let queue = LeakyBucket::new(Quota::per_second(10)).capacity(3).queue();
    let limiter_of_turns = RateLimiter::new(queue, store()).observe(waits.clone());
    limiter_of_turns.until_ready("bob", 1).await.unwrap();
    let given_up = timeout(millis(50), limiter_of_turns.until_ready("bob", 1));
    assert!(given_up.await.is_err());
    waits.are(&[(Outcome::Admitted, None, 0), (Outcome::Admitted, None, 50)]);

    let seen = Seen::default();
    let limiter = limiter.observe(seen.clone());
    let never = limiter.until_ready("bob", 2).await.unwrap_err();
    assert_eq!(never.kind(), StoreErrorKind::InvalidInput);
    let [line] = &seen.taken()[..] else {
        panic!("one line")
    };
    assert!(line.starts_with(r#"refused "bob" cost 2"#), "{line}");
    assert!(line.ends_with("answered"), "{line}");
}

#[test]
fn an_observer_that_panics_unwinds_into_its_call_and_the_charge_stays() {
    let limiter = RateLimiter::<_, LocalStore<_, String, _>>::new(daily(2), by_hand().1);
    let observed = limiter.clone().observe(panics_at(Outcome::Admitted));
    assert!(panics(|| observed.check("bob").now()));
    assert_eq!(limiter.peek("bob").now().remaining(), 1);
    assert!(panics(|| ready(observed.check("bob"))));
    assert_eq!(limiter.peek("bob").now().remaining(), 0);
    // Others go on, and a refusal is no panic here.
    assert!(!observed.check("bob").now().is_admitted());
    assert!(limiter.check("alice").now().is_admitted());

    let observed = limiter.clone().observe(panics_at(Outcome::Refused));
    assert!(panics(|| observed.check("bob").now()));
    assert_eq!(limiter.peek("alice").now().remaining(), 1);
    assert!(limiter.check("alice").now().is_admitted());
}

#[test]
fn an_observer_that_panics_ends_what_is_held_as_if_the_hold_were_dropped() {
    let limiter = RateLimiter::<_, LocalStore<_, String, _>>::new(InFlight::new(2), by_hand().1);
    let observed = limiter.clone().observe(panics_at(Outcome::Admitted));
    for _ in 0..3 {
        assert!(panics(|| observed.hold("bob", 1).now()));
        assert!(panics(|| ready(observed.hold("bob", 1))));
        assert_eq!(limiter.peek("bob").now().remaining(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_or_asks_the_limiter_itself_stops_nobody_who_waits() {
    let limiter = RateLimiter::new(Gcra::new(Quota::per_second(10)).burst(1), store());
    let limiter = Arc::new(limiter);
    let observed = panics_at::<String>(Outcome::Admitted);
    let observed = (*limiter).clone().observe(observed);
    assert!(limiter.check("bob").await.unwrap().is_admitted());
    let first = tokio::spawn(async move { drop(observed.until_ready("bob", 1).await) });
    tokio::task::yield_now().await;
    let start = Instant::now();
    limiter.until_ready("bob", 1).await.unwrap();
    assert!(first.await.unwrap_err().is_panic());
    assert!(is_due(start.elapsed(), 200), "{:?}", start.elapsed());

    let itself = Arc::clone(&limiter);
    let asks = (*limiter).clone().observe(move |_: &Event<'_, String>| {
        assert!(!itself.check("bob").now().is_admitted());
    });
    asks.until_ready("bob", 1).await.unwrap();
    asks.check("bob").await.unwrap();
    sleep(millis(100)).await;
    let hold = asks.hold("bob", 1).await.unwrap();
    assert!(hold.is_ok());
}

#[test]
fn nobody_waits_in_line_behind_a_slow_observer() {
    let limiter = RateLimiter::new(Gcra::new(Quota::per_second(10)).burst(1), LocalStore::new());
    let (next_is_ready, told) = mpsc::channel();
    let told = Mutex::new(told);
    let slow = limiter.clone().observe(move |_: &Event<'_, String>| {
        let next = told.lock().unwrap().recv_timeout(Duration::from_secs(10));
        next.expect("the next in line is admitted meanwhile");
    });
    assert!(limiter.check("bob").now().is_admitted());
    // Each has a runtime of its own: the observer blocks the first one.
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    };
    let first = thread::spawn(move || runtime().block_on(slow.until_ready("bob", 1)));
    thread::sleep(millis(20));
    let second = runtime().block_on(limiter.until_ready("bob", 1));
    assert!(second.unwrap().is_admitted());
    next_is_ready.send(()).unwrap();
    assert!(first.join().unwrap().unwrap().is_admitted());
}
