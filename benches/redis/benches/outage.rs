//! What a decision costs while Redis is known to be down and a limiter in this process decides,
//! beside the same decision in memory.
//!
//! `cargo bench -p tollgate-redis-benches --bench outage` counts the instructions of both by
//! callgrind, which repeat, and fails if their ratio is more than its bound; `scripts/instructions`
//! installs valgrind first, if it is not there. No server is needed: nobody listens where the store
//! looks for one.

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
const PEERS: u32 = 1_000;

/// How many times the instructions of a layer in memory a layer takes while Redis is down.
const AT_MOST: f64 = 4.2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, flag, name] = &arguments[..]
        && flag == "--subject"
    {
        subject(name);
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let service = count("service");
    let [in_memory, down] = ["in memory", "Redis down"].map(|name| count(name) - service);
    let ratio = down / in_memory;
    println!("| what | in memory | while Redis is down | ratio | at most |");
    println!("|---|---|---|---|---|");
    println!(
        "| instructions of a request | {in_memory:.0} | {down:.0} | {ratio:.2} | {AT_MOST:.2} |"
    );
    if ratio <= AT_MOST {
        return ExitCode::SUCCESS;
    }
    eprintln!("a decision takes more instructions than it may while Redis is down");
    ExitCode::FAILURE
}

/// Instructions of one request, of a process of its own.
fn count(name: &str) -> f64 {
    instructions_of_a_call(&["--subject", name], ("measured_calls", CALLS))
}

fn subject(name: &str) {
    match name {
        "service" => serve(Text),
        "in memory" => {
            let limit = RateLimitLayer::new(token_bucket(), LocalStore::new(), PeerIp::new());
            let off = limit.respond_with(Http::new().fields(Fields::Off));
            serve(off.layer(Text));
        }
        "Redis down" => {
            let (runtime, store) = redis_down();
            let here = RateLimiter::new(token_bucket(), LocalStore::<_, IpAddr>::new());
            let limit = RateLimitLayer::new(token_bucket(), store, PeerIp::new());
            let off = limit.respond_with(Http::new().fields(Fields::Off));
            let _inside = runtime.enter();
            serve(off.on_store_error(here).layer(Text));
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

/// Serves a request of each peer in turn, polled where it is called. All peers are known before
/// calls are counted.
fn serve<S>(mut service: S)
where
    S: Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible>,
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
    peers.iter().for_each(&mut serve);
    measured_calls(&peers, serve);
}

#[inline(never)]
fn measured_calls(peers: &[SocketAddr], mut call: impl FnMut(&SocketAddr)) {
    for peer in peers.iter().cycle().take(CALLS) {
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
