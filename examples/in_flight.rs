//! At most two requests of a user at once, whatever they do: download, stream, or fail.
//!
//! A request is in flight until the body of its response has ended. A third request is answered
//! with 429, without a time to wait: nobody knows when one of the others ends. A caller who hangs
//! up in the middle of a download gives the place back at once.
//!
//! ```text
//! cargo run --example in_flight
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::{Router, routing::get};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::net::TcpListener;
use tollgate::{RateLimitLayer, algorithm::InFlight, key::Header, store::LocalStore};

const PIECE: usize = 64 << 10;
/// More than fit into the buffers of a socket: the client has to read them.
const PIECES: usize = 1_000;

/// A download of this many pieces.
struct Download(usize);

impl http_body::Body for Download {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        let piece = || http_body::Frame::data(Bytes::from_static(&[0; PIECE]));
        Poll::Ready(left.map(|_| Ok(piece())))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let at_once = InFlight::new(2).named("at-once");
    let limit = RateLimitLayer::new(at_once, LocalStore::new(), Header::new("x-user"));
    let app: Router = Router::new()
        .route("/download", get(|| async { Body::new(Download(PIECES)) }))
        .route("/fails", get(|| async { StatusCode::BAD_GATEWAY }))
        .layer(limit);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, app).await });

    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let ask = |user: &str, path: &str| {
        let request = Request::get(format!("http://{address}{path}")).header("x-user", user);
        client.request(request.body(Body::empty()).expect("a request"))
    };

    let first = ask("ann", "/download").await?;
    let second = ask("ann", "/download").await?;
    show("ann's first", &first);
    show("ann's second", &second);
    assert_eq!([first.status(), second.status()], [200; 2]);

    let third = ask("ann", "/download").await?;
    show("ann's third", &third);
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!third.headers().contains_key("retry-after"));
    let policy = r#""at-once";q=2;qu="concurrent-requests""#;
    assert_eq!(third.headers()["ratelimit-policy"], policy);

    // A request that has ended never blocks the next one.
    for _ in 0..20 {
        let failed = ask("bob", "/fails").await?;
        assert_eq!(failed.status(), StatusCode::BAD_GATEWAY);
    }

    // One download is read to its end, the other one is dropped.
    let read = first.into_body().collect().await?.to_bytes().len();
    println!("ann has read {read} bytes");
    assert_eq!(read, PIECES * PIECE);
    drop(second);
    // It takes the server a moment to see that the client has hung up.
    for attempt in 1.. {
        let next = ask("ann", "/download").await?;
        if next.headers()["ratelimit"] == r#""at-once";r=1"# {
            show("ann's next", &next);
            assert_eq!(next.status(), StatusCode::OK);
            break;
        }
        drop(next);
        assert!(attempt < 500, "a place was not given back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn show<B>(what: &str, response: &Response<B>) {
    let left = response.headers()["ratelimit"].to_str().unwrap_or("?");
    println!("{what}: {}, {left}", response.status());
}
