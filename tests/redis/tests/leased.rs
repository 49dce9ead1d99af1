//! A store that leases asks Redis seldom about a key that is in use, and all processes together
//! stay within the bound. The simulator in `src/store/redis/leases/tests.rs` has what slow, lost
//! and overtaken messages do.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use tollgate::{
    EachOf, Quota, RateLimiter, Timestamp,
    algorithm::*,
    clock::{Clock, ManualClock, SystemClock},
    store::RedisStore,
};
use tollgate_properties::{cases, claims::stays_within_the_bound, numbers::Numbers};
use tollgate_redis_tests::{
    Proxy, Redis, Server, centralized, comes, connect, crowd, every_algorithm, patient, within,
};

const MS: u64 = 1_000;
const HISTORIES: u32 = 60;
/// What can be leased, and one that can't.
const RULES: [&str; 9] = [
    "fixed window",
    "window from first request",
    "sliding window",
    "token bucket with burst",
    "sliding log",
    "sliding buckets",
    "(fixed window, sliding log)",
    "(gcra, sliding window)",
    "(token bucket, min interval)",
];
const BEGIN: u64 = 1 << 40;

/// Limits of which something can be leased, and windows that are longer than four lease times.
fn wide_numbers() -> impl Strategy<Value = Numbers> {
    let quota = || (1..=80_u64, 40..=400_u64);
    (quota(), 8..=120_u64, quota()).prop_map(|((units, period), burst, (others, beside))| {
        let numbers = Numbers::new((units, period * MS), burst, period * MS / 4, 9 * MS);
        numbers.beside(others, beside * MS)
    })
}

/// After how many microseconds which process asks for how much; most of them at once.
fn calls() -> impl Strategy<Value = Vec<(u64, usize, u32)>> {
    let after = prop_oneof![6 => Just(0), 4 => 0..2 * MS, 1 => 0..40 * MS, 1 => 0..12_000 * MS];
    let process = prop_oneof![4 => Just(0_usize), 1 => 1..4_usize];
    prop::collection::vec((after, process, 1..4_u32), 1..160)
}

/// Three processes lease, and one does not.
#[test]
fn together_processes_that_lease_stay_within_the_bound() {
    let (redis, leased) = (Redis::start(), AtomicU64::new(0));
    let values = || (wide_numbers(), 1..10_u64, calls());
    redis.for_all(HISTORIES, values, |(numbers, lease_time, calls)| {
        let all = every_algorithm(&numbers);
        for subject in all.iter().filter(|it| RULES.contains(&it.name)) {
            let clock = ManualClock::at(Timestamp::from_micros(BEGIN));
            let stores = [(); 4].map(|()| redis.store(clock.clone()));
            let key = redis.new_key();
            let limiters = [0, 1, 2, 3].map(|process| {
                let (store, lease_time) = (&stores[process], Duration::from_millis(lease_time));
                let store = match process {
                    3 => store.clone(),
                    _ => store.leased(lease_time),
                };
                subject.bucket.limiter_over(store, key.clone())
            });
            let (mut now, mut admitted) = (BEGIN, Vec::new());
            for &(after, process, cost) in &calls {
                now += after;
                clock.set(Timestamp::from_micros(now));
                let decision = redis.wait(limiters[process].check(cost));
                let decision = decision.map_err(|error| TestCaseError::fail(error.to_string()))?;
                if decision.is_admitted() {
                    let released = u64::try_from(decision.delay().as_micros()).unwrap() + now;
                    admitted.push((i128::from(now), i128::from(released), i128::from(cost)));
                }
            }
            stays_within_the_bound(subject, &admitted)?;
            let own = stores.iter().map(|store| store.usage().leased).sum();
            leased.fetch_add(own, Relaxed);
        }
        Ok(())
    });
    let (leased, few) = (leased.into_inner(), u64::from(cases()) / 4);
    assert!(leased > few, "{leased} of {few}");
}

async fn leasing(server: &Server, lease_time: Duration) -> RedisStore {
    let store = patient(server.client().await).build();
    store.leased(lease_time)
}

