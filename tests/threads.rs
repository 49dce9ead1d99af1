//! Threads in any number never get more than one of them would.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use tollgate::{
    Quota, RateLimiter, Timestamp,
    algorithm::{
        Algorithm, FixedWindow, Gcra, LeakyBucket, MinInterval, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
    clock::ManualClock,
    store::LocalStore,
};

const THREADS: u64 = 8;
const LIMIT: u64 = 100;
const PERIOD: Duration = Duration::from_secs(100);
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// One body for every algorithm.
trait Body {
    /// `limit` is what the algorithm lets through at one instant.
    fn run<A: Algorithm>(&self, name: &str, limit: u64, algorithm: A);
}

fn for_every_algorithm(body: &impl Body) {
    let quota = Quota::new(LIMIT, PERIOD);
    let interval = MinInterval::new(Duration::from_secs(1));
    body.run("TokenBucket", LIMIT, TokenBucket::new(quota));
    body.run(
        "TokenBucket with a burst",
        40,
        TokenBucket::new(quota).burst(40),
    );
    body.run("LeakyBucket", LIMIT, LeakyBucket::new(quota));
    body.run("LeakyBucketQueue", LIMIT, LeakyBucket::new(quota).queue());
    body.run("Gcra", LIMIT, Gcra::new(quota));
    body.run("FixedWindow", LIMIT, FixedWindow::new(quota));
    body.run(
        "FixedWindow from the first request",
        LIMIT,
        FixedWindow::new(quota).from_first_request(),
    );
    body.run("SlidingLog", LIMIT, SlidingLog::new(quota));
    body.run("SlidingWindow", LIMIT, SlidingWindow::new(quota));
    body.run(
        "SlidingBuckets",
        LIMIT,
        SlidingBuckets::new(quota, PERIOD / 10),
    );
    body.run(
        "SlidingBuckets, strict",
        LIMIT,
        SlidingBuckets::new(quota, PERIOD / 10).strict(),
    );
    body.run("MinInterval", 1, interval.clone());
    body.run("a pair", 1, (Gcra::new(quota), interval));
    body.run(
        "a triple",
        40,
        (
            FixedWindow::new(quota),
            SlidingLog::new(quota),
            TokenBucket::new(quota).burst(40),
        ),
    );
}

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a store in memory is never pending"),
    }
}

fn admits<A: Algorithm>(limiter: &Limiter<A>, key: u64) -> bool {
    ready(limiter.check(&key)).unwrap().is_admitted()
}

type Limiter<A> = RateLimiter<A, LocalStore<A, u64, ManualClock>>;

fn limiter<A: Algorithm>(algorithm: A, clock: &ManualClock, max_keys: usize) -> Limiter<A> {
    let store = LocalStore::builder()
        .clock(clock.clone())
        .max_keys(max_keys);
    RateLimiter::new(algorithm, store.build())
}

/// Runs it on each of the threads at once, with its number.
fn at_once(body: impl Fn(u64) + Sync) {
    let start = Barrier::new(usize::try_from(THREADS).unwrap());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (start, body) = (&start, &body);
            scope.spawn(move || {
                start.wait();
                body(number);
            });
        }
    });
}

#[test]
fn eight_threads_on_one_key_get_exactly_the_limit() {
    struct OneKey;
    impl Body for OneKey {
        fn run<A: Algorithm>(&self, name: &str, limit: u64, algorithm: A) {
            let limiter = limiter(algorithm, &ManualClock::at(START), 1_000_000);
            let admitted = AtomicU64::new(0);
            at_once(|_| {
                // Each thread with a clone of its own, as each connection has one.
                let limiter = limiter.clone();
                for _ in 0..5_000 {
                    admitted.fetch_add(admits(&limiter, 7).into(), Ordering::Relaxed);
                }
            });
            assert_eq!(admitted.into_inner(), limit, "{name}");
        }
    }
    for_every_algorithm(&OneKey);
}

