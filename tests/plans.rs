//! Numbers that a caller's plan changes, under one name: what was used counts on, and nobody's
//! numbers forget another's state.

use std::{convert::Infallible, time::Duration};

use crate::ready::ready;
use http::{Request, Response};
use tollgate::{
    Decision, Quota, RateLimitLayer, RateLimiter, Timestamp, algorithm::*, choice::by_request,
    clock::ManualClock, key::Global, store::LocalStore,
};
use tollgate_algorithms::every_algorithm;
use tower::{Layer, Service};

/// The first microsecond of a day.
const START: Timestamp = Timestamp::from_micros(1_700_006_400_000_000);

/// Asks at so many milliseconds after the start, under the first or the second plan, for so much.
type Ask<'a> = dyn FnMut(u64, usize, u32) -> Decision + 'a;

fn at(clock: &ManualClock, millis: u64) {
    clock.set(START.saturating_add(Duration::from_millis(millis)));
}

/// Tells the case of a caller with two plans, whose numbers are chosen by a layer, or by two
/// limiters on one store.
fn each_way<A: Algorithm>(plans: [A; 2], case: impl Fn(&mut Ask<'_>)) {
    let clock = ManualClock::at(START);
    let store = LocalStore::builder().clock(clock.clone()).build();
    let limiters = plans
        .clone()
        .map(|plan| RateLimiter::new(plan, store.clone()));
    case(&mut |millis, plan, cost| {
        at(&clock, millis);
        ready(limiters[plan].check_cost(&(), cost)).unwrap()
    });

    let store = LocalStore::builder().clock(clock.clone()).build();
    let of_the_caller = by_request(move |request: &Request<u32>| {
        plans[*request.extensions().get::<usize>().unwrap()].clone()
    });
    let mut service = RateLimitLayer::new(of_the_caller, store, Global)
        .cost(|request: &Request<u32>| *request.body())
        .expose_decision()
        .layer(tower::service_fn(|request: Request<u32>| {
            let mut response = Response::new(String::new());
            let decision: &Decision = request.extensions().get().unwrap();
            response.extensions_mut().insert(decision.clone());
            std::future::ready(Ok::<_, Infallible>(response))
        }));
    case(&mut |millis, plan, cost| {
        at(&clock, millis);
        let request = Request::builder().extension(plan).body(cost).unwrap();
        let response = ready(service.call(request)).unwrap();
        response.extensions().get::<Decision>().unwrap().clone()
    });
}

/// What is left under a plan at an instant; asking for it changes nothing.
fn left(ask: &mut Ask<'_>, millis: u64, plan: usize) -> u64 {
    ask(millis, plan, 0).remaining()
}

#[test]
fn the_units_that_a_bucket_is_owed_are_paid_off_at_the_new_rate_since_the_last_charge() {
    fn holds<A: Algorithm>(bucket: impl Fn(u64, u64) -> A) {
        let (slow, fast) = (bucket(10, 10), bucket(60, 10));
        each_way([slow.clone(), fast.clone()], |ask| {
            assert!(ask(0, 0, 7).is_admitted());
            assert_eq!(left(ask, 3_500, 0), 3);
            assert_eq!(left(ask, 3_500, 1), 6);
            assert_eq!(left(ask, 3_500, 0), 3);
            assert_eq!(left(ask, 7_100, 1), 10);
        });
        each_way([slow, fast], |ask| {
            assert!(ask(0, 1, 7).is_admitted());
            assert_eq!(left(ask, 3_500, 1), 6);
            assert_eq!(left(ask, 3_500, 0), 3);
            assert_eq!(left(ask, 30_500, 0), 8);
        });
        // More is owed than the new plan allows.
        each_way([bucket(60, 10), bucket(60, 2)], |ask| {
            assert!(ask(0, 0, 10).is_admitted());
            let refused = ask(8_900, 1, 1);
            let wait = refused.retry_after().unwrap();
            // A debt that is counted in other parts is rounded up by one part in four thousand at
            // most.
            assert!((100..=103).contains(&wait.as_millis()), "{refused:?}");
            assert_eq!(left(ask, 8_950, 1), 0);
            assert_eq!(left(ask, 9_010, 1), 1);
            assert_eq!(left(ask, 9_010, 0), 9);
        });
    }
    let quota = Quota::per_minute;
    holds(|units, burst| TokenBucket::new(quota(units)).burst(burst).named("x"));
    holds(|units, burst| Gcra::new(quota(units)).burst(burst).named("x"));
    holds(|units, burst| LeakyBucket::new(quota(units)).capacity(burst).named("x"));
    holds(|units, burst| {
        let bucket = LeakyBucket::new(quota(units)).capacity(burst);
        bucket.queue().named("x")
    });
}

#[test]
fn the_units_taken_in_a_window_count_until_one_new_period_after_its_start() {
    fn holds(window: impl Fn(Quota) -> FixedWindow, is_aligned: bool) {
        each_way(
            [Quota::per_minute(10), Quota::per_minute(20)].map(&window),
            |ask| {
                assert!(ask(0, 0, 7).is_admitted());
                assert_eq!(left(ask, 10_000, 1), 13);
                assert!(ask(10_000, 1, 6).is_admitted());
                let refused = ask(20_000, 0, 1);
                assert_eq!(refused.retry_after(), Some(Duration::from_secs(40)));
                assert_eq!(left(ask, 59_999, 0), 0);
                assert_eq!(left(ask, 59_999, 1), 7);
                assert_eq!(left(ask, 60_000, 0), 10);
            },
        );
        let plans = [Quota::per_minute(10), Quota::per_hour(10)].map(&window);
        each_way(plans.clone(), |ask| {
            assert!(ask(300_000, 0, 7).is_admitted());
            assert_eq!(left(ask, 3_899_999, 1), 3);
            assert_eq!(left(ask, 3_900_000, 1), 10);
        });
        each_way(plans, |ask| {
            assert!(ask(90_000, 1, 7).is_admitted());
            assert_eq!(left(ask, 149_999, 0), if is_aligned { 10 } else { 3 });
            assert_eq!(left(ask, 150_000, 0), 10);
            assert_eq!(left(ask, 150_000, 1), 3);
        });
    }
    holds(|quota| FixedWindow::new(quota).named("x"), true);
    holds(
        |quota| FixedWindow::new(quota).from_first_request().named("x"),
        false,
    );
}

#[test]
fn the_units_of_the_window_of_the_last_charge_and_of_the_one_before_count_by_the_new_period() {
    let window = |units, seconds| {
        SlidingWindow::new(Quota::new(units, Duration::from_secs(seconds))).named("x")
    };
    let used = |ask: &mut Ask<'_>| {
        assert!(ask(30_000, 0, 4).is_admitted());
        assert!(ask(70_000, 0, 3).is_admitted());
        assert_eq!(left(ask, 90_000, 0), 5);
    };
    each_way([window(10, 60), window(20, 60)], |ask| {
        used(ask);
        assert_eq!(left(ask, 90_000, 1), 15);
        assert!(ask(90_000, 1, 15).is_admitted());
        assert_eq!(left(ask, 90_000, 0), 0);
    });
    each_way([window(10, 60), window(10, 120)], |ask| {
        used(ask);
        // Both were in the first two minutes, of which it is the last quarter: three, and a quarter
        // of the four before.
        assert_eq!(left(ask, 90_000, 1), 6);
        assert_eq!(left(ask, 180_000, 1), 8);
        assert_eq!(left(ask, 240_000, 1), 10);
    });
    each_way([window(10, 60), window(10, 10)], |ask| {
        used(ask);
        // The last charge was in the window of ten seconds before this one; half of that is over.
        assert_eq!(left(ask, 85_000, 1), 8);
        assert_eq!(left(ask, 90_000, 1), 10);
    });
}

