//! Threads in any number never get more than one of them would, of one key or of several at once.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::at_once::at_once;
use crate::at_one_instant::let_through_at_one_instant;
use crate::in_time::in_time;
use crate::local::{Limiter, admits, store};
use crate::ready::ready;
use tollgate::{
    Decision, EachOf, Quota, RateLimiter, algorithm::*, clock::ManualClock, store::LocalStore,
};
use tollgate_algorithms::for_every_algorithm;

const THREADS: u64 = 8;
const LIMIT: u64 = 100;
const PERIOD: Duration = Duration::from_secs(100);

/// Calls a test's own `run` with each algorithm, and with what it lets through at one instant.
macro_rules! run_every_algorithm {
    () => {
        let (quota, burst, precision) = (Quota::new(LIMIT, PERIOD), 40, PERIOD / 10);
        let interval = Duration::from_secs(1);
        for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
            run(name, let_through_at_one_instant(&rule), rule)
        });
        let (window, log) = (FixedWindow::new(quota), SlidingLog::new(quota));
        run("a pair", 1, (Gcra::new(quota), MinInterval::new(interval)));
        run(
            "a triple",
            burst,
            (window, log, TokenBucket::new(quota).burst(burst)),
        );
    };
}

/// What one key was granted at each of the instants, while every second thread brought new keys.
fn granted_amid_newcomers<A: KeyLimit>(limiter: &Limiter<A, u64>, clock: &ManualClock) -> Vec<u64> {
    const ROUNDS: u64 = 48;
    const NEWCOMERS: u64 = 200;
    (0..ROUNDS)
        .map(|round| {
            let admitted = AtomicU64::new(0);
            at_once(THREADS, |thread| {
                // Each thread with a clone of its own, as each connection has one.
                let limiter = limiter.clone();
                if thread % 2 == 0 {
                    for _ in 0..LIMIT {
                        admitted.fetch_add(admits(&limiter, &0).into(), Ordering::Relaxed);
                    }
                    return;
                }
                for n in 0..NEWCOMERS {
                    admits(&limiter, &(1 + n + NEWCOMERS * (thread + THREADS * round)));
                }
            });
            clock.advance(PERIOD / 16);
            admitted.into_inner()
        })
        .collect()
}

/// What a key is granted at the same instants when it is alone and comes with one thread.
fn granted_alone<A: KeyLimit>(algorithm: A) -> Vec<u64> {
    let (store, clock) = store(10);
    let limiter = RateLimiter::new(algorithm, store);
    let mut granted = Vec::new();
    for _ in 0..48 {
        granted.push((0..4 * LIMIT).filter(|_| admits(&limiter, &0)).count() as u64);
        clock.advance(PERIOD / 16);
    }
    granted
}

#[test]
fn a_key_gets_exactly_its_due_while_idle_keys_leave_around_it() {
    fn run<A: KeyLimit>(name: &str, _: u64, algorithm: A) {
        let (store, clock) = store(100_000);
        let limiter = RateLimiter::new(algorithm.clone(), store);
        let granted = granted_amid_newcomers(&limiter, &clock);
        assert_eq!(granted, granted_alone(algorithm), "{name}");
    }
    run_every_algorithm!();
}

#[test]
fn a_key_never_gets_more_than_its_due_in_a_store_that_is_full() {
    fn run<A: KeyLimit>(name: &str, _: u64, algorithm: A) {
        let (store, clock) = store(300);
        let limiter = RateLimiter::new(algorithm.clone(), store.clone());
        let granted = granted_amid_newcomers(&limiter, &clock);
        let was_full = store.usage().overflow_decisions > 0;
        assert!(was_full, "{name} was never full");
        assert!(store.usage().keys <= 300);
        let (mut so_far, mut due) = (0, 0);
        for (granted, alone) in granted.iter().zip(granted_alone(algorithm)) {
            (so_far, due) = (so_far + granted, due + alone);
            assert!(so_far <= due, "{name}: {so_far} of {due}");
        }
    }
    run_every_algorithm!();
}

