//! What is left of an answer where others have their say: handlers, statuses without a body,
//! tunnels.

use std::net::SocketAddr;

use crate::loopback::{Http1, Http2, limit, lines, serve};
use axum::{Router, routing::get};
use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tollgate::{
    Quota,
    algorithm::{FixedWindow, TokenBucket},
    key::Global,
    response::{Fields, Http},
};

fn one_a_day() -> FixedWindow {
    FixedWindow::new(Quota::per_day(1))
}

/// Sends bytes as they are and reads until the server closes.
async fn exchange(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A server that refuses what it reads may reset the connection; what came before that counts.
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

#[tokio::test]
async fn fields_that_the_handler_has_set_are_kept() {
    let handler = || async { [("ratelimit", "\"mine\";r=3"), ("retry-after", "9")] };
    let limited = limit(TokenBucket::new(Quota::per_minute(5)).named("ours"), Global);
    let server = serve(Router::new().route("/", get(handler)).layer(limited)).await;
    let answer = Http1::connect(server).await.get("/").await;
    assert_eq!(
        lines(&answer, "ratelimit"),
        ["\"mine\";r=3", "\"ours\";r=4;t=12"]
    );
    assert_eq!(lines(&answer, "retry-after"), ["9"]);
}

#[tokio::test]
async fn a_status_that_has_no_body_gets_the_fields_and_still_no_body() {
    let found = || async { (StatusCode::FOUND, [("location", "/204")]) };
    let app = Router::new()
        .route("/204", get(|| async { StatusCode::NO_CONTENT }))
        .route("/304", get(|| async { StatusCode::NOT_MODIFIED }))
        .route("/302", get(found));
    let limited = limit(FixedWindow::new(Quota::per_day(9)).named("day"), Global);
    let server = serve(app.layer(limited)).await;
    let (mut one, mut two) = (Http1::connect(server).await, Http2::connect(server).await);
    for (path, status) in [("/204", 204), ("/304", 304), ("/302", 302)] {
        for answer in [one.get(path).await, two.get(path).await] {
            let told = lines(&answer, "ratelimit");
            assert!(told[0].starts_with("\"day\";r="), "{told:?}");
            assert_eq!((answer.status().as_u16(), answer.body().len()), (status, 0));
        }
    }
}

#[tokio::test]
async fn a_connect_gets_the_fields_that_were_chosen_and_never_a_body_or_an_empty_200_for_a_refusal()
{
    for (dialect, told) in [(Fields::Draft11, 2), (Fields::Off, 0)] {
        let one_a_day = limit(one_a_day(), Global).respond_with(Http::new().fields(dialect));
        let app = Router::new().fallback(|| async {}).layer(one_a_day);
        let server = serve(app).await;
        let connect = async |more: &str| {
            let request = format!("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n{more}\r\n");
            String::from_utf8(exchange(server, request.as_bytes()).await).unwrap()
        };
        let ours = |answer: &str| {
            let lines = answer.lines();
            lines.filter(|line| line.starts_with("ratelimit")).count()
        };
        let admitted = connect("").await;
        assert!(admitted.starts_with("HTTP/1.1 200 OK\r\n"), "{admitted}");
        assert!(admitted.ends_with("\r\n\r\n"), "{admitted}");
        assert_eq!(ours(&admitted), told, "{admitted}");
        for with_a_body in ["content-length", "transfer-encoding"] {
            assert!(!admitted.contains(with_a_body), "{admitted}");
        }
        // A 2xx would open a tunnel (RFC 9110, section 9.3.6).
        let close = "connection: close\r\n";
        for more in ["", "content-type: application/grpc\r\n"] {
            let refused = connect(&format!("{close}{more}")).await;
            assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
            assert_eq!(ours(&refused), told, "{refused}");
        }
    }
}