/// A crowd asks at the same time: those who wait for a call spend what it brings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_one_key_spends_what_is_leased() {
    let server = Server::start().await;
    let store = leasing(&server, Duration::from_millis(200)).await;
    let rule = TokenBucket::new(Quota::per_second(1_000_000)).burst(500_000);
    let limiter = RateLimiter::new(rule, store.clone());
    let before = server.command_calls("evalsha").await;
    crowd(64, &limiter, |limiter, _| async move {
        for _ in 0..200 {
            assert!(limiter.check("bob").await.unwrap().is_admitted());
            tokio::task::yield_now().await;
        }
    })
    .await;
    let scripts = server.command_calls("evalsha").await - before;
    let leased = store.usage().leased;
    println!("{scripts} scripts for 12800 decisions, {leased} of them leased");
    assert!(leased > 11_300, "{leased}");
    assert!(scripts < 100, "{scripts}");
}

/// A member's list refuses in the middle of a call that the other member would admit whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_a_tuple_gets_what_its_log_lets_through_and_no_more() {
    let server = Server::start().await;
    let store = leasing(&server, Duration::from_millis(50)).await;
    let log = SlidingLog::new(Quota::per_hour(500)).named("log");
    let rule = (TokenBucket::new(Quota::per_hour(1)).burst(5_000), log);
    let limiter = RateLimiter::new(rule, store.clone());
    let admitted = crowd(64, &limiter, |limiter, _| async move {
        let mut admitted = 0;
        for _ in 0..20 {
            let decision = limiter.check("bob").await.unwrap();
            admitted += u64::from(decision.is_admitted());
            tokio::task::yield_now().await;
        }
        admitted
    })
    .await;
    let admitted = Cell::new(admitted.into_iter().sum::<u64>());
    assert!(admitted.get() > 400 && store.usage().leased > 100);
    comes("the rest", async || {
        let decision = limiter.check("bob").await.unwrap();
        admitted.set(admitted.get() + u64::from(decision.is_admitted()));
        admitted.get() >= 500
    })
    .await;
    for _ in 0..100 {
        assert!(!limiter.check("bob").await.unwrap().is_admitted());
    }
    let all = limiter.peek("bob").await.unwrap();
    let left = all.policies().iter().map(|policy| policy.remaining());
    assert_eq!(left.collect::<Vec<_>>(), [4_500, 0]);
}

/// The script that reads what is held is sent at once where another one was in vain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_leases_of_others_a_decision_is_one_script() {
    let server = Server::start().await;
    let (limiter, ..) = in_use((&server, window()), Duration::from_secs(60)).await;
    let direct = patient(server.client().await).build();
    let direct = RateLimiter::new(window(), direct);
    let before = server.command_calls("evalsha").await;
    for _ in 0..150 {
        assert!(direct.check("bob").await.unwrap().is_admitted());
    }
    let scripts = server.command_calls("evalsha").await - before;
    assert!((150..160).contains(&scripts), "{scripts}");
    drop(limiter);
}

fn window() -> FixedWindow {
    FixedWindow::new(Quota::per_hour(4_000)).from_first_request()
}