type Pair = EachOf<(Option<u64>, Option<u64>)>;
type PairStore<A> = LocalStore<EachOf<(A, A)>, Pair, ManualClock>;

/// Limits who sends and who receives: a bucket for each, although the numbers are the same.
struct Transfers<A: KeyLimit>(RateLimiter<EachOf<(A, A)>, PairStore<A>>);

impl<A: KeyLimit> Transfers<A> {
    fn new(algorithm: A) -> Self {
        let limits = EachOf((algorithm.clone(), algorithm));
        Self(RateLimiter::new(limits, store(100).0))
    }

    fn admits(&self, from: u64, to: u64) -> bool {
        let pair = EachOf((Some(from), Some(to)));
        ready(self.0.check(&pair)).unwrap().is_admitted()
    }

    fn peek(&self, from: Option<u64>, to: Option<u64>) -> Decision {
        ready(self.0.peek(&EachOf((from, to)))).unwrap()
    }
}

const PEOPLE: u64 = 6;

/// How often each was admitted as the one who sends, and as the one who receives.
#[derive(Default)]
struct Counts {
    sent: [AtomicU64; PEOPLE as usize],
    received: [AtomicU64; PEOPLE as usize],
}

/// All threads send from everybody to everybody, half of them the other way round.
fn everybody_to_everybody<A: KeyLimit>(transfers: &Transfers<A>, rounds: u64) -> Counts {
    let counts = Counts::default();
    at_once(THREADS, |thread| {
        for n in 0..rounds * PEOPLE * PEOPLE {
            let n = n + thread * 7;
            let (mut from, mut to) = (n % PEOPLE, n / PEOPLE % PEOPLE);
            if thread % 2 == 1 {
                (from, to) = (to, from);
            }
            if transfers.admits(from, to) {
                for (counts, key) in [(&counts.sent, from), (&counts.received, to)] {
                    counts[key as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    counts
}

#[test]
fn eight_threads_on_overlapping_pairs_of_keys_charge_each_exactly_what_was_admitted() {
    fn run<A: KeyLimit>(name: &str, limit: u64, algorithm: A) {
        let transfers = Transfers::new(algorithm);
        let counts = everybody_to_everybody(&transfers, 2 * limit.max(20));
        let count = |of: &[AtomicU64], key| of[key as usize].load(Ordering::Relaxed);
        for from in 0..PEOPLE {
            let (sent, left) = (count(&counts.sent, from), transfers.peek(Some(from), None));
            assert_eq!(left.remaining(), limit - sent, "{name}: {from} sent {sent}");
            let received = count(&counts.received, from);
            let left = transfers.peek(None, Some(from)).remaining();
            assert_eq!(left, limit - received, "{name}: {from} received {received}");
            for to in 0..PEOPLE {
                let used_up = sent == limit || count(&counts.received, to) == limit;
                assert!(used_up, "{name}: {from} to {to} has room left");
            }
        }
    }
    in_time(|| {
        run_every_algorithm!();
    });
}

#[test]
fn nobody_sees_one_of_two_keys_charged_and_the_other_not() {
    in_time(|| {
        let transfers = Transfers::new(TokenBucket::new(Quota::new(100_000, PERIOD)));
        let is_over = AtomicBool::new(false);
        at_once(THREADS, |thread| match thread {
            0 => {
                for _ in 0..100_000 {
                    transfers.admits(1, 2);
                }
                is_over.store(true, Ordering::Relaxed);
            }
            _ => {
                while !is_over.load(Ordering::Relaxed) {
                    let seen = transfers.peek(Some(1), Some(2));
                    let [one, other] = seen.policies() else {
                        panic!("two keys: {seen:?}");
                    };
                    assert_eq!(one.remaining(), other.remaining());
                }
            }
        });
    });
}