#[test]
fn every_admission_that_counted_at_the_last_charge_counts_for_as_long_as_the_new_period_says() {
    fn holds<A: Algorithm>(log: impl Fn(u64, u64) -> A) {
        let used = |ask: &mut Ask<'_>| {
            assert!(ask(0, 0, 3).is_admitted());
            assert!(ask(40_000, 0, 2).is_admitted());
        };
        each_way([log(10, 60), log(20, 60)], |ask| {
            used(ask);
            assert_eq!(left(ask, 59_000, 1), 15);
            assert_eq!(left(ask, 71_000, 1), 18);
            assert!(ask(71_000, 1, 17).is_admitted());
            assert_eq!(left(ask, 71_000, 0), 0);
            assert_eq!(left(ask, 141_000, 0), 10);
        });
        each_way([log(10, 60), log(10, 30)], |ask| {
            used(ask);
            assert_eq!(left(ask, 59_000, 1), 8);
            assert_eq!(left(ask, 59_000, 0), 5);
            assert_eq!(left(ask, 81_000, 1), 10);
        });
        each_way([log(10, 60), log(10, 120)], |ask| {
            used(ask);
            assert_eq!(left(ask, 71_000, 0), 8);
            assert_eq!(left(ask, 71_000, 1), 5);
            // What is over when something is charged is forgotten then.
            assert!(ask(71_000, 0, 1).is_admitted());
            assert_eq!(left(ask, 71_000, 1), 7);
        });
    }
    let quota = |units, seconds| Quota::new(units, Duration::from_secs(seconds));
    let step = Duration::from_secs(10);
    holds(|units, seconds| SlidingLog::new(quota(units, seconds)).named("x"));
    holds(|units, seconds| SlidingBuckets::new(quota(units, seconds), step).named("x"));
    holds(|units, seconds| {
        let buckets = SlidingBuckets::new(quota(units, seconds), step);
        buckets.strict().named("x")
    });
}

