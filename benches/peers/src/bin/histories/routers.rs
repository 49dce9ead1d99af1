//! What routes and callers share of one layer.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, routing::get};
use http::{Request, StatusCode};
use skp_ratelimit::{GCRA, MemoryStorage, key::IpKey};
use tollgate::response::Fields;
use tollgate_peers::{layers, limit::Limit};
use tower::ServiceExt;

use crate::verdict::{By, history, row};

pub(crate) fn all() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        two_routes().await;
        two_callers().await;
    });
}

/// For each caller; none comes back meanwhile.
const FIVE: Limit = Limit {
    interval: Duration::from_secs(3_600),
    burst: 5,
};

async fn two_routes() {
    let text =
        "One layer with a burst of 5 over a router with two routes; one caller asks 10 times each.";
    history("One layer over two routes", text);
    let routes = || {
        Router::new()
            .route("/a", get(|| async {}))
            .route("/b", get(|| async {}))
    };
    let all = || {
        ["/a", "/b"]
            .into_iter()
            .flat_map(|path| (0..10).map(move |_| request(path, 1)))
    };
    let five = 5..=5;
    row(
        "tollgate",
        five.clone(),
        admitted(routes().layer(layers::tollgate(FIVE, Fields::Off)), all()).await,
        By::Promise,
    );
    row(
        "tower_governor",
        five.clone(),
        admitted(routes().layer(layers::tower_governor(FIVE)), all()).await,
        By::Promise,
    );
    row(
        "axum-governor",
        five.clone(),
        admitted(routes().layer(layers::axum_governor(FIVE)), all()).await,
        By::Promise,
    );
    row(
        "throttle-kit",
        five.clone(),
        admitted(routes().layer(layers::throttle_kit(FIVE)), all()).await,
        By::Promise,
    );
    row(
        "skp-ratelimit",
        five.clone(),
        admitted(routes().layer(layers::skp_ratelimit(FIVE)), all()).await,
        By::Promise,
    );
    // Its error is not infallible, which a router asks for.
    let handled = tower::ServiceBuilder::new()
        .layer(axum::error_handling::HandleErrorLayer::new(|_| async {
            StatusCode::TOO_MANY_REQUESTS
        }))
        .layer(layers::tower_resilience(FIVE));
    row(
        "tower-resilience",
        five,
        admitted(routes().layer(handled), all()).await,
        By::Words("This layer wraps a service with a rate limiter"),
    );
}

async fn two_callers() {
    let text = "A burst of 5 for each caller, told apart by address; each of \
        two callers asks 10 times. One whom the other one's requests keep out is fewer than 10.";
    history("Two callers", text);
    let route = || Router::new().route("/", get(|| async {}));
    let all = || {
        [1, 2]
            .into_iter()
            .flat_map(|caller| (0..10).map(move |_| request("/", caller)))
    };
    let ten = 10..=10;
    row(
        "tollgate",
        ten.clone(),
        admitted(route().layer(layers::tollgate(FIVE, Fields::Off)), all()).await,
        By::Promise,
    );
    row(
        "tower_governor",
        ten.clone(),
        admitted(route().layer(layers::tower_governor(FIVE)), all()).await,
        By::Promise,
    );
    row(
        "axum-governor",
        ten.clone(),
        admitted(route().layer(layers::axum_governor(FIVE)), all()).await,
        By::Promise,
    );
    row(
        "throttle-kit",
        ten.clone(),
        admitted(route().layer(layers::throttle_kit(FIVE)), all()).await,
        By::Promise,
    );
    let by_header = skp_ratelimit::middleware::RateLimitLayer::new(
        MemoryStorage::new(),
        GCRA::new(),
        tollgate_peers::peers::skp_ratelimit::quota(FIVE),
        IpKey::new(),
    );
    row(
        "skp-ratelimit, `IpKey` of `X-Forwarded-For`",
        ten,
        admitted(route().layer(by_header), all()).await,
        By::Promise,
    );
}

/// A request of a caller with an address of its own.
pub(crate) fn request(path: &str, caller: u8) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path.parse().expect("a path");
    let peer = SocketAddr::from(([192, 0, 2, caller], 50_000));
    request.extensions_mut().insert(ConnectInfo(peer));
    let address = peer.ip().to_string().parse().expect("a field value");
    request.headers_mut().insert("x-forwarded-for", address);
    request
}

/// How many of these were answered with 200, by a router as `axum::serve` would have it.
async fn admitted(router: Router, requests: impl IntoIterator<Item = Request<Body>>) -> u64 {
    let router = router.with_state::<()>(());
    let mut admitted = 0;
    for request in requests {
        let response = router.clone().oneshot(request).await.expect("infallible");
        admitted += u64::from(response.status() == StatusCode::OK);
    }
    admitted
}
