//! What Prometheus is told of the requests of a layer and the calls of a limiter, by its own
//! recorder.
#![cfg(feature = "metrics")]

use std::{convert::Infallible, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter, StoreErrorKind,
    algorithm::{FixedWindow, Gcra},
    key::{Global, from_fn},
    observe::Metrics,
    response::AsError,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt};

use crate::at_once::at_once;
use crate::support::{Echo, broken, by_hand};
use crate::tokio_time::store;

/// A recorder for this thread, with one bucket of a minute in each histogram.
fn prometheus() -> (metrics::LocalRecorderGuard<'static>, PrometheusHandle) {
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Prefix("tollgate".into()), &[60.0]);
    let recorder = builder.unwrap().build_recorder();
    let handle = recorder.handle();
    // It lives as long as the test's process.
    let recorder = Box::leak(Box::new(recorder));
    (metrics::set_default_local_recorder(recorder), handle)
}

/// The samples of this metric, in alphabetical order, without its name.
fn samples(handle: &PrometheusHandle, metric: &str) -> Vec<String> {
    let rendered = handle.render();
    let of_metric = rendered
        .lines()
        .filter_map(|line| line.strip_prefix(metric));
    let mut samples: Vec<_> = of_metric
        .filter(|line| line.starts_with('{') && !line.ends_with("} 0"))
        .map(str::to_owned)
        .collect();
    samples.sort();
    samples
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
    let (_recorder, handle) = prometheus();
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
    assert_eq!(
        samples(&handle, "tollgate_requests"),
        [
            r#"{limit="api",outcome="admitted"} 2"#,
            r#"{limit="api",outcome="exempt"} 1"#,
            r#"{limit="api",outcome="no_key"} 2"#,
            r#"{limit="api",outcome="refused"} 1"#,
            r#"{limit="api",outcome="rejected"} 1"#,
            r#"{limit="api",outcome="shadow_refused"} 1"#,
        ]
    );
    assert_eq!(
        samples(&handle, "tollgate_units"),
        [
            r#"{limit="api",outcome="admitted"} 9"#,
            r#"{limit="api",outcome="refused"} 3"#,
            r#"{limit="api",outcome="shadow_refused"} 2"#,
        ]
    );
    assert_eq!(
        samples(&handle, "tollgate_policy_requests"),
        [
            r#"{limit="api",policy="daily",outcome="admitted"} 2"#,
            r#"{limit="api",policy="hourly",outcome="admitted"} 2"#,
            r#"{limit="api",policy="hourly",outcome="refused"} 1"#,
            r#"{limit="api",policy="hourly",outcome="shadow_refused"} 1"#,
            r#"{limit="api",policy="tried",outcome="admitted"} 1"#,
            r#"{limit="api",policy="tried",outcome="shadow_refused"} 1"#,
        ]
    );
    // The next hour begins more than a minute later.
    assert_eq!(
        samples(&handle, "tollgate_wait_duration_bucket"),
        ["refused", "shadow_refused"]
            .map(|outcome| format!(r#"{{limit="api",outcome="{outcome}",le="+Inf"}} 1"#))
    );
    assert_eq!(samples(&handle, "tollgate_store_duration_count"), [""; 0]);
}

#[tokio::test]
async fn while_the_store_is_down_the_policies_of_the_limiter_in_its_place_are_counted() {
    let (_recorder, handle) = prometheus();
    let daily = FixedWindow::new(Quota::per_day(100)).named("daily");
    let here = FixedWindow::new(Quota::per_day(6)).named("daily-here");
    let minutely = FixedWindow::new(Quota::per_minute(6)).named("minutely-here");
    let here = RateLimiter::new((here, minutely), by_hand().1);
    let mut service = RateLimitLayer::new(daily, broken(StoreErrorKind::Unavailable), Global)
        .cost(|number: &u32| *number)
        .on_store_error(here)
        .respond_with(AsError)
        .enforce(|number: &u32, _: Option<&()>| *number != 3)
        .observe(Metrics::new("down"))
        .layer(Echo::default());
    // The last two are over the limit, and the very last passes all the same.
    send(&mut service, [1, 4, 2, 3]).await;
    assert_eq!(
        samples(&handle, "tollgate_requests"),
        [r#"{limit="down",outcome="degraded"} 4"#]
    );
    assert_eq!(
        samples(&handle, "tollgate_units"),
        [
            r#"{limit="down",outcome="degraded"} 5"#,
            r#"{limit="down",outcome="degraded_refused"} 5"#,
        ]
    );
    assert_eq!(
        samples(&handle, "tollgate_policy_requests"),
        [
            r#"{limit="down",policy="daily-here",outcome="degraded"} 2"#,
            r#"{limit="down",policy="daily-here",outcome="degraded_refused"} 2"#,
            r#"{limit="down",policy="minutely-here",outcome="degraded"} 2"#,
            r#"{limit="down",policy="minutely-here",outcome="degraded_refused"} 2"#,
        ]
    );
    assert_eq!(
        samples(&handle, "tollgate_wait_duration_count"),
        [r#"{limit="down",outcome="degraded_refused"} 2"#]
    );
}

#[tokio::test]
async fn the_calls_of_a_limiter_are_counted_as_what_became_of_them() {
    let (_recorder, handle) = prometheus();
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
    let of = |outcome, count| format!(r#"{{limit="mails",outcome="{outcome}"}} {count}"#);
    assert_eq!(
        samples(&handle, "tollgate_requests"),
        [
            of("admitted", 3),
            of("debited", 1),
            of("refused", 1),
            of("store_error", 1),
        ]
    );
    assert_eq!(
        samples(&handle, "tollgate_units"),
        [of("admitted", 11), of("debited", 3), of("refused", 6)]
    );
    assert_eq!(
        samples(&handle, "tollgate_policy_requests"),
        [
            r#"{limit="mails",policy="daily",outcome="admitted"} 3"#,
            r#"{limit="mails",policy="daily",outcome="refused"} 1"#,
        ]
    );
    assert_eq!(
        samples(&handle, "tollgate_wait_duration_count"),
        [of("refused", 1)]
    );
    assert_eq!(
        samples(&handle, "tollgate_store_duration_count"),
        [r#"{limit="mails"} 6"#]
    );
    assert!(!handle.render().contains("s3cret"));
}

#[tokio::test(start_paused = true)]
async fn how_long_a_call_has_waited_is_recorded_where_it_has() {
    let (_recorder, handle) = prometheus();
    let one_at_a_time = Gcra::new(Quota::per_second(10)).burst(1);
    let limiter = RateLimiter::new(one_at_a_time, store());
    let limiter = limiter.observe(Metrics::new("jobs"));
    for _ in 0..3 {
        limiter.until_ready("bob", 1).await.unwrap();
    }
    assert_eq!(
        samples(&handle, "tollgate_requests"),
        [r#"{limit="jobs",outcome="admitted"} 3"#]
    );
    assert_eq!(
        samples(&handle, "tollgate_wait_duration_count"),
        [r#"{limit="jobs",outcome="admitted"} 2"#]
    );
    let [sum] = &samples(&handle, "tollgate_wait_duration_sum")[..] else {
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
    let handle = recorder.handle();
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
    assert_eq!(
        samples(&handle, "tollgate_requests"),
        [
            format!(r#"{{limit="crowd",outcome="admitted"}} {PLANS}"#),
            format!(
                r#"{{limit="crowd",outcome="refused"}} {}"#,
                (THREADS - 1) * PLANS
            ),
        ]
    );
    let samples = samples(&handle, "tollgate_policy_requests");
    let count = |outcome: &str| {
        let outcome = format!(r#"outcome="{outcome}""#);
        let of_outcome = samples.iter().filter(|sample| sample.contains(&outcome));
        let numbers = of_outcome.map(|sample| sample.rsplit(' ').next().unwrap().parse::<u64>());
        let numbers: Vec<_> = numbers.map(Result::unwrap).collect();
        (numbers.len(), numbers.iter().sum::<u64>())
    };
    // Each that has counters of its own is counted by its name.
    for sample in samples.iter().filter(|sample| !sample.contains("_OTHER")) {
        let expected = if sample.contains("admitted") {
            " 1"
        } else {
            " 7"
        };
        assert!(sample.ends_with(expected), "{sample}");
    }
    assert_eq!(count("admitted"), (101, PLANS), "{samples:?}");
    assert_eq!(
        count("refused"),
        (101, (THREADS - 1) * PLANS),
        "{samples:?}"
    );
}

#[tokio::test]
async fn how_full_a_store_is_can_be_recorded() {
    let (_recorder, handle) = prometheus();
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
    assert_eq!(
        samples(&handle, "tollgate_store_keys"),
        [r#"{limit="full"} 2"#]
    );
    assert_eq!(
        samples(&handle, "tollgate_store_overflow"),
        [r#"{limit="full"} 3"#]
    );
}
