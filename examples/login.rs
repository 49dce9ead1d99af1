//! A login where only wrong passwords count: five a minute for each user name, and twenty for each
//! address.
//!
//! A login holds a unit of both limits while its password is checked, and gives it back if the
//! password is right. So of two hundred wrong passwords sent at once, five reach the check, and a
//! user who logs in and out all day is never refused.
//!
//! ```text
//! cargo run --example login
//! ```

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use http::{Request, StatusCode};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::algorithm::{Settled, SlidingLog};
use tollgate::{EachOf, LocalRateLimiter, Quota, RateLimiter, store::LocalStore};
use tollgate::{key::PeerIp, response::Http};

type Limits = EachOf<(Settled<SlidingLog>, Settled<SlidingLog>)>;
type AddressAndUser = EachOf<(Option<IpAddr>, Option<String>)>;

struct Logins {
    limiter: LocalRateLimiter<Limits, AddressAndUser>,
    /// How many passwords were checked.
    checked: AtomicU64,
}

async fn login(
    State(logins): State<Arc<Logins>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    body: Bytes,
) -> Response {
    let Ok(login) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let (Some(user), Some(password)) = (login["user"].as_str(), login["password"].as_str()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    // The store keeps the name, so its length is bounded.
    if user.len() > 64 {
        return StatusCode::BAD_REQUEST.into_response();
    }
    // All IPv6 addresses of a /64 are one caller.
    let address = PeerIp::new().key_of(peer.ip());
    let caller = EachOf((Some(address), Some(user.to_owned())));
    let hold = match logins.limiter.hold(&caller, 1).await {
        Ok(Ok(hold)) => hold,
        Ok(Err(refused)) => return Http::new().response::<Bytes>(&refused).map(Body::from),
        Err(_) => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
    };
    // A good password hash is slow.
    logins.checked.fetch_add(1, SeqCst);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let is_right = password == "correct horse";
    hold.settle(u32::from(!is_right));
    match is_right {
        true => StatusCode::OK,
        false => StatusCode::UNAUTHORIZED,
    }
    .into_response()
}

/// Sends `count` logins at once; returns how many were answered with each status.
async fn sent(uri: &str, count: usize, user: &str, password: &str) -> [usize; 3] {
    let http = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let body = json!({ "user": user, "password": password }).to_string();
        let request = Request::post(uri).body(Body::from(body));
        let call = http.request(request.expect("a request"));
        calls.spawn(async move { call.await.expect("an answer").status() });
    }
    let answers = calls.join_all().await;
    [200, 401, 429].map(|status| answers.iter().filter(|answer| **answer == status).count())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limits = EachOf((
        SlidingLog::new(Quota::per_minute(20))
            .named("address")
            .settled(),
        SlidingLog::new(Quota::per_minute(5))
            .named("user")
            .settled(),
    ));
    let logins = Arc::new(Logins {
        limiter: RateLimiter::new(limits, LocalStore::new()),
        checked: AtomicU64::new(0),
    });
    let app = Router::new()
        .route("/login", post(login))
        .with_state(Arc::clone(&logins));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}/login", listener.local_addr()?);
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });

    let [right, wrong, refused] = sent(&uri, 200, "ann", "12345").await;
    println!("200 wrong passwords at once: {wrong} checked, {refused} refused");
    assert_eq!([right, wrong, refused], [0, 5, 195]);
    assert_eq!(logins.checked.load(SeqCst), 5);

    for _ in 0..10 {
        assert_eq!(sent(&uri, 5, "bob", "correct horse").await, [5, 0, 0]);
    }
    println!("50 right ones, five at a time: all let in");

    let [_, wrong, refused] = sent(&uri, 40, "cid", "12345").await;
    println!("40 wrong ones of another user: {wrong} checked, {refused} refused");
    assert_eq!([wrong, refused], [5, 35]);
    Ok(())
}
