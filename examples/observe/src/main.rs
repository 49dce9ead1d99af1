//! What Prometheus sees of a limit: how many requests were admitted and refused, by which policy,
//! the waits of callers, and the number of keys in the store.
//!
//! ```text
//! cargo run -p observe            # serves on port 3000; its metrics are at /metrics
//! cargo run -p observe -- --once  # scrapes itself, and ends
//! ```

use std::{error::Error, net::SocketAddr, time::Duration};

use axum::{Router, body::Body, http::Uri, routing::get};
use http_body_util::BodyExt;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::net::TcpListener;
use tollgate::{Quota, RateLimitLayer};
use tollgate::{
    algorithm::{FixedWindow, TokenBucket},
    key::PeerIp,
    observe::Metrics,
    store::LocalStore,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Install the recorder first: metrics register with the current one.
    let prometheus = PrometheusBuilder::new()
        .set_buckets_for_metric(
            Matcher::Full("tollgate.wait.duration".into()),
            &[1.0, 60.0, 3_600.0, 86_400.0],
        )?
        .install_recorder()?;

    let (metrics, store) = (Metrics::new("api").store_duration(), LocalStore::new());
    let limits = (
        TokenBucket::new(Quota::one_every(Duration::from_secs(30)))
            .burst(3)
            .named("burst"),
        FixedWindow::new(Quota::per_day(1_000)).named("daily"),
    );
    let limit = RateLimitLayer::new(limits, store.clone(), PeerIp::new()).observe(metrics.clone());
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limit)
        // Not limited, as it comes after the layer.
        .route(
            "/metrics",
            get(move || async move {
                metrics.record_usage(&store.usage());
                prometheus.render()
            }),
        )
        .into_make_service_with_connect_info::<SocketAddr>();

    let once = std::env::args().any(|argument| argument == "--once");
    let listener = TcpListener::bind(if once {
        "127.0.0.1:0"
    } else {
        "127.0.0.1:3000"
    })
    .await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    if !once {
        println!("http://{address}/ is limited; its metrics are at http://{address}/metrics");
        return Ok(server.await??);
    }

    let uri = |path: &str| format!("http://{address}{path}").parse::<Uri>();
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(client.get(uri("/")?).await?.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);

    let response = client.get(uri("/metrics")?).await?;
    let scraped = String::from_utf8(response.into_body().collect().await?.to_bytes().into())?;
    println!("{scraped}");
    for line in [
        r#"tollgate_requests{limit="api",outcome="admitted"} 3"#,
        r#"tollgate_requests{limit="api",outcome="refused"} 2"#,
        r#"tollgate_policy_requests{limit="api",policy="daily",outcome="admitted"} 3"#,
        r#"tollgate_policy_requests{limit="api",policy="burst",outcome="refused"} 2"#,
        // The one wait is half a minute, the other no longer.
        r#"tollgate_wait_duration_bucket{limit="api",outcome="refused",le="1"} 0"#,
        r#"tollgate_wait_duration_bucket{limit="api",outcome="refused",le="60"} 2"#,
        r#"tollgate_store_duration_count{limit="api"} 5"#,
        r#"tollgate_store_keys{limit="api"} 1"#,
    ] {
        assert!(scraped.lines().any(|scraped| scraped == line), "{line}");
    }
    Ok(())
}
