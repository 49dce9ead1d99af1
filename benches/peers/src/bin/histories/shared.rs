//! What several share: threads one key, requests several limits, keys a store with little room.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use axum::{Router, routing::get};
use http::StatusCode;
use tollgate::{
    Quota, RateLimiter,
    algorithm::{FixedWindow, TokenBucket},
    store::LocalStore,
};
use tollgate_peers::{
    limit::{Answer, Limit},
    own::{Bare, token_bucket},
    peers::{
        AxumGcra, Governor, Limitador, Limiter, SkpRatelimit, ThrottleKit, Throttlecrab, Trypema,
        governor as governor_peer,
    },
    ready,
};
use tower::ServiceExt;

use crate::{
    routers::request,
    verdict::{By, history, row},
};

pub(crate) fn all() {
    threads();
    several_limits();
    forgotten();
}

const HOUR: Limit = Limit {
    interval: Duration::from_secs(3_600),
    burst: 1_000,
};

fn threads() {
    let text = "1 000 units, of which none comes back meanwhile, and two threads that ask 1 000 times each for the same \
        key: the most that were admitted in 200 tries with a key of their own.";
    history("Two threads at the limit", text);
    let overshoot = "best-effort under concurrency and may temporarily overshoot";
    race("tollgate", &Bare::new(token_bucket(HOUR)), By::Promise);
    race("governor", &Governor::new(HOUR), By::Promise);
    race("axum_gcra", &AxumGcra::new(HOUR), By::Promise);
    race(
        "throttlecrab, behind a lock",
        &Throttlecrab::new(HOUR),
        By::Promise,
    );
    race("throttle-kit", &ThrottleKit::new(HOUR), By::Promise);
    race("skp-ratelimit", &SkpRatelimit::new(HOUR), By::Promise);
    race("trypema", &Trypema::new(HOUR), By::Words(overshoot));
    race("limitador", &Limitador::new(HOUR), By::Promise);
}

fn race(name: &str, limiter: &impl Limiter<String>, by: By) {
    let of_key = |number: u32| {
        let (key, barrier) = (format!("key {number}"), Barrier::new(2));
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    barrier.wait();
                    let passed = (0..1_000).filter(|_| limiter.admits(&key)).count();
                    admitted.fetch_add(passed as u64, SeqCst);
                });
            }
        });
        admitted.into_inner()
    };
    // Whatever is seen below is of two threads: alone all get what they should.
    let alone = "alone".to_owned();
    let admitted = (0..2_000).filter(|_| limiter.admits(&alone)).count();
    assert_eq!(admitted, 1_000, "{name}");
    let all: Vec<_> = (0..200).map(of_key).collect();
    let (least, most) = (
        all.iter().min().expect("200"),
        all.iter().max().expect("200"),
    );
    // The one that is the further from what is promised.
    row(
        name,
        1_000..=1_000,
        if *most > 1_000 { *most } else { *least },
        by,
    );
}

fn several_limits() {
    let text = "2 at once with one back each 50 ms, and 8 in all. 30 requests, 10 ms apart, of which the first limit \
        refuses most, and then one each 60 ms: those that were admitted in all. Where a refusal charges the \
        limits that stand before the one that refused, they are fewer.";
    history("Several limits, one of which refuses", text);
    let spacing = || Quota::new(20, Duration::from_secs(1));
    let limits = (
        FixedWindow::new(Quota::per_day(8)),
        TokenBucket::new(spacing()).burst(2),
    );
    let limiter = RateLimiter::new(limits, LocalStore::new());
    row(
        "tollgate, a tuple",
        8..=8,
        admitted_in_all(|| ready(limiter.check("key")).expect("memory").is_admitted()),
        By::Promise,
    );

    // Two windows, as it has no other limits: 2 in a second, and 8 in an hour.
    let limits = [(8, Duration::from_secs(3_600)), (2, Duration::from_secs(1))];
    let limiter = Limitador::per_window(&limits);
    row(
        "limitador",
        8..=8,
        admitted_slowly(|| limiter.admits_cost("key", 1)),
        By::Promise,
    );

    let all = Limit {
        interval: Duration::from_secs(86_400),
        burst: 8,
    };
    let few = Limit {
        interval: Duration::from_millis(50),
        burst: 2,
    };
    let config = axum_governor::GovernorConfigBuilder::default()
        .with_extractor(axum_governor::extractor::Global)
        .quota_default(governor_peer::quota(all).into())
        .stack(
            "spacing",
            axum_governor::extractor::Global,
            governor_peer::quota(few).into(),
        )
        .finish();
    let layer = axum_governor::GovernorLayer::new(config.expect("valid"));
    let router = Router::new()
        .route("/", get(|| async {}))
        .layer(layer)
        .with_state::<()>(());
    let admitted = admitted_in_all(|| {
        let response = ready(router.clone().oneshot(request("/", 1)));
        response.expect("infallible").status() == StatusCode::OK
    });
    row(
        "axum-governor, `stack`",
        8..=8,
        admitted,
        By::Nothing("refusals charge the first limit"),
    );
}

fn admitted_in_all(mut admits: impl FnMut() -> bool) -> u64 {
    let waits = [10; 30].into_iter().chain([60; 20]);
    let admitted = waits.filter(|millis| {
        thread::sleep(Duration::from_millis(*millis));
        admits()
    });
    admitted.count() as u64
}

/// The same with a second where the others have 50 ms.
fn admitted_slowly(mut admits: impl FnMut() -> bool) -> u64 {
    let mut admitted = 0;
    for _ in 0..5 {
        admitted += (0..10).filter(|_| admits()).count() as u64;
        thread::sleep(Duration::from_millis(1_050));
    }
    admitted
}

fn forgotten() {
    let text = "Room for 1 000 keys. One is over its limit, of which nothing comes back, then 100 000 others come: how \
        many more requests of the first are admitted.";
    history("A flood of keys", text);
    let limit = Limit::that_is(Answer::Refused, 1);
    let store = LocalStore::builder().max_keys(1_000).build();
    let limiter = RateLimiter::new(token_bucket(limit), store);
    row(
        "tollgate",
        0..=0,
        after_flood(|key| ready(limiter.check(key)).expect("memory").is_admitted()),
        By::Promise,
    );
    let limiter = Limitador::with_room_for(1_000, &[(2, Duration::from_secs(3_600))]);
    let limited = "It'll store only a limited amount of 'qualified counters'";
    row(
        "limitador",
        0..=0,
        after_flood(|key| limiter.admits_cost(key, 1)),
        By::Words(limited),
    );
}

fn after_flood(mut admits: impl FnMut(&str) -> bool) -> u64 {
    for _ in 0..5 {
        // More than once, as a cache would keep what is asked for often.
        admits("the first");
    }
    for number in 0..100_000 {
        admits(&format!("key {number}"));
    }
    // What a cache puts off.
    thread::sleep(Duration::from_millis(500));
    (0..5).filter(|_| admits("the first")).count() as u64
}
