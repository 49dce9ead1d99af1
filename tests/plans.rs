//! Several numbers under one name: what was used counts on as the same time, or as the same units,
//! and another shape begins anew.

use std::time::Duration;

use crate::ready::ready;
use tollgate::{
    Decision, Quota, RateLimiter, Timestamp, algorithm::*, clock::ManualClock, store::LocalStore,
};
use tollgate_algorithms::every_algorithm;

/// The first microsecond of a day.
const START: Timestamp = Timestamp::from_micros(1_700_006_400_000_000);

type Store<A> = LocalStore<A, u64, ManualClock>;
type Limiter<A> = RateLimiter<A, Store<A>>;

fn store<A: KeyLimit>(clock: &ManualClock) -> Store<A> {
    LocalStore::builder()
        .clock(clock.clone())
        .max_keys(5_000)
        .build()
}

fn check<A: KeyLimit>(limiter: &Limiter<A>, key: u64, cost: u32) -> Decision {
    ready(limiter.check_cost(&key, cost)).unwrap()
}

/// A caller with two plans: asks at so many milliseconds after the start, under the first or the
/// second of them, for so much. Of a cost of 0 it is told what is left.
fn caller<A: KeyLimit>(plans: [A; 2]) -> impl Fn(u64, usize, u32) -> Decision {
    let clock = ManualClock::at(START);
    let store = store(&clock);
    let limiters = plans.map(|plan| RateLimiter::new(plan, store.clone()));
    move |millis, plan, cost| {
        clock.set(START.saturating_add(Duration::from_millis(millis)));
        check(&limiters[plan], 1, cost)
    }
}

/// Whoever has spent everything under one plan has everything under the other, and the other way
/// round.
fn begins_anew<A: KeyLimit>(why: &str, plans: [A; 2]) {
    let ask = caller(plans);
    for plan in [0, 1] {
        let all = ask(0, plan, 0);
        assert_eq!(all.remaining(), all.limit(), "{why}");
        assert!(ask(0, plan, 5).is_admitted(), "{why}");
    }
    for plan in [0, 1] {
        let told = ask(0, plan, 0);
        assert_eq!(told.remaining(), told.limit() - 5, "{why}");
    }
}

#[test]
fn another_shape_begins_anew_and_so_do_numbers_without_a_name() {
    let seconds = Duration::from_secs;
    let (minute, hour) = (Quota::per_minute(10), Quota::per_hour(10));
    let window = FixedWindow::new;
    let buckets = |precision| SlidingBuckets::new(minute, seconds(precision));
    // A million and one a day are counted in ticks of more than a microsecond.
    let coarse = Quota::per_day(1_000_001);
    macro_rules! begin_anew {
        ($($why:literal: $one:expr, $other:expr;)+) => {
            $(begins_anew($why, [$one.named("x"), $other.named("x")]);)+
        };
    }
    begin_anew! {
        "period": window(minute), window(hour);
        "opens": window(minute), window(minute).from_first_request();
        "period": SlidingWindow::new(minute), SlidingWindow::new(hour);
        "period": SlidingLog::new(minute), SlidingLog::new(hour);
        "precision": buckets(10), buckets(20);
        "strict": buckets(10), buckets(10).strict();
        "tick": TokenBucket::new(coarse), TokenBucket::new(minute);
    }
    let unnamed = [10, 20].map(|units| TokenBucket::new(Quota::per_minute(units)));
    begins_anew("unnamed", unnamed);
    let names = ["x", "y"].map(|name| TokenBucket::new(minute).named(name));
    begins_anew("names", names);
    let never = TokenBucket::new(Quota::per_minute(0)).named("x");
    let ask = caller([never, TokenBucket::new(minute).named("x")]);
    assert!(ask(0, 1, 10).is_admitted());
    assert!(ask(0, 0, 1).never_fits());
}

/// Known keys and new ones, so that everything is swept several times.
fn sweep<A: KeyLimit>(limiter: &Limiter<A>, newcomers: std::ops::Range<u64>) {
    for _ in 0..20_000 {
        check(limiter, 1_000_000, 1);
    }
    for key in newcomers {
        check(limiter, key, 1);
    }
}

/// What is kept under these numbers is the same beside others of the same name, although those
/// sweep the store. Both are over after two hundred seconds.
fn is_remembered<A: KeyLimit>(name: &str, numbers: &A, sweeping: &A) {
    const CALLERS: u64 = 10;
    let clock = ManualClock::at(START);
    let (shared, lone) = (store(&clock), store(&clock));
    let sweeper = RateLimiter::new(sweeping.clone(), shared.clone());
    let caller = RateLimiter::new(numbers.clone(), shared);
    let alone = RateLimiter::new(numbers.clone(), lone);
    // One caller after the other charges something; till then it has not been there.
    for turn in 0..3 * CALLERS {
        if turn < CALLERS {
            let cost = 1 + u32::try_from(turn % 3).unwrap();
            assert_eq!(check(&caller, turn, cost), check(&alone, turn, cost));
        }
        let passes = if turn % 2 == 0 { 100 } else { 9_900 };
        clock.advance(Duration::from_millis(passes));
        sweep(&sweeper, 1_000 * turn + 1_000..1_000 * turn + 1_100);
        for key in 0..CALLERS {
            let (with_others, alone) = (check(&caller, key, 0), check(&alone, key, 0));
            assert_eq!(with_others, alone, "{name}: {key} in turn {turn}");
        }
    }
}

#[test]
fn nobodys_numbers_forget_the_state_of_another() {
    let (second, long) = (Duration::from_secs(1), Duration::from_secs(100));
    let [fast, slow] = [1_000, 10].map(|units| Quota::new(units, long));
    fn both<A: KeyLimit>(name: &str, fast: &A, slow: &A) {
        is_remembered(name, slow, fast);
        is_remembered(name, fast, slow);
    }
    macro_rules! run {
        (($quota:ident, $burst:ident, $precision:ident, $interval:ident)
         $($name:literal, $algorithm:expr, $model:ident $numbers:tt;)+) => {
            $({
                let rule = |$quota: Quota, $interval: Duration| {
                    let ($burst, $precision) = (10, long / 10);
                    let _ = ($quota, $burst, $precision, $interval);
                    $algorithm.named("x")
                };
                both($name, &rule(fast, second), &rule(slow, long));
            })+
        };
    }
    every_algorithm!(run, quota, burst, precision, interval);
    let pair = |quota, period| {
        (
            SlidingWindow::new(quota).named("x"),
            MinInterval::new(period).named("y"),
        )
    };
    both("a pair", &pair(fast, second), &pair(slow, long));
}
