//! What a layer adds to a request.

use std::{
    convert::Infallible,
    future::Future,
    hint::black_box,
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Instant,
};

use axum::extract::ConnectInfo;
use http::{HeaderValue, Request, Response, StatusCode, header};
use tollgate::response::{AsError, Fields};
use tollgate_peers::{
    layers,
    limit::{Answer, Limit},
    peers::axum_gcra,
    table,
    turns::{self, SHORT, Turn, Turns, turn_of},
};
use tower::{Layer, Service};

/// The most of a turn.
const REQUESTS: usize = 50_000;
const CALLERS: u32 = 1_000;

const TEXT: &str = "A service that answers a short text from a boxed future, as axum's routes do, called directly, by \
    1 000 callers in turn. *Admitted* compares what each layer adds to the time of the bare service, which takes \
    turns with them: in each group its time is taken off theirs. *Refused* compares, where \
    the service is not called, the whole time of making and refusing a request. The fields are tollgate's default \
    (draft 11), and each peer's own. tower's own layer delays instead of refusing: only what it lets through at once is \
    compared.";

fn main() {
    // axum-governor starts a task.
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();

    table::section("The middleware", TEXT);
    table::head(&[
        "peer",
        "fields",
        "answer",
        "its ns",
        "tollgate's, as a multiple",
    ]);
    let all = Rows::in_passes(|all| {
        for answer in [Answer::Admitted, Answer::Refused] {
            rows(all, answer);
        }
    });
    for ((peer, fields, answer), [bare, mut ours, mut its]) in all {
        if answer == Answer::Admitted {
            (ours, its) = (ours.over(&bare), its.over(&bare));
        }
        let answer = format!("{answer:?}").to_lowercase();
        table::row(&[
            &peer,
            &fields,
            &answer,
            &format!("{:.0}", its.median()),
            &ours.ratio_to(&its),
        ]);
    }
}

type Rows = turns::Rows<(String, &'static str, Answer), 3>;

fn rows(rows: &mut Rows, answer: Answer) {
    let limit = Limit::that_is(answer, CALLERS as usize);
    let off = || requests(layers::tollgate(limit, Fields::Off).layer(Text), answer);
    let on = || {
        requests(
            layers::tollgate(limit, Fields::default()).layer(Text),
            answer,
        )
    };
    let global = || requests(layers::tollgate_global(limit).layer(Text), answer);
    let mut row = |peer: &str, fields, ours: Turn<'static>, its: Turn<'static>| {
        rows.add((peer.to_owned(), fields, answer), || {
            Turns::new(5, 9).take([requests(Text, Answer::Admitted), ours, its])
        });
    };
    let its = requests(layers::tower_governor(limit).layer(Text), answer);
    row("tower_governor", "off", off(), its);
    let its = requests_of_axum_gcra(limit, answer);
    row("axum_gcra", "off", off(), its);
    let its = requests(layers::tower_resilience(limit).layer(Text), answer);
    let by_error = layers::tollgate_global(limit).respond_with(AsError);
    let ours = requests(by_error.layer(Text), answer);
    row(
        "tower-resilience, one bucket, refusing with an error",
        "off",
        ours,
        its,
    );
    // What is too much it delays.
    if answer == Answer::Admitted {
        let its = requests(layers::tower_limit(limit).layer(Text), answer);
        row("tower `RateLimitLayer`, one bucket", "off", global(), its);
    }
    let its = layers::tower_governor_with_headers(limit).layer(Text);
    row(
        "tower_governor `use_headers`",
        "on",
        on(),
        requests(its, answer),
    );
    let its = requests(layers::axum_governor(limit).layer(Text), answer);
    row("axum-governor", "on", on(), its);
    let its = requests(layers::throttle_kit(limit).layer(Text), answer);
    row("throttle-kit", "on", on(), its);
    let its = requests(layers::skp_ratelimit(limit).layer(Text), answer);
    row("skp-ratelimit", "on", on(), its);
}

/// A short text, from a boxed future, with a body of the same type as the request's.
#[derive(Clone)]
struct Text;

impl<B: Default + Send + 'static> Service<Request<B>> for Text {
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<B>) -> Self::Future {
        Box::pin(async {
            let mut response = Response::new(B::default());
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, text);
            Ok(response)
        })
    }
}

fn requests<S, C>(service: S, answer: Answer) -> Turn<'static>
where
    S: Service<Request<axum::body::Body>, Response = Response<C>> + 'static,
{
    requests_with(service, answer, |request, peer| {
        request.extensions_mut().insert(ConnectInfo(peer));
    })
}

/// axum_gcra is for axum 0.7, whose bodies and connect info are other types.
fn requests_of_axum_gcra(limit: Limit, answer: Answer) -> Turn<'static> {
    let service = axum_gcra::layered(limit, Text);
    requests_with(
        service,
        answer,
        |request: &mut Request<axum07::body::Body>, peer| {
            let peer = axum07::extract::ConnectInfo(peer);
            request.extensions_mut().insert(peer);
        },
    )
}

fn requests_with<S, B, C>(
    mut service: S,
    answer: Answer,
    put_peer: impl Fn(&mut Request<B>, SocketAddr) + 'static,
) -> Turn<'static>
where
    S: Service<Request<B>, Response = Response<C>> + 'static,
    B: Default,
{
    let callers: Vec<SocketAddr> = (0..CALLERS)
        .map(|caller| SocketAddr::from((caller.to_be_bytes(), 50_000)))
        .collect();
    let mut cx = Context::from_waker(Waker::noop());
    let mut serve = move |caller: SocketAddr| {
        let mut request = Request::new(B::default());
        put_peer(&mut request, caller);
        assert!(service.poll_ready(&mut cx).is_ready());
        let Poll::Ready(response) = pin!(service.call(request)).poll(&mut cx) else {
            unreachable!("nothing waits here");
        };
        match black_box(response) {
            Ok(response) if response.status() == StatusCode::OK => Answer::Admitted,
            // One of the peers refuses with an error.
            Ok(_) | Err(_) => Answer::Refused,
        }
    };
    // The bursts of those who are to be refused are two units.
    for caller in callers.iter().chain(&callers) {
        serve(*caller);
    }
    turn_of(SHORT, REQUESTS, move |count| {
        let start = Instant::now();
        for caller in callers.iter().cycle().take(count) {
            assert_eq!(serve(*caller), answer);
        }
        start.elapsed().as_nanos() as f64 / count as f64
    })
}
