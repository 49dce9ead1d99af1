//! Whose bucket a request is charged to, from a real connection and real header fields.

use std::net::SocketAddr;

use crate::loopback::{Http1, Http2, hello, limit, lines, serve};
use axum::{Router, extract::ConnectInfo, routing::get};
use http::HeaderValue;
use tokio::net::TcpListener;
use tollgate::{
    Quota,
    algorithm::FixedWindow,
    key::{ClientIp, Header, PeerIp},
};

/// Two a day.
fn two() -> FixedWindow {
    FixedWindow::new(Quota::per_day(2))
}

fn with(name: &str, value: &[u8]) -> http::Request<()> {
    let value = HeaderValue::from_bytes(value).unwrap();
    let request = http::Request::get("/").header(name, value);
    request.body(()).unwrap()
}

async fn statuses(client: &mut Http1, name: &str, values: &[&[u8]]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for value in values {
        statuses.push(client.send(with(name, value)).await.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn each_peer_has_a_bucket_whatever_its_header_fields_say() {
    let server = serve(hello().layer(limit(two(), PeerIp::new()))).await;
    for local in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3]] {
        let mut told = Vec::new();
        for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
            let mut client = Http1::connect_from(server, local).await;
            told.extend(statuses(&mut client, name, &[b"for=6.6.6.6"]).await);
        }
        assert_eq!(told, [200, 200, 429]);
    }
}

#[tokio::test]
async fn a_handler_finds_the_bucket_of_its_caller_by_the_address() {
    for bits in [64, 128] {
        let by_peer = PeerIp::new().ipv6_prefix(bits);
        let limited = limit(two(), by_peer.clone());
        let limiter = limited.limiter().clone();
        // It charges what is left.
        let greedy = async move |ConnectInfo(peer): ConnectInfo<SocketAddr>| {
            let key = by_peer.key_of(peer.ip());
            let left = limiter.check(&key).await.unwrap().remaining();
            left.to_string()
        };
        let server = serve(Router::new().route("/", get(greedy)).layer(limited)).await;
        for local in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            let mut client = Http1::connect_from(server, local).await;
            let answer = client.send(with("x-any", b"")).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.body(), "0");
            assert_eq!(statuses(&mut client, "x-any", &[b""]).await, [429]);
        }
    }
}

#[tokio::test]
async fn without_connect_info_nobody_has_a_free_pass_and_no_reason_is_told() {
    let app = hello().layer(limit(two(), PeerIp::new()));
    let by_client = limit(two(), ClientIp::x_forwarded_for(["127.0.0.1"]));
    for app in [app, hello().layer(by_client)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        let mut client = Http1::connect(server).await;
        for _ in 0..5 {
            let answer = client.send(with("x-forwarded-for", b"6.6.6.6")).await;
            assert_eq!(answer.status(), 500);
            assert_eq!(answer.body(), "the address of the peer is not known");
        }
        assert_eq!(Http2::connect(server).await.get("/").await.status(), 500);
    }
}

#[tokio::test]
async fn an_untrusted_peer_gets_no_bucket_by_naming_an_address() {
    let by = ClientIp::x_forwarded_for(["127.0.0.1"]);
    let server = serve(hello().layer(limit(two(), by))).await;
    let mut client = Http1::connect_from(server, [127, 0, 0, 2]).await;
    let spoofed: [&[u8]; 4] = [b"6.6.6.6", b"7.7.7.7", b"127.0.0.1", b"8.8.8.8, 127.0.0.1"];
    let told = statuses(&mut client, "x-forwarded-for", &spoofed).await;
    assert_eq!(told, [200, 200, 429, 429]);
    // Nor was anything charged to those it named.
    let mut proxy = Http1::connect(server).await;
    let told = statuses(&mut proxy, "x-forwarded-for", &[b"6.6.6.6", b"7.7.7.7"]).await;
    assert_eq!(told, [200, 200]);
}

#[tokio::test]
async fn values_of_odd_bytes_are_each_a_key_of_their_own() {
    let server = serve(hello().layer(limit(two(), Header::new("x-api-key")))).await;
    let mut client = Http1::connect(server).await;
    let long = "k".repeat(8_000);
    let longer = format!("{long}k");
    let odd = "|k|K|a:b|a b|a\tb|{}|*|\"quoted\"|%0d%0a"
        .split('|')
        .chain([&*long, &longer]);
    let odd = odd.map(str::as_bytes).chain([&b"\xFF"[..], b"\xFE\x80"]);
    let odd: Vec<_> = odd.collect();
    for expected in [200, 200, 429] {
        let told = statuses(&mut client, "x-api-key", &odd).await;
        assert_eq!(told, [expected; 14]);
    }
    // Spaces around a value are not part of it.
    let told = statuses(&mut client, "x-api-key", &[b" k", b"k\t ", b" "]).await;
    assert_eq!(told, [429; 3]);
}

#[tokio::test]
async fn a_refusal_echoes_nothing_of_the_key() {
    let server = serve(hello().layer(limit(two(), Header::new("x-api-key")))).await;
    let mut client = Http1::connect(server).await;
    for expected in [200, 200, 429] {
        let answer = client.send(with("x-api-key", b"s3cret")).await;
        assert_eq!(answer.status(), expected);
        assert!(!format!("{answer:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn a_key_that_is_missing_or_there_twice_is_a_bad_request() {
    let server = serve(hello().layer(limit(two(), Header::new("x-api-key")))).await;
    let mut client = Http1::connect(server).await;
    for _ in 0..4 {
        let missing = client.get("/").await;
        assert_eq!(missing.status(), 400);
        let told = "the request lacks a required header field: x-api-key";
        assert_eq!(missing.body(), told);
        assert!(lines(&missing, "ratelimit").is_empty());
    }
    let mut twice = with("x-api-key", b"one");
    let two = HeaderValue::from_static("two");
    twice.headers_mut().append("x-api-key", two);
    let twice = client.send(twice).await;
    assert_eq!(twice.status(), 400);
    assert!(twice.body().ends_with(b": x-api-key"), "{twice:?}");
    let told = statuses(&mut client, "x-api-key", &[b"one"]).await;
    assert_eq!(told, [200]);
}

#[tokio::test]
async fn members_of_a_compound_key_keep_apart() {
    let by = (Header::new("x-tenant"), Header::new("x-user"));
    let server = serve(hello().layer(limit(two(), by))).await;
    let mut client = Http1::connect(server).await;
    for expected in [200, 200, 429] {
        for (tenant, user) in [("a:b", "c"), ("a", "b:c"), ("", "a:b:c"), ("a:b:c", "")] {
            let request = http::Request::get("/").header("x-tenant", tenant);
            let request = request.header("x-user", user).body(()).unwrap();
            assert_eq!(client.send(request).await.status(), expected);
        }
    }
}
