//! Limiters that count in windows: what they let through around an edge.

use std::{
    collections::VecDeque,
    future::{self, Ready, poll_fn},
    ops::RangeInclusive,
    task::Poll,
    time::Duration,
};

use skp_ratelimit::{
    Algorithm, FixedWindow as SkpFixed, SlidingLog as SkpLog, SlidingWindow as SkpSliding,
};
use tollgate::{
    Quota,
    algorithm::{FixedWindow, SlidingBuckets, SlidingLog, SlidingWindow},
};
use tollgate_peers::{
    limit::Limit,
    peers::{Limitador, SkpRatelimit, ThrottleKitWindow, Trypema},
};
use tower::{Layer, Service, limit::RateLimitLayer, service_fn, util::ServiceFn};
use tower_resilience_ratelimiter::{RateLimiterLayer, WindowType};

use crate::{
    limiters::{one_unit_only, tollgate},
    subject::{BEGINNING, RealTime, Subject, ToldTime, admits, yes_or_no},
    verdict::{By, history, row},
};

const SECOND: Duration = Duration::from_secs(1);
const MOST: u32 = 10;

pub(crate) fn all() {
    let text = "10 a second. One request opens the window, then come 10 at once shortly before it ends, and 20 at \
        once shortly after: the most that were admitted within 0.6 s. A limiter of fixed windows promises \
        no more than 20, one of a log 10, one that weighs the window before by what is left of it something between.";
    history("The edge of a window", text);
    let quota = Quota::per_second(MOST.into());
    let skp = || skp_ratelimit::Quota::per_second(MOST.into());
    let log = Limit {
        interval: SECOND / MOST,
        burst: MOST,
    };
    let fixed = 0..=20;
    let exact = 0..=10;
    edge(
        "tollgate `SlidingLog`",
        exact.clone(),
        tollgate(SlidingLog::new(quota)),
    );
    edge("tollgate `SlidingBuckets`, 10 ms, strict", exact.clone(), {
        tollgate(SlidingBuckets::new(quota, Duration::from_millis(10)).strict())
    });
    edge(
        "tollgate `SlidingWindow`",
        0..=19,
        tollgate(SlidingWindow::new(quota)),
    );
    edge(
        "tollgate `FixedWindow`, from the first request",
        fixed.clone(),
        tollgate(FixedWindow::new(quota).from_first_request()),
    );
    edge(
        "tower-resilience `SlidingLog`",
        exact.clone(),
        resilience(WindowType::SlidingLog),
    );
    edge(
        "tower-resilience `SlidingCounter`",
        0..=19,
        resilience(WindowType::SlidingCounter),
    );
    edge(
        "tower-resilience `Fixed`",
        fixed.clone(),
        resilience(WindowType::Fixed),
    );
    edge(
        "tower `RateLimitLayer`",
        fixed.clone(),
        tower_limit(MOST, SECOND),
    );
    edge(
        "throttle-kit `SlidingWindowBackend`",
        exact.clone(),
        one_unit_only(ThrottleKitWindow::new(log)),
    );
    edge(
        "trypema",
        exact.clone(),
        one_unit_only(Trypema::per_window(MOST, SECOND)),
    );
    edge(
        "limitador",
        fixed.clone(),
        one_unit_only(Limitador::per_window(&[(MOST, SECOND)])),
    );
    edge(
        "skp-ratelimit `SlidingLog`",
        exact.clone(),
        skp_by(SkpLog::new(), skp()),
    );
    edge(
        "skp-ratelimit `SlidingWindow`",
        0..=19,
        skp_by(SkpSliding::new(), skp()),
    );
    edge(
        "skp-ratelimit `FixedWindow`",
        fixed,
        skp_by(SkpFixed::new(), skp()),
    );
}

fn skp_by(algorithm: impl Algorithm + 'static, quota: skp_ratelimit::Quota) -> Box<dyn Subject> {
    one_unit_only(SkpRatelimit::by(algorithm, quota))
}

fn edge(name: &str, promised: RangeInclusive<u64>, mut subject: Box<dyn Subject>) {
    let subject = &mut *subject;
    let mut admitted = VecDeque::new();
    let mut ask = |subject: &mut dyn Subject, requests: u32| {
        for _ in 0..requests {
            let before = subject.elapsed();
            if admits(subject) {
                admitted.push_back((before, subject.elapsed()));
            }
        }
    };
    ask(subject, 1);
    for requests in [10, 20, 20, 20, 20] {
        let due = if requests == 10 { 850 } else { 100 };
        subject.wait(Duration::from_millis(due));
        ask(subject, requests);
    }
    row(
        name,
        promised,
        most_within(&admitted, Duration::from_millis(600)),
        By::Promise,
    );
}

/// The most that were admitted so that it is certain that they were within this span.
fn most_within(admitted: &VecDeque<(Duration, Duration)>, span: Duration) -> u64 {
    let from = |first: usize| {
        let (earliest, _) = admitted[first];
        let rest = admitted.range(first..);
        rest.take_while(|(_, latest)| *latest - earliest < span)
            .count() as u64
    };
    (0..admitted.len()).map(from).max().unwrap_or(0)
}

fn resilience(window: WindowType) -> Box<dyn Subject> {
    let layer = RateLimiterLayer::builder()
        .limit_for_period(MOST as usize)
        .refresh_period(SECOND)
        .timeout_duration(Duration::ZERO)
        .window_type(window)
        .build()
        .expect("a valid configuration");
    layered(layer)
}

/// tower's own: so many in a period, and one that has to wait counts as refused.
pub(crate) fn tower_limit(most: u32, period: Duration) -> Box<dyn Subject> {
    layered(RateLimitLayer::new(most.into(), period))
}

type Answers = fn(()) -> Ready<Result<(), ()>>;

/// A service under a layer, in a runtime whose time stands still.
fn layered<L>(layer: L) -> Box<dyn Subject>
where
    L: Layer<ServiceFn<Answers>, Service: Service<()> + 'static>,
{
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let mut service = {
        let _entered = runtime.enter();
        layer.layer(service_fn((|()| future::ready(Ok(()))) as Answers))
    };
    let mut last = BEGINNING;
    ToldTime::boxed(move |now, _cost| {
        runtime.block_on(async {
            tokio::time::advance(now - last).await;
            last = now;
            let is_ready = poll_fn(|cx| Poll::Ready(service.poll_ready(cx).is_ready())).await;
            Some(yes_or_no(is_ready && service.call(()).await.is_ok()))
        })
    })
}

/// Those that know requests of several units: so many in a window of whole seconds.
pub(crate) fn weighted(most: u32, window: Duration) -> [(&'static str, Box<dyn Subject>); 2] {
    let trypema = Trypema::per_window(most, window);
    let limitador = Limitador::per_window(&[(most, window)]);
    [
        (
            "trypema",
            RealTime::boxed(move |cost| Some(trypema.ask_cost("key", cost.into()))),
        ),
        (
            "limitador",
            RealTime::boxed(move |cost| Some(yes_or_no(limitador.admits_cost("key", cost.into())))),
        ),
    ]
}