#[test]
fn the_new_interval_counts_from_the_last_admission() {
    let gap = |seconds| MinInterval::new(Duration::from_secs(seconds)).named("x");
    each_way([gap(10), gap(60)], |ask| {
        assert!(ask(0, 0, 1).is_admitted());
        let refused = ask(10_000, 1, 1);
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(50)));
        assert!(ask(10_000, 0, 1).is_admitted());
    });
    each_way([gap(10), gap(5)], |ask| {
        assert!(ask(0, 0, 1).is_admitted());
        assert!(!ask(4_999, 1, 1).is_admitted());
        assert!(ask(5_000, 1, 1).is_admitted());
        assert!(!ask(14_999, 0, 1).is_admitted());
    });
}

#[test]
fn each_member_of_a_tuple_counts_on_as_it_does_alone() {
    let plan = |units, seconds| {
        (
            FixedWindow::new(Quota::per_minute(units)).named("x"),
            MinInterval::new(Duration::from_secs(seconds)).named("y"),
        )
    };
    each_way([plan(2, 1), plan(5, 10)], |ask| {
        assert!(ask(0, 0, 2).is_admitted());
        assert_eq!(ask(5_000, 0, 1).policy(), "x");
        let refused = ask(5_000, 1, 1);
        assert_eq!(refused.policy(), "y");
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(5)));
        assert_eq!(refused.policies()[0].remaining(), 3);
        assert!(ask(10_000, 1, 3).is_admitted());
        assert_eq!(ask(30_000, 1, 1).policy(), "x");
    });
}

#[test]
fn plans_without_a_name_have_buckets_of_their_own() {
    each_way(
        [1, 2].map(|units| FixedWindow::new(Quota::per_day(units))),
        |ask| {
            assert!(ask(0, 0, 1).is_admitted());
            assert_eq!(left(ask, 0, 1), 2);
            assert!(!ask(0, 0, 1).is_admitted());
        },
    );
}

/// One body for every algorithm, with numbers that are over soon and with numbers that are not,
/// under one name.
trait Body {
    /// Both admit ten at one instant, or one; the windows are a second and a hundred seconds.
    fn run<A: Algorithm>(&self, name: &str, fast: A, slow: A);
}

fn for_every_algorithm(body: &impl Body) {
    let (second, long) = (Duration::from_secs(1), Duration::from_secs(100));
    let [fast, slow] = [second, long].map(|period| Quota::new(10, period));
    macro_rules! run {
        (($quota:ident, $burst:ident, $precision:ident, $interval:ident)
         $($name:literal, $algorithm:expr, $model:ident $numbers:tt;)+) => {
            $({
                let rule = |$quota: Quota, $interval: Duration| {
                    let ($burst, $precision) = ($quota.units(), $interval / 10);
                    let _ = ($burst, $precision);
                    $algorithm.named("x")
                };
                body.run($name, rule(fast, second), rule(slow, long));
            })+
        };
    }
    every_algorithm!(run, quota, burst, precision, interval);
    let one_slot = |quota, period| SlidingBuckets::new(quota, period).strict().named("x");
    body.run(
        "SlidingBuckets of one slot, strict",
        one_slot(fast, second),
        one_slot(slow, long),
    );
    let pair = |quota, period| {
        (
            SlidingWindow::new(quota).named("x"),
            MinInterval::new(period).named("y"),
        )
    };
    body.run("a pair", pair(fast, second), pair(slow, long));
}

type Store<A> = LocalStore<A, u64, ManualClock>;
type Limiter<A> = RateLimiter<A, Store<A>>;

fn store<A: Algorithm>(clock: &ManualClock) -> Store<A> {
    LocalStore::builder()
        .clock(clock.clone())
        .max_keys(5_000)
        .build()
}

fn check<A: Algorithm>(limiter: &Limiter<A>, key: u64, cost: u32) -> Decision {
    ready(limiter.check_cost(&key, cost)).unwrap()
}

/// Known keys and new ones, so that everything is swept several times.
fn sweep<A: Algorithm>(limiter: &Limiter<A>, newcomers: std::ops::Range<u64>) {
    for _ in 0..20_000 {
        check(limiter, 1_000_000, 1);
    }
    for key in newcomers {
        check(limiter, key, 1);
    }
}

const CALLERS: u64 = 20;

