//! Instructions beside governor's and tower_governor's, counted by callgrind: they repeat where
//! times don't.
//!
//! `cargo bench -p tollgate-benches --bench instructions` prints a table, and fails if a ratio is
//! more than its bound. Those are what was measured and 0.02 to 0.03 more: so that nobody makes a
//! decision slower without noticing. If you make it faster, lower them. `scripts/instructions`
//! installs valgrind first, if it is not there.

use std::{
    convert::Infallible,
    env,
    future::Future,
    hash::Hash,
    hint::black_box,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    pin::{Pin, pin},
    process::ExitCode,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{body::Body, extract::ConnectInfo};
use governor::DefaultKeyedRateLimiter;
use http::{HeaderValue, Method, Request, Response, header};
use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate::{
    Quota, RateLimitLayer, RateLimiter,
    algorithm::TokenBucket,
    choice::{ByRequest, by_request},
    key::{Key, PeerIp},
    observe::Metrics,
    response::{Fields, Http},
    rules::{RuleKey, RuleLimits, Rules},
    store::{Answer, AsKey, Ask, LocalStore, Store},
};
use tollgate_benches::callgrind::instructions_of_a_call;
use tower::{Layer, Service};
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

const KEYS: u32 = 1_000;
const CALLS: usize = 20_000;

/// What is counted, against which peer; of a layer, what it adds to the bare service. `bare` is
/// what the layer does to decide.
const COMPARISONS: &[(&str, &str, Option<&str>, f64)] = &[
    ("check, address", "governor, address", None, 0.67),
    ("bare, address", "governor, address", None, 0.63),
    ("check, string", "governor, string", None, 0.75),
    ("bare, string", "governor, string", None, 0.71),
    ("bare, refused", "governor, refused", None, 0.61),
    ("layer", "tower_governor", Some("service"), 0.78),
    (
        "layer, fields",
        "tower_governor, headers",
        Some("service"),
        0.67,
    ),
    ("layer, counted", "tower_governor", Some("service"), 1.46),
    // Eight rules of a file; the same limits in one layer that is written in Rust, and chooses by
    // method and path.
    ("rules", "tower_governor", Some("service"), 2.10),
    (
        "rules, fields",
        "tower_governor, headers",
        Some("service"),
        0.93,
    ),
    ("chosen", "tower_governor", Some("service"), 0.96),
    (
        "chosen, fields",
        "tower_governor, headers",
        Some("service"),
        0.74,
    ),
];

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
    println!("| what | instructions | beside | its | ratio | at most |");
    println!("|---|---|---|---|---|---|");
    let mut passed = true;
    for (ours, peer, over, at_most) in COMPARISONS {
        let over = over.map_or(0.0, count);
        let [counted, its] = [ours, peer].map(|name| count(name) - over);
        let ratio = counted / its;
        let is_less = ratio <= *at_most;
        let mark = if is_less { "" } else { "**" };
        println!(
            "| {ours} | {counted:.0} | {peer} | {its:.0} | {mark}{ratio:.2}{mark} | {at_most:.2} |"
        );
        passed &= is_less;
    }
    if passed {
        return ExitCode::SUCCESS;
    }
    eprintln!("a decision takes more instructions than it may");
    ExitCode::FAILURE
}

/// Instructions of one call, of a process of its own.
fn count(name: &str) -> f64 {
    instructions_of_a_call(&["--subject", name], ("measured_calls", CALLS))
}

fn subject(name: &str) {
    let limiter = || RateLimiter::new(token_bucket(), LocalStore::new());
    let text_limiter = || RateLimiter::new(token_bucket(), LocalStore::new());
    let chosen = || RateLimitLayer::new(choice(), LocalStore::new(), PeerIp::new());
    match name {
        "check, address" => run(addresses(), check(limiter())),
        "bare, address" => run(addresses(), bare(token_bucket())),
        "governor, address" => run(addresses(), governor(1, 1_000_000_000)),
        "check, string" => run(strings(), check(text_limiter())),
        "bare, string" => run(strings(), bare(token_bucket())),
        "governor, string" => run(strings(), governor(1, 1_000_000_000)),
        "bare, refused" => run(addresses(), bare(refusing())),
        "governor, refused" => run(addresses(), governor(3_600, 1)),
        "service" => serve(Text),
        "layer" => serve(
            layer()
                .respond_with(Http::new().fields(Fields::Off))
                .layer(Text),
        ),
        "layer, counted" => {
            let recorder = PrometheusBuilder::new().install_recorder();
            recorder.expect("the only recorder");
            let off = layer().respond_with(Http::new().fields(Fields::Off));
            serve(off.observe(Metrics::new("api")).layer(Text));
        }
        "layer, fields" => serve(layer().layer(Text)),
        "chosen" => serve(
            chosen()
                .respond_with(Http::new().fields(Fields::Off))
                .layer(Text),
        ),
        "chosen, fields" => serve(chosen().layer(Text)),
        "rules" => serve(
            rules()
                .respond_with(Http::new().fields(Fields::Off))
                .layer(Text),
        ),
        "rules, fields" => serve(rules().layer(Text)),
        "tower_governor" => {
            let config = governor_config().finish().expect("a valid quota");
            serve(GovernorLayer::new(Arc::new(config)).layer(Text));
        }
        "tower_governor, headers" => {
            let config = governor_config().use_headers().finish();
            serve(GovernorLayer::new(Arc::new(config.expect("a valid quota"))).layer(Text));
        }
        _ => panic!("there is no subject {name}"),
    }
}

/// Never used up, and never as good as fresh.
fn token_bucket() -> TokenBucket {
    TokenBucket::new(Quota::per_second(1)).burst(1_000_000_000)
}