#[test]
fn eight_threads_on_a_hundred_thousand_keys_get_the_limit_of_each() {
    struct ManyKeys;
    impl Body for ManyKeys {
        fn run<A: Algorithm>(&self, name: &str, limit: u64, algorithm: A) {
            const KEYS: u64 = 100_000;
            // Some of the eight fit, and not all.
            let cost = u32::try_from(limit.div_ceil(3)).unwrap();
            let expected = limit / u64::from(cost);
            let limiter = limiter(algorithm, &ManualClock::at(START), 1_000_000);
            let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
            at_once(|thread| {
                for n in 0..KEYS {
                    // Each thread goes round from another key.
                    let key = (n + thread * KEYS / THREADS) % KEYS;
                    let decision = ready(limiter.check_cost(&key, cost)).unwrap();
                    let admitted = &admitted[usize::try_from(key).unwrap()];
                    admitted.fetch_add(decision.is_admitted().into(), Ordering::Relaxed);
                }
            });
            for (key, admitted) in admitted.into_iter().enumerate() {
                assert_eq!(admitted.into_inner(), expected, "{name}, key {key}");
            }
        }
    }
    for_every_algorithm(&ManyKeys);
}

/// What one key was granted at each of the instants, while every second thread brought new keys.
fn granted_amid_newcomers<A: Algorithm>(limiter: &Limiter<A>, clock: &ManualClock) -> Vec<u64> {
    const ROUNDS: u64 = 48;
    const NEWCOMERS: u64 = 200;
    (0..ROUNDS)
        .map(|round| {
            let admitted = AtomicU64::new(0);
            at_once(|thread| match thread % 2 {
                0 => {
                    for _ in 0..LIMIT {
                        admitted.fetch_add(admits(limiter, 0).into(), Ordering::Relaxed);
                    }
                }
                _ => {
                    for n in 0..NEWCOMERS {
                        admits(limiter, 1 + n + NEWCOMERS * (thread + THREADS * round));
                    }
                }
            });
            clock.advance(PERIOD / 16);
            admitted.into_inner()
        })
        .collect()
}

/// What a key is granted at the same instants when it is alone and comes with one thread.
fn granted_alone<A: Algorithm>(algorithm: A) -> Vec<u64> {
    let clock = ManualClock::at(START);
    let limiter = limiter(algorithm, &clock, 10);
    let mut granted = Vec::new();
    for _ in 0..48 {
        granted.push((0..4 * LIMIT).filter(|_| admits(&limiter, 0)).count() as u64);
        clock.advance(PERIOD / 16);
    }
    granted
}

#[test]
fn a_key_gets_exactly_its_due_while_idle_keys_leave_around_it() {
    struct Leaving;
    impl Body for Leaving {
        fn run<A: Algorithm>(&self, name: &str, _limit: u64, algorithm: A) {
            let clock = ManualClock::at(START);
            let limiter = limiter(algorithm.clone(), &clock, 100_000);
            let granted = granted_amid_newcomers(&limiter, &clock);
            assert_eq!(granted, granted_alone(algorithm), "{name}");
        }
    }
    for_every_algorithm(&Leaving);
}

#[test]
fn a_key_never_gets_more_than_its_due_in_a_store_that_is_full() {
    struct Full;
    impl Body for Full {
        fn run<A: Algorithm>(&self, name: &str, _limit: u64, algorithm: A) {
            let clock = ManualClock::at(START);
            let store = LocalStore::builder()
                .clock(clock.clone())
                .max_keys(300)
                .build();
            let limiter = RateLimiter::new(algorithm.clone(), store.clone());
            let granted = granted_amid_newcomers(&limiter, &clock);
            assert!(
                store.usage().overflow_decisions > 0,
                "{name} was never full"
            );
            assert!(store.usage().keys <= 300);
            let (mut so_far, mut due) = (0, 0);
            for (round, (granted, alone)) in
                granted.iter().zip(granted_alone(algorithm)).enumerate()
            {
                so_far += granted;
                due += alone;
                assert!(so_far <= due, "{name}: {so_far} of {due} by round {round}");
            }
        }
    }
    for_every_algorithm(&Full);
}

#[test]
fn a_clock_that_runs_meanwhile_lets_no_thread_through_twice() {
    const STEPS: u64 = 1_000;
    let clock = ManualClock::at(START);
    let limiter = limiter(TokenBucket::new(Quota::new(LIMIT, PERIOD)), &clock, 64);
    let admitted = AtomicU64::new(0);
    at_once(|thread| match thread {
        0 => {
            for _ in 0..STEPS {
                clock.advance(PERIOD / 1_000);
                thread::yield_now();
            }
        }
        1 => {
            for key in 1..=50_000 {
                admits(&limiter, key);
            }
        }
        _ => {
            for _ in 0..20_000 {
                admitted.fetch_add(admits(&limiter, 0).into(), Ordering::Relaxed);
            }
        }
    });
    // A burst, and what one period refills.
    assert!(admitted.into_inner() <= 2 * LIMIT);
}
