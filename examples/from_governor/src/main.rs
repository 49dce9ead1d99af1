//! Sends the same requests to governor, tower_governor and tower's own limit, and to tollgate: they
//! admit the same. The differences are shown too.
//!
//! The chapter `moving_in` of tollgate's docs lists the names of each beside tollgate's.
//!
//! ```text
//! cargo run -p from_governor
//! ```

use std::{net::SocketAddr, num::NonZeroU32, time::Duration};

use axum::{
    BoxError, Router,
    body::Body,
    error_handling::HandleErrorLayer,
    extract::ConnectInfo,
    http::{HeaderMap, Request, StatusCode},
    routing::get,
};
use governor::{
    clock::{Clock as _, FakeRelativeClock},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::keyed::DefaultKeyedStateStore,
};
use tokio::{task::JoinSet, time::Instant};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::{Gcra, LeakyBucket, TokenBucket},
    clock::{Clock, ManualClock},
    key::{Global, PeerIp},
    response::AsError,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, buffer::BufferLayer, service_fn};
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

const HOUR: Duration = Duration::from_secs(3_600);
const TENTH: Duration = Duration::from_millis(100);

/// 100 000 checks of three keys at costs of 1 to 6, with a manual clock for each crate.
fn governor() {
    let five = NonZeroU32::new(5).expect("not zero");
    let quota = governor::Quota::with_period(TENTH).expect("not zero");
    let their_clock = FakeRelativeClock::default();
    let theirs = governor::RateLimiter::<_, _, _, NoOpMiddleware<Nanos>>::new(
        quota.allow_burst(five),
        DefaultKeyedStateStore::<u64>::default(),
        their_clock.clone(),
    );

    let our_clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(our_clock.clone()).build();
    let ours = RateLimiter::new(Gcra::new(Quota::one_every(TENTH)).burst(5), store);

    let (mut admitted, mut refused, mut never) = (0, 0, 0);
    for number in 0..100_000_u64 {
        let passed = Duration::from_micros(number * 7_919 % 90_000);
        their_clock.advance(passed);
        our_clock.advance(passed);
        let key = number * 13 % 7 % 3;
        let cost = NonZeroU32::new(1 + (number * 31 % 17 % 6) as u32).expect("not zero");

        let their_wait = match theirs.check_key_n(&key, cost) {
            Ok(Ok(())) => {
                admitted += 1;
                None
            }
            Ok(Err(not_until)) => {
                refused += 1;
                Some(Some(not_until.wait_time_from(their_clock.now())))
            }
            Err(_) => {
                never += 1;
                Some(None)
            }
        };
        let decision = ours.check_cost(&key, cost.get()).now();
        let our_wait = (!decision.is_admitted()).then(|| decision.retry_after());
        assert_eq!(our_wait, their_wait, "check {number}");
    }
    println!(
        "governor: {admitted} admitted, {refused} told to wait, {never} never fit; the same in tollgate"
    );
    assert!(admitted > 10_000 && refused > 10_000 && never > 10_000);
}

/// Five at once and one an hour for each address, behind two routers.
async fn tower_governor() {
    let config = GovernorConfigBuilder::default()
        .per_second(HOUR.as_secs()) // one every so many seconds
        .burst_size(5)
        .finish()
        .expect("neither is zero");
    let theirs = Router::new()
        .route("/", get(async || "hello"))
        .layer(GovernorLayer::new(config));

    let quota = Gcra::new(Quota::one_every(HOUR)).burst(5);
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(clock).build();
    let ours = Router::new()
        .route("/", get(async || "hello"))
        .layer(RateLimitLayer::new(quota, store, PeerIp::new()));

    let callers = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1"];
    let admitted = async |app: &Router| {
        let mut admitted = [0; 4];
        for _ in 0..4 {
            for (caller, admitted) in callers.iter().zip(&mut admitted) {
                *admitted += usize::from(asked(app, caller).await.0 == StatusCode::OK);
            }
        }
        admitted
    };
    let (their_admitted, our_admitted) = (admitted(&theirs).await, admitted(&ours).await);
    println!("tower_governor: {their_admitted:?} of 4 each admitted; ours: {our_admitted:?}");
    assert_eq!(their_admitted, [3, 2, 4, 4]);
    assert_eq!(our_admitted, their_admitted);

    let wait = async |app: &Router| {
        let (status, fields) = asked(app, "192.0.2.1").await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        let wait = fields["retry-after"].to_str().expect("digits");
        wait.parse::<u64>().expect("digits")
    };
    let (their_wait, our_wait) = (wait(&theirs).await, wait(&ours).await);
    println!("after {their_wait} s the request would be refused again; tollgate says {our_wait} s");
    assert!(their_wait < our_wait && our_wait == 3_600);

    let of_six = async |app: &Router, caller| {
        let mut admitted = 0;
        for _ in 0..6 {
            admitted += usize::from(asked(app, caller).await.0 == StatusCode::OK);
        }
        admitted
    };
    let neighbour = "2001:db8::2";
    let (theirs, ours) = (
        of_six(&theirs, neighbour).await,
        of_six(&ours, neighbour).await,
    );
    println!("another address of the same /64: {theirs} of 6 admitted; ours: {ours}");
    assert_eq!((theirs, ours), (5, 1));
}

