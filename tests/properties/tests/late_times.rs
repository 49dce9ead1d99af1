//! A thread that waits for a lock brings no earlier time than those that went before it.

use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tollgate::{
    EachOf, Hold, Quota, RateLimiter, Timestamp,
    algorithm::*,
    clock::{Clock, ManualClock, SystemClock},
    store::LocalStore,
};
use tollgate_algorithms::{for_every_additive, for_every_algorithm};

const UNITS: u64 = 5;
const PERIOD: Duration = Duration::from_millis(1);
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

thread_local! {
    static IS_LATE: Cell<bool> = const { Cell::new(false) };
}

/// A clock whose late reader waits between reading the time and going on, until the others are
/// done, or for a while if it has the lock that they wait for.
#[derive(Clone)]
struct LateClock {
    time: ManualClock,
    has_read: Arc<AtomicBool>,
    others_are_done: Arc<AtomicBool>,
}

impl LateClock {
    fn new() -> Self {
        Self {
            time: ManualClock::at(START),
            has_read: Arc::default(),
            others_are_done: Arc::default(),
        }
    }
}

impl Clock for LateClock {
    fn now(&self) -> Timestamp {
        let now = self.time.now();
        if IS_LATE.get() {
            self.has_read.store(true, Ordering::SeqCst);
            let begun = Instant::now();
            while !self.others_are_done.load(Ordering::SeqCst)
                && begun.elapsed() < Duration::from_millis(20)
            {
                thread::yield_now();
            }
        }
        now
    }
}

/// Takes all there is of a bucket ten thousand periods after a late thread has read the clock, and
/// panics if there is more once the late thread has asked.
fn assert_nothing_opens(name: &str, clock: &LateClock, is_admitted: impl Fn() -> bool + Sync) {
    let take_all = || (0..100).filter(|_| is_admitted()).count();
    thread::scope(|scope| {
        scope.spawn(|| {
            IS_LATE.set(true);
            is_admitted();
        });
        while !clock.has_read.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        clock.time.advance(10_000 * PERIOD);
        assert_ne!(take_all(), 0, "{name}");
        clock.others_are_done.store(true, Ordering::SeqCst);
    });
    assert_eq!(take_all(), 0, "{name}");
}

macro_rules! limiter {
    ($limit:expr, $clock:expr, $max_keys:expr) => {{
        let store = LocalStore::builder().clock($clock.clone());
        RateLimiter::new($limit, store.max_keys($max_keys).build())
    }};
}

#[test]
fn a_thread_that_comes_late_opens_no_limit() {
    fn check<A: KeyLimit>(name: &str, algorithm: A) {
        // Known, so that it has an entry.
        let clock = LateClock::new();
        let limiter = limiter!(algorithm.clone(), clock, 10);
        assert!(limiter.check(&7).now().is_admitted());
        assert_nothing_opens(name, &clock, || limiter.check(&7).now().is_admitted());

        // Beside another limit, with keys of its own.
        let clock = LateClock::new();
        let other = FixedWindow::new(Quota::per_day(1_000));
        let limiter = limiter!(EachOf((algorithm, other)), clock, 10);
        let keys = EachOf((Some(7), Some("seven".to_owned())));
        assert!(limiter.check(&keys).now().is_admitted());
        assert_nothing_opens(name, &clock, || limiter.check(&keys).now().is_admitted());
    }
    let quota = Quota::new(UNITS, PERIOD);
    let [precision, interval] = [PERIOD / 10, PERIOD / 5];
    for_every_algorithm!(quota, UNITS, precision, interval, |name, rule| check(
        name, rule
    ));
}

#[test]
fn a_thread_that_comes_late_opens_no_bucket_that_new_keys_share() {
    let clock = LateClock::new();
    let limiter = limiter!(TokenBucket::new(Quota::new(UNITS, PERIOD)), clock, 1);
    // It has the only entry, for longer than the test goes on.
    limiter.debit(&0_u64, u32::MAX).now();
    let newcomers = AtomicU64::new(1);
    let newcomer = || newcomers.fetch_add(1, Ordering::Relaxed);
    assert!(limiter.check(&newcomer()).now().is_admitted());
    let is_admitted = || limiter.check(&newcomer()).now().is_admitted();
    assert_nothing_opens("overflow bucket", &clock, is_admitted);
}

#[test]
fn a_thread_that_comes_late_frees_nothing_that_is_held() {
    fn check<A: Additive>(name: &str, algorithm: A) {
        let clock = LateClock::new();
        let limit = Settled::new(algorithm).held_at_most(PERIOD);
        let limiter = limiter!(limit, clock, 10);
        let hold_and_settle = || match limiter.hold(&7, 1).now() {
            Ok(hold) => {
                hold.settle(1);
                true
            }
            Err(_) => false,
        };
        assert!(hold_and_settle());
        assert_nothing_opens(name, &clock, hold_and_settle);
    }
    let (quota, precision) = (Quota::new(UNITS, PERIOD), PERIOD / 10);
    for_every_additive!(quota, UNITS, precision, |name, rule| check(name, rule));
}

