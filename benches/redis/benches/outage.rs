//! What a decision costs while Redis is known to be down and a limiter in this process decides,
//! beside the same decision in memory.
//!
//! `cargo bench -p tollgate-redis-benches --bench outage` counts the instructions of both by
//! callgrind, which repeat, and fails if their ratio is more than its bound; `scripts/instructions`
//! installs valgrind first, if it is not there. Then it prints the times: batches of both take
//! turns in one run, and their medians are compared. No server is needed: nobody listens where the
//! store looks for one.

use std::{
    convert::Infallible,
    env,
    future::{Future, Ready, ready},
    hint::black_box,
    net::{IpAddr, SocketAddr},
    pin::pin,
    process::ExitCode,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::types::{Builder, config::Config};
use http::{Request, Response};
use http_body_util::Full;
use tokio::runtime::Runtime;
use tollgate::{
    Quota, RateLimitLayer, RateLimiter, StoreErrorKind,
    algorithm::TokenBucket,
    key::PeerIp,
    response::{Fields, Http},
    store::{LocalStore, RedisStore},
};
use tollgate_benches::callgrind::instructions_of_a_call;
use tower::{Layer, Service};

const CALLS: usize = 20_000;
const REQUESTS_PER_BATCH: usize = 100_000;
const BATCHES: usize = 31;
const PEERS: u32 = 1_000;
const SUBJECTS: [&str; 3] = ["service", "in memory", "Redis down"];

/// How many times the instructions of a layer in memory a layer takes while Redis is down.
const AT_MOST: f64 = 4.2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, flag, name] = &arguments[..]
        && flag == "--subject"
    {
        subject(name)(CALLS);
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let over_service = |[service, in_memory, down]: [f64; 3]| [in_memory - service, down - service];
    let counts = over_service(SUBJECTS.map(count));
    let times = over_service(times());
    println!("| what | in memory | while Redis is down | ratio | at most |");
    println!("|---|---|---|---|---|");
    let ratio = |[in_memory, down]: [f64; 2]| down / in_memory;
    for (what, measured, at_most) in [
        (
            "instructions of a request",
            counts,
            &*format!("{AT_MOST:.2}"),
        ),
        ("ns a request", times, ""),
    ] {
        let [in_memory, down] = measured;
        println!(
            "| {what} | {in_memory:.0} | {down:.0} | {:.2} | {at_most} |",
            ratio(measured)
        );
    }
    if ratio(counts) <= AT_MOST {
        return ExitCode::SUCCESS;
    }
    eprintln!("a decision takes more instructions than it may while Redis is down");
    ExitCode::FAILURE
}

/// Instructions of one request, of a process of its own.
fn count(name: &str) -> f64 {
    instructions_of_a_call(&["--subject", name], ("measured_calls", CALLS))
}

/// The median of what a request of each subject takes, in nanoseconds.
fn times() -> [f64; 3] {
    let batches = if tollgate_benches::quick() {
        3
    } else {
        BATCHES
    };
    let mut subjects = SUBJECTS.map(subject);
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..batches {
        for (serve, times) in subjects.iter_mut().zip(&mut times) {
            let start = Instant::now();
            serve(REQUESTS_PER_BATCH);
            times.push(start.elapsed().as_nanos() as f64 / REQUESTS_PER_BATCH as f64);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// What serves so many requests.
type Serve = Box<dyn FnMut(usize)>;

fn subject(name: &str) -> Serve {
    match name {
        "service" => serves(Text),
        "in memory" => {
            let limit = RateLimitLayer::new(token_bucket(), LocalStore::new(), PeerIp::new());
            let off = limit.respond_with(Http::new().fields(Fields::Off));
            serves(off.layer(Text))
        }
        "Redis down" => {
            let (runtime, store) = redis_down();
            let here = RateLimiter::new(token_bucket(), LocalStore::<_, IpAddr>::new());
            let limit = RateLimitLayer::new(token_bucket(), store, PeerIp::new());
            let off = limit.respond_with(Http::new().fields(Fields::Off));
            let mut serve = serves(off.on_store_error(here).layer(Text));
            Box::new(move |requests| {
                let _inside = runtime.enter();
                serve(requests);
            })
        }
        _ => panic!("there is no subject {name}"),
    }
}

/// Never used up, and never as good as fresh.
fn token_bucket() -> TokenBucket {
    let bucket = TokenBucket::new(Quota::per_second(1)).burst(1_000_000_000);
    bucket.named("api")
}

/// A store that knows its Redis to be down, and the runtime in which it has found out; nothing runs
/// there any more.
fn redis_down() -> (Runtime, RedisStore) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // Nobody listens there: only root could.
    let config = Config::from_url("redis://127.0.0.1:1").expect("an address");
    let store = RedisStore::new(Builder::from_config(config).build().expect("a client"));
    let limiter = RateLimiter::new(token_bucket(), store.clone());
    // Under valgrind the first attempt to connect takes longer than the deadline.
    let start = Instant::now();
    loop {
        let asked = runtime.block_on(async { limiter.check(&7_u32).await });
        match asked.expect_err("nobody answers").kind() {
            StoreErrorKind::Unavailable => return (runtime, store),
            kind => assert!(start.elapsed() < Duration::from_secs(30), "{kind:?}"),
        }
    }
}

/// Serves a request of each peer in turn, polled where it is called. All peers are known before.
fn serves<S>(mut service: S) -> Serve
where
    S: Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible> + 'static,
{
    // In an order that says nothing about their hashes.
    let scattered = |number: u32| number.wrapping_mul(0x9E37_79B1).to_be_bytes();
    let peers: Vec<SocketAddr> = (0..PEERS)
        .map(|peer| SocketAddr::from((scattered(peer), 50_000)))
        .collect();
    let mut serve = move |peer: &SocketAddr| {
        let mut cx = Context::from_waker(Waker::noop());
        let mut request = Request::new(());
        request.extensions_mut().insert(*peer);
        assert!(service.poll_ready(&mut cx).is_ready());
        let Poll::Ready(response) = pin!(service.call(request)).poll(&mut cx) else {
            unreachable!("nothing waits here");
        };
        assert_eq!(black_box(response).expect("it never fails").status(), 200);
    };
    let mut knows_peers = false;
    Box::new(move |requests| {
        if !knows_peers {
            peers.iter().for_each(&mut serve);
            knows_peers = true;
        }
        measured_calls(&peers, requests, &mut serve);
    })
}

#[inline(never)]
fn measured_calls(peers: &[SocketAddr], requests: usize, mut call: impl FnMut(&SocketAddr)) {
    for peer in peers.iter().cycle().take(requests) {
        call(peer);
    }
}

/// A short text.
#[derive(Clone)]
struct Text;

impl Service<Request<()>> for Text {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::new(Bytes::from_static(b"hello")))))
    }
}