async fn asked(app: &Router, caller: &str) -> (StatusCode, HeaderMap) {
    let peer = SocketAddr::new(caller.parse().expect("an address"), 50_000);
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(ConnectInfo(peer));
    let response = app.clone().oneshot(request).await.expect("infallible");
    (response.status(), response.headers().clone())
}

/// Shows tokio's paused time, which moves only while every task waits.
#[derive(Clone)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(0).saturating_add(self.0.elapsed())
    }
}

/// When each of five simultaneous calls is released, in hundredths of a second.
async fn released<S>(limited: S) -> Vec<u128>
where
    S: Service<u32, Response = Instant, Future: Send> + Clone + Send + 'static,
    S::Error: std::fmt::Debug + Send,
{
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for number in 0..5 {
        calls.spawn(limited.clone().oneshot(number));
    }
    let mut released: Vec<_> = calls
        .join_all()
        .await
        .into_iter()
        .map(|answer| answer.expect("nobody is refused") - start)
        .map(|waited| (waited.as_millis() + 5) / 10)
        .collect();
    released.sort_unstable();
    released
}

/// Calls that wait for their turn, with tokio's time.
async fn tower_limit() {
    let work = service_fn(async |_: u32| Ok::<_, BoxError>(Instant::now()));
    let theirs = |calls| {
        ServiceBuilder::new()
            .layer(BufferLayer::new(16))
            .rate_limit(calls, TENTH)
            .service(work)
    };

    let clock = TokioClock(Instant::now());
    let store = LocalStore::builder().clock(clock.clone()).build();
    let queue = LeakyBucket::new(Quota::one_every(TENTH))
        .capacity(16)
        .queue();
    let ours = RateLimitLayer::new(queue, store, Global).respond_with(AsError::new());

    let (theirs_one, ours_one) = (released(theirs(1)).await, released(ours.layer(work)).await);
    println!("tower's limit of one per tenth: released at {theirs_one:?}; ours: {ours_one:?}");
    assert_eq!(theirs_one, [0, 10, 20, 30, 40]);
    assert_eq!(ours_one, theirs_one);

    let store = LocalStore::builder().clock(clock).build();
    let bursts = TokenBucket::new(Quota::new(2, TENTH)).wait_at_most(HOUR);
    let ours = RateLimitLayer::new(bursts, store, Global).respond_with(AsError::new());
    let (theirs_two, ours_two) = (released(theirs(2)).await, released(ours.layer(work)).await);
    println!("two per tenth: released at {theirs_two:?}; ours, as tokens come: {ours_two:?}");
    assert_eq!(theirs_two, [0, 0, 10, 10, 20]);
    assert_eq!(ours_two, [0, 0, 5, 10, 15]);
}

/// Two routes behind one layer of one call an hour.
async fn tower_limit_of_two_routes() {
    let routes = || {
        let hello = || get(async || "hello");
        Router::new().route("/a", hello()).route("/b", hello())
    };
    let statuses = async |app: Router| {
        let mut statuses = [0; 2];
        for (path, status) in ["/a", "/b"].into_iter().zip(&mut statuses) {
            let request = Request::get(path).body(Body::empty()).expect("a request");
            let response = app.clone().oneshot(request).await.expect("infallible");
            *status = response.status().as_u16();
        }
        statuses
    };

    let theirs = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |_: BoxError| {
            StatusCode::SERVICE_UNAVAILABLE
        }))
        .layer(BufferLayer::new(16))
        .rate_limit(1, HOUR);
    let theirs = statuses(routes().layer(theirs)).await;
    let quota = Gcra::new(Quota::one_every(HOUR));
    let ours = RateLimitLayer::new(quota, LocalStore::new(), Global);
    let ours = statuses(routes().layer(ours)).await;
    println!("tower's limit of one an hour around two routes: {theirs:?}; ours: {ours:?}");
    assert_eq!(theirs, [200, 200], "each route has a limit of its own");
    assert_eq!(ours, [200, 429]);
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    governor();
    tower_governor().await;
    tower_limit().await;
    tower_limit_of_two_routes().await;
}