/// A limit of 4 000 an hour over a store that leases, with a lease that is not spent; and how many
/// decisions that took.
async fn in_use<A: Scripted>(
    (server, rule): (&Server, A),
    lease_time: Duration,
) -> (RateLimiter<A, RedisStore>, RedisStore, u64) {
    let store = leasing(server, lease_time).await;
    let limiter = RateLimiter::new(rule, store.clone());
    let mut decisions = 0;
    // One that asks, and one that does not.
    let mut before = 0;
    loop {
        let decision = limiter.check("bob").await.unwrap();
        assert!(decision.is_admitted(), "leased before all is spent");
        decisions += 1;
        let leased = store.usage().leased;
        if leased > 100 && leased == before + 1 {
            return (limiter, store, decisions);
        }
        before = leased + u64::from(leased > before) * 4_000;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_remains_is_what_was_not_spent_and_what_lies_idle_is_given_back() {
    let server = Server::start().await;
    let log = SlidingLog::new(Quota::per_hour(4_000));
    what_remains(&server, window()).await;
    what_remains(&server, log.clone()).await;
    let larger = TokenBucket::new(Quota::per_hour(1)).burst(5_000);
    what_remains(&server, (larger, log.named("log"), window())).await;
}

async fn what_remains<A: Scripted>(server: &Server, rule: A) {
    let lease_time = Duration::from_secs(1);
    let others = patient(server.client().await).build();
    let others = RateLimiter::new(rule.clone(), others);
    let (limiter, store, decisions) = in_use((server, rule), lease_time).await;
    let looks =
        async |limiter: &RateLimiter<A, RedisStore>| limiter.peek("bob").await.unwrap().remaining();
    assert_eq!(looks(&limiter).await, 4_000 - decisions);
    let held = store.usage().units_held;
    assert!(held > 0);
    assert_eq!(looks(&others).await, 4_000 - decisions - held);
    assert!(limiter.peek("bob").await.unwrap().is_admitted());
    let left = limiter.check("bob").await.unwrap().remaining();
    assert_eq!(left, 4_000 - decisions - 1);
    comes("all that was not spent, given back", async || {
        looks(&others).await == left
    })
    .await;
    comes("its end, counted", async || {
        let usage = store.usage();
        usage.units_leased == usage.leased + usage.units_given_back
    })
    .await;
    let usage = store.usage();
    assert!(
        usage.units_given_back > 0 && usage.units_lost == 0 && usage.units_held == 0,
        "{usage:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_change_ends_a_lease() {
    let server = Server::start().await;
    let (limiter, ..) = in_use((&server, window()), Duration::from_secs(60)).await;
    let later = SystemClock::new()
        .now()
        .saturating_add(Duration::from_secs(60));
    limiter.refuse_until("bob", later).await.unwrap();
    assert!(!limiter.check("bob").await.unwrap().is_admitted());
    limiter.reset("bob").await.unwrap();
    assert_eq!(limiter.check("bob").await.unwrap().remaining(), 3_999);
}

/// A value is longer while units are held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_go_away_while_they_ask_leave_nothing_held() {
    let server = Server::start().await;
    let (limiter, ..) = in_use((&server, window()), Duration::from_millis(50)).await;
    let key = server.keys("").await.pop().unwrap();
    let key = std::str::from_utf8(&key).unwrap();
    let value_len = async || server.command::<u64>("STRLEN", &[key]).await;
    let mut is_held = false;
    for _ in 0..300 {
        tokio::select! {
            biased;
            decision = limiter.check("bob") => drop(decision.unwrap()),
            () = tokio::task::yield_now() => {}
        }
        limiter.check("bob").await.unwrap();
        is_held |= value_len().await > 36;
    }
    assert!(is_held);
    // What nobody settles is held for five seconds at least.
    let is_given_back = comes("a value without a tail", async || value_len().await <= 36);
    within(Duration::from_secs(4), "what was held", is_given_back).await;
}

/// How many of 60 decisions by this rule need no answer.
async fn leased_of<A: Scripted>(server: &Server, rule: A) -> u64 {
    let store = leasing(server, Duration::from_secs(10)).await;
    let limiter = RateLimiter::new(rule, store.clone());
    for _ in 0..60 {
        limiter.check("bob").await.unwrap();
    }
    store.usage().leased
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_windows_logs_and_tuples_of_them_are_leased_and_nothing_else() {
    let server = Server::start().await;
    let (server, quota, minute) = (&server, Quota::per_hour(1_000), Duration::from_secs(60));
    let bucket = || TokenBucket::new(quota);
    let (gcra, log) = (Gcra::new(quota), SlidingLog::new(quota));
    let window = FixedWindow::new(quota);
    for leased in [
        leased_of(server, bucket()).await,
        leased_of(server, gcra.clone()).await,
        leased_of(server, LeakyBucket::new(quota)).await,
        leased_of(server, window.clone()).await,
        leased_of(server, window.clone().from_first_request()).await,
        leased_of(server, SlidingWindow::new(quota)).await,
        leased_of(server, log.clone()).await,
        leased_of(server, SlidingBuckets::new(quota, minute)).await,
        leased_of(server, (bucket(), window.clone())).await,
        leased_of(server, (gcra.clone(), log)).await,
        // What is short for a window is not for a bucket.
        leased_of(server, TokenBucket::new(Quota::per_second(1_000))).await,
    ] {
        assert!(leased > 20, "{leased}");
    }
    let gap = MinInterval::new(Duration::from_micros(1));
    let short = FixedWindow::new(Quota::new(1_000, Duration::from_secs(39)));
    for leased in [
        leased_of(server, bucket().named("a").settled()).await,
        leased_of(server, bucket().named("b").per_request()).await,
        leased_of(server, bucket().named("c").shadow()).await,
        leased_of(server, bucket().burst(3)).await,
        leased_of(server, (bucket(), gcra.named("d").shadow())).await,
        leased_of(server, (bucket(), gap.clone())).await,
        leased_of(server, (bucket(), window.named("e").per_request())).await,
        leased_of(server, short).await,
        leased_of(server, LeakyBucket::new(quota).queue()).await,
        leased_of(server, bucket().wait_at_most(minute)).await,
        leased_of(server, gap).await,
    ] {
        assert_eq!(leased, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_that_end_leave_leases_alone() {
    let server = Server::start().await;
    let (limiter, store, _) = in_use((&server, window()), Duration::from_secs(60)).await;
    let in_flight = RateLimiter::new(InFlight::new(5), store.clone());
    let before = store.usage();
    for _ in 0..10 {
        drop(in_flight.hold("bob", 1).await.unwrap().unwrap());
        limiter.check("bob").await.unwrap();
    }
    let usage = store.usage();
    assert_eq!(usage.leased, before.leased + 10, "{usage:?}");
    assert_eq!(usage.units_leased, before.units_leased);
}

/// Of the numbers of the other one nothing would be leased.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_limits_about_each_of_several_keys_the_only_one_that_applies_is_leased() {
    let server = Server::start().await;
    let store = leasing(&server, Duration::from_secs(10)).await;
    let small = TokenBucket::new(Quota::per_hour(3)).named("small");
    let each = EachOf((TokenBucket::new(Quota::per_hour(1_000)), small));
    let limiter = RateLimiter::new(each, store.clone());
    for _ in 0..60 {
        let keys: EachOf<(Option<u32>, Option<u32>)> = EachOf((Some(7), None));
        limiter.check(&keys).await.unwrap();
    }
    assert!(store.usage().leased > 20, "{:?}", store.usage());
}

/// What a slow server lends is over before it arrives: it is not asked for again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_server_that_takes_longer_than_a_lease_time_nothing_is_leased_for_long() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::from_millis(20)).await;
    let store = RedisStore::builder(connect(centralized(proxy.port())).await);
    let store = store.deadline(Duration::from_secs(20)).build();
    let store = store.leased(Duration::from_millis(5));
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(1_000_000)), store.clone());
    crowd(16, &limiter, |limiter, _| async move {
        for _ in 0..40 {
            assert!(limiter.check("bob").await.unwrap().is_admitted());
        }
    })
    .await;
    let usage = store.usage();
    // One call brings a lease of what was used lately.
    assert!((1..=2 * 64).contains(&usage.units_leased), "{usage:?}");
    comes("it is given back", async || {
        let usage = store.usage();
        usage.units_given_back == usage.units_leased
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "the lease time 999µs is not between 1ms and 60s")]
async fn a_lease_time_that_is_too_short_is_named() {
    let server = Server::start().await;
    let _ = leasing(&server, Duration::from_micros(999)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_is_spent_while_a_server_hangs_and_then_there_is_no_answer() {
    let server = Server::start().await;
    let store = RedisStore::builder(server.client().await).build();
    let store = store.leased(Duration::from_secs(60));
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_hour(4_000)), store.clone());
    // One by one until a lease has just come.
    let mut before = store.usage().leased;
    loop {
        limiter.check("bob").await.unwrap();
        let leased = store.usage().leased;
        if leased > 200 && leased == before {
            break;
        }
        before = leased;
    }
    server.stop_process();
    let mut spent = 0;
    while limiter.check("bob").await.is_ok() {
        spent += 1;
    }
    let lost = store.usage().units_lost;
    server.continue_process();
    println!("{spent} were spent while the server hung");
    assert!((50..1_000).contains(&spent), "{spent}");
    // What the last call has asked for.
    assert!(lost > 0);
}
