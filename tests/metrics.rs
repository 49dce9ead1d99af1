//! What Prometheus is told of the requests of a layer and the calls of a limiter, by its own
//! recorder.
#![cfg(feature = "metrics")]

use std::{convert::Infallible, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter, StoreErrorKind,
    algorithm::{FixedWindow, Gcra},
    key::from_fn,
    observe::Metrics,
    response::AsError,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt};

use crate::at_once::at_once;
use crate::support::{Echo, broken, by_hand, numbers};
use crate::tokio_time::store;

/// What was recorded about the limit of this name.
struct Recorded(PrometheusHandle, &'static str);

/// A recorder for this thread, with one bucket of a minute in each histogram.
fn recorded(limit: &'static str) -> (metrics::LocalRecorderGuard<'static>, Recorded) {
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Prefix("tollgate".into()), &[60.0]);
    let recorder = builder.unwrap().build_recorder();
    let told = Recorded(recorder.handle(), limit);
    // It lives as long as the test's process.
    let recorder = Box::leak(Box::new(recorder));
    (metrics::set_default_local_recorder(recorder), told)
}

impl Recorded {
    /// The samples of this metric, in alphabetical order: the values of these labels, which are all
    /// that it has but the limit, and the number.
    fn samples(&self, metric: &str, labels: &str) -> Vec<String> {
        let rendered = self.0.render();
        let metric = format!("tollgate_{metric}{{limit=\"{}\"", self.1);
        let of_metric = rendered.lines().filter_map(|it| it.strip_prefix(&metric));
        let sample = |line: &str| {
            let (told, number) = line.split_once("} ").unwrap();
            let told = told.split(',').skip(1);
            let told = told.map(|it| it.split_once('=').unwrap());
            let (names, mut values): (Vec<_>, Vec<_>) = told.unzip();
            assert_eq!(names.join(" "), labels);
            values.push(number);
            (number != "0").then(|| values.join(" ").replace('"', ""))
        };
        let mut samples: Vec<_> = of_metric.filter_map(sample).collect();
        samples.sort();
        samples
    }

    fn are(&self, metric: &str, labels: &str, expected: &str) {
        assert_eq!(self.samples(metric, labels).join(", "), expected);
    }
}

/// Sends these requests, each of which is its own cost.
async fn send<S: Service<u32, Response = u32>>(
    service: &mut S,
    costs: impl IntoIterator<Item = u32>,
) {
    for cost in costs {
        let Ok(ready) = service.ready().await else {
            panic!("an echo is always ready")
        };
        let _ = ready.call(cost).await;
    }
}

#[tokio::test]
async fn requests_and_their_units_are_counted_by_outcome_and_by_policy_also_one_in_shadow() {
    let (_recorder, told) = recorded("api");
    let daily = FixedWindow::new(Quota::per_day(100)).named("daily");
    let hourly = FixedWindow::new(Quota::per_hour(9)).named("hourly");
    // It is told what it would do about those that the others admit.
    let tried = FixedWindow::new(Quota::per_day(6)).named("tried").shadow();
    let even = from_fn(|number: &u32| match number {
        8 => Ok(None),
        7 => Err((http::StatusCode::BAD_REQUEST, "seven")),
        _ => Ok(Some(())),
    });
    let mut service = RateLimitLayer::new((daily, hourly, tried), by_hand().1, even)
        .cost(|number: &u32| *number)
        .exempt(|number: &u32| *number == 6)
        .enforce(|number: &u32, _: Option<&()>| *number != 2)
        .respond_with(AsError)
        .observe(Metrics::new("api"))
        .layer(Echo::default());
    send(&mut service, [5, 4, 3, 2, 6, 7, 8, 8]).await;
    let requests = "admitted 2, exempt 1, no_key 2, refused 1, rejected 1, shadow_refused 1";
    told.are("requests", "outcome", requests);
    let units = "admitted 9, refused 3, shadow_refused 2";
    told.are("units", "outcome", units);
    let by_policy = "daily admitted 2, hourly admitted 2, hourly refused 1, \
        hourly shadow_refused 1, tried admitted 1, tried shadow_refused 1";
    told.are("policy_requests", "policy outcome", by_policy);
    // The next hour begins more than a minute later.
    let waits = "refused +Inf 1, shadow_refused +Inf 1";
    told.are("wait_duration_bucket", "outcome le", waits);
    told.are("store_duration_count", "", "");
}

#[tokio::test]
async fn while_the_store_is_down_the_policies_of_the_limiter_in_its_place_are_counted() {
    let (_recorder, told) = recorded("down");
    let daily = FixedWindow::new(Quota::per_day(100)).named("daily");
    let here = FixedWindow::new(Quota::per_day(6)).named("daily-here");
    let minutely = FixedWindow::new(Quota::per_minute(6)).named("minutely-here");
    let here = RateLimiter::new((here, minutely), by_hand().1);
    let mut service = numbers(daily, broken(StoreErrorKind::Unavailable))
        .cost(|number: &u32| *number)
        .on_store_error(here)
        .enforce(|number: &u32, _: Option<&()>| *number != 3)
        .observe(Metrics::new("down"))
        .layer(Echo::default());
    // The last two are over the limit, and the very last passes all the same.
    send(&mut service, [1, 4, 2, 3]).await;
    told.are("requests", "outcome", "degraded 4");
    told.are("units", "outcome", "degraded 5, degraded_refused 5");
    let by_policy = "daily-here degraded 2, daily-here degraded_refused 2, \
        minutely-here degraded 2, minutely-here degraded_refused 2";
    told.are("policy_requests", "policy outcome", by_policy);
    told.are("wait_duration_count", "outcome", "degraded_refused 2");
}