/// Used up by the first call.
fn refusing() -> TokenBucket {
    TokenBucket::new(Quota::per_hour(1))
}

fn check<K: Key + AsKey<K>>(
    limiter: RateLimiter<TokenBucket, LocalStore<TokenBucket, K>>,
) -> impl FnMut(&K) -> bool {
    move |key| {
        let decision = match pin!(limiter.check(key)).poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(decision) => decision,
            Poll::Pending => unreachable!("a store in memory is never pending"),
        };
        decision.expect("nor does it fail").is_admitted()
    }
}

fn bare<K: Key + AsKey<K>>(algorithm: TokenBucket) -> impl FnMut(&K) -> bool {
    let store: LocalStore<TokenBucket, K> = LocalStore::new();
    move |key| match store.decide(&algorithm, key, Ask::Charge(1)) {
        Answer::Now(Ok(verdict)) => verdict.admitted,
        _ => unreachable!("a store in memory answers now"),
    }
}

fn governor<K: Hash + Eq + Clone>(seconds: u64, burst: u32) -> impl FnMut(&K) -> bool {
    let quota = governor::Quota::with_period(Duration::from_secs(seconds)).expect("not zero");
    let quota = quota.allow_burst(NonZeroU32::new(burst).expect("not zero"));
    let limiter: DefaultKeyedRateLimiter<K> = governor::RateLimiter::keyed(quota);
    move |key| limiter.check_key(key).is_ok()
}

fn layer() -> RateLimitLayer<TokenBucket, LocalStore<TokenBucket, IpAddr>, PeerIp> {
    let algorithm = token_bucket().named("api");
    RateLimitLayer::new(algorithm, LocalStore::new(), PeerIp::new())
}

/// Eight limits, of which the last is for these requests.
fn choice() -> ByRequest<impl Fn(&Request<()>) -> TokenBucket + Clone> {
    let limits: Arc<[_]> = (1..=8)
        .map(|number| token_bucket().named(format!("r{number}")))
        .collect();
    by_request(move |request: &Request<()>| {
        let (method, path) = (request.method(), request.uri().path());
        let posted = (1..8).find(|number| {
            let rest = path.strip_prefix("/r");
            let own = rest.and_then(|rest| rest.strip_prefix(ROUTES[number - 1]));
            method == Method::POST && own.is_some_and(|id| !id.contains('/'))
        });
        limits[posted.map_or(7, |number| number - 1)].clone()
    })
}

const ROUTES: [&str; 7] = ["1/", "2/", "3/", "4/", "5/", "6/", "7/"];

/// The last of eight rules of a file is the same limit.
fn rules() -> RateLimitLayer<Rules, LocalStore<RuleLimits, RuleKey>, Rules> {
    let rule = |name: &str, route: &str| {
        serde_json::json!({
            "name": name,
            "routes": route,
            "key": "address",
            "limit": { "algorithm": "token-bucket", "quota": "1/s", "burst": 1_000_000_000 },
        })
    };
    let mut list: Vec<_> = (1..8)
        .map(|number| rule(&format!("r{number}"), &format!("POST /r{number}/{{id}}")))
        .collect();
    list.push(rule("api", "GET /"));
    let rules = Rules::new();
    let file = serde_json::json!({ "rules": list });
    rules.replace(file).expect("a file of rules");
    RateLimitLayer::new(rules.clone(), LocalStore::new(), rules)
}

fn governor_config() -> GovernorConfigBuilder<
    tower_governor::key_extractor::PeerIpKeyExtractor,
    governor::middleware::NoOpMiddleware,
> {
    let mut config = GovernorConfigBuilder::default();
    config.per_second(1).burst_size(1_000_000_000);
    config
}

/// In an order that says nothing about their hashes.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B1)
}

fn addresses() -> Vec<IpAddr> {
    let address = |number| Ipv4Addr::from(scattered(number)).into();
    (0..KEYS).map(address).collect()
}

fn strings() -> Vec<String> {
    let string = |number| format!("customer-{:08x}", scattered(number));
    (0..KEYS).map(string).collect()
}

/// Keys are known, and what is to be refused is refused, before calls are counted.
fn run<K>(keys: Vec<K>, mut call: impl FnMut(&K) -> bool) {
    for _ in 0..3 {
        for key in &keys {
            call(key);
        }
    }
    measured_calls(&keys, |key| black_box(call(key)));
}

#[inline(never)]
fn measured_calls<K>(keys: &[K], mut call: impl FnMut(&K) -> bool) {
    for key in keys.iter().cycle().take(CALLS) {
        call(key);
    }
}

/// Serves a request of each peer in turn, polled where it is called.
fn serve<S>(mut service: S)
where
    S: Service<Request<()>, Response = Response<Body>, Error: std::fmt::Debug>,
{
    let peers: Vec<SocketAddr> = (0..KEYS)
        .map(|peer| SocketAddr::from((scattered(peer).to_be_bytes(), 50_000)))
        .collect();
    let mut cx = Context::from_waker(Waker::noop());
    run(peers, move |peer| {
        let mut request = Request::new(());
        request.extensions_mut().insert(ConnectInfo(*peer));
        assert!(service.poll_ready(&mut cx).is_ready());
        let Poll::Ready(response) = pin!(service.call(request)).poll(&mut cx) else {
            unreachable!("nothing waits here");
        };
        let response = black_box(response).expect("it never fails");
        assert_eq!(response.status(), 200);
        true
    });
}

/// A short text, from a boxed future, as axum's routes answer.
#[derive(Clone)]
struct Text;

impl Service<Request<()>> for Text {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        Box::pin(async {
            let mut response = Response::new(Body::empty());
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, text);
            Ok(response)
        })
    }
}