#[test]
fn nobodys_numbers_forget_the_state_of_another() {
    struct Remembered;
    impl Body for Remembered {
        fn run<A: Algorithm>(&self, name: &str, fast: A, slow: A) {
            for (numbers, sweeping) in [(&slow, &fast), (&fast, &slow)] {
                let clock = ManualClock::at(START);
                let (shared, lone) = (store(&clock), store(&clock));
                let sweeper = RateLimiter::new(sweeping.clone(), shared.clone());
                let caller = RateLimiter::new(numbers.clone(), shared.clone());
                let alone = RateLimiter::new(numbers.clone(), lone);
                // One caller after the other charges something; till then it has not been there.
                for turn in 0..3 * CALLERS {
                    if turn < CALLERS {
                        let cost = 1 + u32::try_from(turn % 3).unwrap();
                        assert_eq!(check(&caller, turn, cost), check(&alone, turn, cost));
                    }
                    clock.advance(Duration::from_millis(if turn % 2 == 0 {
                        100
                    } else {
                        9_900
                    }));
                    sweep(&sweeper, 1_000 * turn + 1_000..1_000 * turn + 1_100);
                    for key in 0..CALLERS {
                        let (with_others, alone) = (check(&caller, key, 0), check(&alone, key, 0));
                        assert_eq!(with_others, alone, "{name}: {key} in turn {turn}");
                    }
                }
            }
        }
    }
    for_every_algorithm(&Remembered);
}

#[test]
fn idle_keys_leave_once_no_numbers_of_their_policy_speak_of_them() {
    struct Leaving;
    impl Body for Leaving {
        fn run<A: Algorithm>(&self, name: &str, fast: A, slow: A) {
            for (numbers, sweeping) in [(&slow, &fast), (&fast, &slow)] {
                let clock = ManualClock::at(START);
                let shared = store(&clock);
                let sweeper = RateLimiter::new(sweeping.clone(), shared.clone());
                let caller = RateLimiter::new(numbers.clone(), shared.clone());
                for key in 0..1_000 {
                    assert!(check(&caller, key, 1).is_admitted());
                }
                sweep(&sweeper, 0..0);
                assert_eq!(shared.usage().keys, 1_001, "{name}");
                // As long as the slowest matter after it is fresh by the numbers of everybody.
                clock.advance(slow.config_id().retention() * 2);
                sweep(&sweeper, 0..0);
                assert_eq!(shared.usage().keys, 1, "{name}");
            }
        }
    }
    for_every_algorithm(&Leaving);
}

#[test]
fn idle_keys_of_a_policy_with_one_set_of_numbers_leave_as_soon_as_they_are_fresh() {
    struct Leaving;
    impl Body for Leaving {
        fn run<A: Algorithm>(&self, name: &str, _fast: A, slow: A) {
            let clock = ManualClock::at(START);
            let shared = store(&clock);
            let limiter = RateLimiter::new(slow, shared.clone());
            for key in 0..1_000 {
                assert!(check(&limiter, key, 1).is_admitted());
            }
            let reset_after = check(&limiter, 0, 0).reset_after();
            clock.advance(reset_after - Duration::from_micros(1));
            for _ in 0..20_000 {
                check(&limiter, 1_000_000, 0);
                check(&limiter, 0, 0);
            }
            assert!(shared.usage().keys >= 1_000, "{name}: too early");
            // Two counters of windows matter for up to one window more than they weigh.
            clock.advance(Duration::from_secs(101));
            sweep(&limiter, 0..0);
            assert!(shared.usage().keys <= 1, "{name}: {:?}", shared.usage());
        }
    }
    for_every_algorithm(&Leaving);
}

#[test]
fn two_plans_whose_entries_matter_as_long_and_lie_in_other_slots_are_two_plans() {
    let plan = |period: u64, precision: u64| {
        let quota = Quota::new(7, Duration::from_micros(period));
        SlidingBuckets::new(quota, Duration::from_micros(precision))
            .strict()
            .named("api")
    };
    // 16 + 16 + 16 - 1 and 40 + 4 + 4 - 1 microseconds.
    let (short, long) = (plan(16, 16), plan(40, 4));
    let clock = ManualClock::at(START);
    let store = LocalStore::builder().clock(clock.clone()).build();
    let [short, long] = [short, long].map(|plan| RateLimiter::new(plan, store.clone()));
    let check = |limiter: &RateLimiter<_, _>, micros, cost| {
        clock.set(START.saturating_add(Duration::from_micros(micros)));
        ready(limiter.check_cost(&(), cost)).unwrap().is_admitted()
    };
    assert!(check(&long, 12, 7));
    assert!(check(&short, 48, 1));
    // The seven are 37 µs ago: of the longer plan they are not over.
    assert!(!check(&long, 49, 1));
    assert!(check(&long, 60, 6));
}