#[tokio::test]
async fn the_calls_of_a_limiter_are_counted_as_what_became_of_them() {
    let (_recorder, told) = recorded("mails");
    let metrics = Metrics::new("mails").store_duration();
    let daily = || FixedWindow::new(Quota::per_day(9)).named("daily").settled();
    let limiter = RateLimiter::new(daily(), by_hand().1).observe(metrics.clone());
    for cost in [4, 5, 6] {
        limiter.check_cost("s3cret", cost).await.unwrap();
    }
    drop(limiter.hold("bob", 2).now());
    limiter.debit("bob", 3).now();
    limiter.peek("bob").now();
    limiter.refund("bob", 1).now();
    limiter.reset("bob").now();
    let broken = RateLimiter::new(daily(), broken(StoreErrorKind::Unavailable)).observe(metrics);
    broken.debit("bob", 7).await.unwrap_err();
    let requests = "admitted 3, debited 1, refused 1, store_error 1";
    told.are("requests", "outcome", requests);
    told.are("units", "outcome", "admitted 11, debited 3, refused 6");
    let by_policy = "daily admitted 3, daily refused 1";
    told.are("policy_requests", "policy outcome", by_policy);
    told.are("wait_duration_count", "outcome", "refused 1");
    told.are("store_duration_count", "", "6");
    assert!(!told.0.render().contains("s3cret"));
}

#[tokio::test(start_paused = true)]
async fn how_long_a_call_has_waited_is_recorded_where_it_has() {
    let (_recorder, told) = recorded("jobs");
    let one_at_a_time = Gcra::new(Quota::per_second(10)).burst(1);
    let limiter = RateLimiter::new(one_at_a_time, store());
    let limiter = limiter.observe(Metrics::new("jobs"));
    for _ in 0..3 {
        limiter.until_ready("bob", 1).await.unwrap();
    }
    told.are("requests", "outcome", "admitted 3");
    told.are("wait_duration_count", "outcome", "admitted 2");
    let [sum] = &told.samples("wait_duration_sum", "outcome")[..] else {
        panic!("one sum")
    };
    let seconds: f64 = sum.split(' ').next_back().unwrap().parse().unwrap();
    assert!((0.2..0.21).contains(&seconds), "{sum}");
}

#[test]
fn a_crowd_is_counted_whole_and_has_no_more_labels_than_one_caller() {
    // Eight threads check each of 300 plans once, each thread in an order of its own.
    const THREADS: u64 = 8;
    const PLANS: u64 = 300;
    let recorder = PrometheusBuilder::new().build_recorder();
    let told = Recorded(recorder.handle(), "crowd");
    let counts = metrics::with_local_recorder(&recorder, || Metrics::new("crowd"));
    let store = LocalStore::new();
    let check_each = |thread: u64| {
        for number in 0..PLANS {
            let name = format!("plan-{}", (number + 37 * thread) % PLANS);
            let plan = FixedWindow::new(Quota::per_day(1)).named(name);
            let limiter = RateLimiter::new(plan, store.clone()).observe(counts.clone());
            limiter.check(&7_u32).now();
        }
    };
    at_once(THREADS, |thread| {
        metrics::with_local_recorder(&recorder, || check_each(thread));
    });
    let refused = (THREADS - 1) * PLANS;
    let all = format!("admitted {PLANS}, refused {refused}");
    told.are("requests", "outcome", &all);
    let samples = told.samples("policy_requests", "policy outcome");
    let count = |outcome: &str| {
        let of_outcome = samples.iter().filter(|sample| sample.contains(outcome));
        let numbers = of_outcome.map(|sample| sample.rsplit(' ').next().unwrap().parse::<u64>());
        let numbers: Vec<_> = numbers.map(Result::unwrap).collect();
        (numbers.len(), numbers.iter().sum::<u64>())
    };
    // Each that has counters of its own is counted by its name.
    for sample in samples.iter().filter(|sample| !sample.contains("_OTHER")) {
        let is_whole = sample.ends_with(" admitted 1") || sample.ends_with(" refused 7");
        assert!(is_whole, "{sample}");
    }
    assert_eq!(count("admitted"), (101, PLANS), "{samples:?}");
    assert_eq!(count("refused"), (101, refused), "{samples:?}");
}

#[tokio::test]
async fn how_full_a_store_is_can_be_recorded() {
    let (_recorder, told) = recorded("full");
    let store = LocalStore::builder().max_keys(2).build();
    let metrics = Metrics::new("full");
    let own = from_fn(|number: &u32| Ok::<_, Infallible>(Some(*number)));
    let minutely = FixedWindow::new(Quota::new(9, Duration::from_secs(86_400)));
    let mut service = RateLimitLayer::new(minutely, store.clone(), own)
        .respond_with(AsError)
        .observe(metrics.clone())
        .layer(Echo::default());
    send(&mut service, 0..5).await;
    for _ in 0..2 {
        metrics.record_usage(&store.usage());
    }
    told.are("store_keys", "", "2");
    told.are("store_overflow", "", "3");
}
