//! Requests that keep coming during a fault of Redis: what each was answered, and when.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use tokio::time::{Instant, sleep};
use tollgate::{
    OnStoreError, Quota, RateLimit, RateLimitLayer, RateLimiter,
    algorithm::FixedWindow,
    key::{FromFn, from_fn},
    options::WithFallback,
    response::Http,
    store::{RedisConnection, RedisStore},
};
use tollgate_redis_tests::{comes, until, within};
use tower::{Layer, Service, ServiceExt, service_fn, util::BoxCloneSyncService};

/// The deadline of every store here.
pub(crate) const DEADLINE: Duration = Duration::from_millis(250);

/// How much later than its deadline an answer may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(750);

/// What the keys of a test begin with.
pub(crate) const PREFIX: &str = "tollgate";

/// So many tasks send requests.
pub(crate) const TASKS: u32 = 32;

/// A store with the deadline of these tests.
pub(crate) fn store(connection: impl Into<RedisConnection>) -> RedisStore {
    RedisStore::builder(connection).deadline(DEADLINE).build()
}

/// How much [`plenty`] is.
pub(crate) const UNITS: u64 = 10_000_000;

/// A limit that nobody reaches here, and that gives nothing back for more than a year.
pub(crate) fn plenty() -> FixedWindow {
    FixedWindow::new(Quota::new(UNITS, Duration::from_secs(400 * 86_400)))
}

/// What a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Let through, with the fields of a decision.
    Admitted,
    /// Let through without a decision.
    Undecided,
    /// 429.
    Refused,
    /// 503: there was no decision.
    Unavailable,
    /// 500: somebody has to fix it.
    Misconfigured,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) answer: Answer,
    pub(crate) at: Instant,
    pub(crate) took: Duration,
}

pub(crate) type Limited = BoxCloneSyncService<Request<u32>, Response<Bytes>, Infallible>;

type KeyFn = FromFn<fn(&Request<u32>) -> Result<Option<u32>, Infallible>>;

/// A service behind this limit, with this choice for when there is no decision.
pub(crate) fn limited<E>(limit: FixedWindow, store: &RedisStore, on_error: E) -> Limited
where
    E: Clone + Send + Sync + 'static,
    RateLimit<Limited, FixedWindow, RedisStore, KeyFn, Http, WithFallback<E>>:
        Service<Request<u32>, Response = Response<Bytes>, Error = Infallible, Future: Send>,
{
    let key: KeyFn = from_fn(|request| Ok(Some(*request.body() % 24)));
    let layer = RateLimitLayer::new(limit, store.clone(), key);
    let inner = service_fn(async |_| Ok(Response::new(Bytes::new())));
    BoxCloneSyncService::new(layer.on_store_error(on_error).layer(Limited::new(inner)))
}

/// Many tasks that send one request after the other.
pub(crate) struct Traffic {
    seen: Arc<Mutex<Vec<Seen>>>,
    is_over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Traffic {
    /// Through a layer with [`plenty`], and with this choice for when there is no decision.
    pub(crate) fn through(store: &RedisStore, on_error: OnStoreError) -> Self {
        Self::of(TASKS, &[limited(plenty(), store, on_error)])
    }

    /// So many tasks, which are dealt these services.
    pub(crate) fn of(tasks: u32, services: &[Limited]) -> Self {
        let (seen, is_over) = (Arc::default(), Arc::default());
        let task = |(number, service): (u32, &Limited)| {
            let (seen, is_over) = (Arc::clone(&seen), Arc::clone(&is_over));
            tokio::spawn(send(service.clone(), number, seen, is_over))
        };
        let tasks = (0..tasks).zip(services.iter().cycle()).map(task).collect();
        Self {
            seen,
            is_over,
            tasks,
        }
    }

    /// Waits until decisions come.
    pub(crate) async fn is_decided(&self) {
        self.is_answered(Answer::Admitted).await;
    }

    /// Waits until many requests get this answer.
    pub(crate) async fn is_answered(&self, answer: Answer) {
        let since = Instant::now();
        let seen = || count(&self.since(since).collect::<Vec<_>>(), answer);
        comes("an answer", async || seen() > 2 * TASKS as usize).await;
    }

    /// Waits until somebody gets this answer.
    pub(crate) async fn is_answered_at_all(&self, answer: Answer) {
        let since = Instant::now();
        until("an answer", async || {
            self.since(since).find(|seen| seen.answer == answer)
        })
        .await;
    }

    /// The answers so far, from some instant on.
    pub(crate) fn since(&self, since: Instant) -> impl Iterator<Item = Seen> + use<> {
        let seen = self.seen.lock().unwrap().clone();
        seen.into_iter().filter(move |seen| seen.at > since)
    }

    /// Ends the traffic. Every request must have been answered within the deadline.
    pub(crate) async fn end(self) -> Vec<Seen> {
        let seen = self.end_in_any_time().await;
        let slowest = seen.iter().map(|seen| seen.took).max();
        assert!(slowest < Some(DEADLINE + SLACK), "{slowest:?}");
        seen
    }

    /// Ends the traffic over a store with another deadline.
    pub(crate) async fn end_in_any_time(self) -> Vec<Seen> {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            let end = within(Duration::from_secs(10), "the last answer", task).await;
            end.expect("a task that ends");
        }
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// What all keys of the traffic were charged.
pub(crate) async fn charged(store: &RedisStore) -> u64 {
    let limiter = RateLimiter::new(plenty(), store.clone());
    let mut charged = 0;
    for key in 0..24_u32 {
        let look = async || limiter.peek(&key).await.ok();
        charged += UNITS - until("a look", look).await.remaining();
    }
    charged
}

/// How many requests got this answer.
pub(crate) fn count(seen: &[Seen], answer: Answer) -> usize {
    seen.iter().filter(|seen| seen.answer == answer).count()
}

/// How long it took from then on until requests were admitted, and got no other answers any more.
pub(crate) fn recovery(seen: &[Seen], from: Instant) -> Duration {
    let failed = |seen: &&Seen| seen.at > from && seen.answer != Answer::Admitted;
    let last = seen.iter().filter(failed).map(|seen| seen.at).max();
    last.map_or(Duration::ZERO, |last| last - from)
}

async fn send(
    mut service: Limited,
    number: u32,
    log: Arc<Mutex<Vec<Seen>>>,
    is_over: Arc<AtomicBool>,
) {
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        let ready = service.ready().await.unwrap();
        let response = ready.call(Request::new(number)).await.unwrap();
        let seen = Seen {
            answer: read(&response),
            at: Instant::now(),
            took: start.elapsed(),
        };
        log.lock().unwrap().push(seen);
        sleep(Duration::from_millis(2)).await;
    }
}

fn read(response: &Response<Bytes>) -> Answer {
    let is_told = |name: &HeaderName| name.as_str().contains("ratelimit");
    let is_told = response.headers().keys().any(is_told);
    match (response.status(), is_told) {
        (StatusCode::OK, true) => Answer::Admitted,
        (StatusCode::OK, false) => Answer::Undecided,
        (StatusCode::TOO_MANY_REQUESTS, true) => Answer::Refused,
        (StatusCode::SERVICE_UNAVAILABLE, false) => Answer::Unavailable,
        (StatusCode::INTERNAL_SERVER_ERROR, false) => Answer::Misconfigured,
        (status, is_told) => panic!("{status}, with fields: {is_told}"),
    }
}