/// As of a clock of one's own, at the edge of a window.
#[test]
fn units_that_are_settled_before_they_were_held_are_charged_when_they_were_held() {
    fn check<A: Additive>(name: &str, algorithm: A) {
        let held_at = START.saturating_add(PERIOD + PERIOD / 60);
        let left_later = |settled_at| {
            let clock = ManualClock::at(START);
            let limiter = limiter!(Settled::new(algorithm.clone()), clock, 10);
            let first = limiter.hold(&7, 1).now().unwrap();
            clock.set(held_at);
            let others = limiter.hold(&7, UNITS as u32 - 1).now().unwrap();
            clock.set(settled_at);
            first.settle(1);
            others.settle(UNITS as u32 - 1);
            let wait = limiter.check(&7).now().retry_after().unwrap();
            clock.set(settled_at.saturating_add(wait));
            assert!(limiter.peek(&7).now().is_admitted(), "{name}");
            [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40].map(|step| {
                clock.set(held_at.saturating_add(step * PERIOD / 20));
                limiter.peek(&7).now().remaining()
            })
        };
        let settled_before = left_later(START.saturating_add(PERIOD - PERIOD / 60));
        assert_eq!(settled_before, left_later(held_at), "{name}");
    }
    let (quota, precision) = (Quota::new(UNITS, PERIOD), PERIOD / 10);
    for_every_additive!(quota, UNITS, precision, |name, rule| check(name, rule));
}

/// Eight threads, which are more than the cores, so that most of them wait. Of the holds of each a
/// third is left until its time is up, and then settled with nothing.
#[test]
fn threads_on_the_clock_of_the_machine_get_no_more_than_one_would() {
    const HELD: Duration = Duration::from_millis(2);
    type Limiter<A> = RateLimiter<A, LocalStore<A, u64, SystemClock>>;
    fn threads<A: KeyLimit, T: Default>(
        (name, algorithm): (&str, A),
        take: impl Fn(&Limiter<A>, &mut T) -> bool + Sync,
        most: impl Fn(u64) -> u64,
    ) {
        let limiter = RateLimiter::new(algorithm, LocalStore::new());
        // The bound holds on the limiter's own clock, which need not run as fast as another one.
        let clock = SystemClock::new();
        let micros = || clock.now().as_micros();
        let (admitted, begun) = (AtomicU64::new(0), micros());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut kept = T::default();
                    while micros() < begun + 400_000 {
                        let is_admitted = take(&limiter, &mut kept);
                        admitted.fetch_add(is_admitted.into(), Ordering::Relaxed);
                    }
                });
            }
        });
        let (admitted, most) = (admitted.into_inner(), most(micros() - begun));
        assert!(admitted <= most, "{name}: {admitted} of {most}");
    }
    fn check<A: KeyLimit>(name: &str, algorithm: A, most: impl Fn(u64) -> u64) {
        let take = |limiter: &Limiter<A>, _: &mut ()| limiter.check(&7).now().is_admitted();
        threads((name, algorithm), take, most);
    }
    fn check_both<A: Additive>(name: &str, algorithm: A, most: impl Fn(u64) -> u64) {
        check(name, algorithm.clone(), &most);
        let settled = Settled::new(algorithm).held_at_most(HELD);
        let take = |limiter: &Limiter<Settled<A>>, (turn, kept): &mut (u8, VecDeque<_>)| {
            let is_gone = |kept: &(Instant, Hold)| kept.0.elapsed() > 2 * HELD;
            if kept.front().is_some_and(is_gone)
                && let Some((_, late)) = kept.pop_front()
            {
                late.settle(0);
            }
            let Ok(hold) = limiter.hold(&7, 1).now() else {
                return false;
            };
            *turn = (*turn + 1) % 3;
            match turn {
                0 => drop(hold.settle(0)),
                1 => drop(hold),
                _ => kept.push_back((Instant::now(), hold)),
            }
            *turn != 0
        };
        threads((&format!("{name} with holds"), settled), take, most);
    }
    let ten_in = |millis| Quota::new(10, Duration::from_millis(millis));
    let bucket = TokenBucket::new(Quota::per_second(1_000)).burst(20);
    check_both("token bucket", bucket, |micros| 20 + micros / 1_000);
    check_both("fixed window", FixedWindow::new(ten_in(10)), |micros| {
        10 * (2 + micros / 10_000)
    });
    check_both("sliding log", SlidingLog::new(ten_in(100)), |micros| {
        10 * (1 + micros / 100_000)
    });
    check_both(
        "sliding window",
        SlidingWindow::new(ten_in(100)),
        |micros| 19 * (1 + micros / 100_000),
    );
    let interval = MinInterval::new(Duration::from_millis(5));
    check("min interval", interval, |micros| 1 + micros / 5_000);
}
