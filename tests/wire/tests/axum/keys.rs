//! Keys over real connections: peers, and header fields with whatever bytes callers send.

use std::net::{IpAddr, SocketAddr};

use axum::{Router, extract::ConnectInfo, routing::get};
use tollgate::{
    Quota, RateLimitLayer,
    algorithm::FixedWindow,
    key::{FromExtension, Header, PeerIp},
};
use tollgate_wire::{
    Connection, Version, exchange, fresh_store, serve, serve_without_connect_info,
};

fn one_a_day() -> FixedWindow {
    FixedWindow::new(Quota::per_day(1))
}

#[tokio::test]
async fn without_connect_info_every_request_is_answered_with_500_and_none_passes() {
    let limit = RateLimitLayer::new(one_a_day(), fresh_store().1, PeerIp::new());
    async fn passed() -> &'static str {
        panic!("a request has passed");
    }
    let app = Router::new().route("/", get(passed)).layer(limit);
    let server = serve_without_connect_info(app).await;
    for version in Version::ALL {
        let mut connection = Connection::open(version, server.address).await;
        for _ in 0..3 {
            let reply = connection.get("/").await;
            assert_eq!(reply.status, 500);
            assert_eq!(reply.body, "the address of the peer is not known");
            assert!(!reply.headers.contains_key("ratelimit"));
        }
    }
}

#[tokio::test]
async fn each_peer_address_has_a_bucket_of_its_own_whatever_its_port() {
    let limit = RateLimitLayer::new(one_a_day(), fresh_store().1, PeerIp::new());
    // Stands for an acceptor that knows its peers by other means.
    let pretend = |mut request: axum::extract::Request| async {
        let peer = request.headers().get("x-pretend").cloned();
        if let Some(peer) = peer {
            let ip: IpAddr = peer.to_str().unwrap().parse().unwrap();
            let peer = ConnectInfo(SocketAddr::new(ip, 80));
            request.extensions_mut().insert(peer);
        }
        Ok::<_, axum::response::Response>(request)
    };
    let app = Router::new()
        .route("/", get(|| async {}))
        .layer(limit)
        .layer(axum::middleware::map_request(pretend));
    let server = serve(app).await;
    for expected in [200, 429, 429] {
        let mut connection = Connection::open(Version::Http1, server.address).await;
        assert_eq!(connection.get("/").await.status, expected);
    }
    let mut connection = Connection::open(Version::Http1, server.address).await;
    for (peer, expected) in [
        ("127.0.0.1", 429),
        ("::ffff:127.0.0.1", 429),
        ("192.0.2.1", 200),
        ("192.0.2.2", 200),
        ("::ffff:192.0.2.2", 429),
        ("2001:db8::1", 200),
        ("2001:db8::ffff:1", 429),
        ("2001:db8:0:1::1", 200),
    ] {
        let mut request = tollgate_wire::get("/");
        let pretended = peer.parse().unwrap();
        request.headers_mut().insert("x-pretend", pretended);
        assert_eq!(connection.send(request).await.status, expected, "{peer}");
    }
}

/// The status of a request with these bytes as its key, sent as they are.
async fn status(address: SocketAddr, key: &[u8]) -> u16 {
    let mut request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-api-key: ".to_vec();
    request.extend(key);
    request.extend(b"\r\n\r\n");
    let answer = exchange(address, &request).await;
    let status = answer.get(9..12).expect("there is an answer");
    std::str::from_utf8(status).unwrap().parse().unwrap()
}

#[tokio::test]
async fn keys_of_any_bytes_are_kept_apart_and_each_is_one_bucket() {
    let limit = RateLimitLayer::new(one_a_day(), fresh_store().1, Header::new("x-api-key"));
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    let server = serve(app).await;
    let long = |last: u8| [&[b'k'; 40_000][..], &[last]].concat();
    let keys: [&[u8]; 16] = [
        b"",
        b"a",
        b"A",
        b"a b",
        b"a,b",
        b"{x}",
        b"{}",
        b"*",
        b"\xFF",
        b"\xFE",
        b"\xC3\xBC",
        b"u\xCC\x88",
        b"\"; DROP",
        b"%0d%0a",
        &long(b'1'),
        &long(b'2'),
    ];
    for key in keys {
        let told = key.escape_ascii().to_string();
        assert_eq!(status(server.address, key).await, 200, "{told:.20}");
        assert_eq!(status(server.address, key).await, 429, "{told:.20}");
    }
}

#[tokio::test]
async fn a_key_with_a_line_break_or_a_nul_makes_no_bucket_of_its_own() {
    let limit = RateLimitLayer::new(one_a_day(), fresh_store().1, Header::new("x-api-key"));
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    let server = serve(app).await;
    // hyper takes none of these for a value.
    for key in [&b"a\0b"[..], b"a\rb", b"a\x7Fb"] {
        assert_eq!(status(server.address, key).await, 400);
    }
    assert_eq!(status(server.address, b"a").await, 200);
    // A line break ends the value; what follows is another field, or another value: then there are two.
    assert_eq!(status(server.address, b"a\r\nx-other: b").await, 429);
    assert_eq!(status(server.address, b"c\r\nx-api-key: d").await, 400);
    assert_eq!(status(server.address, b"c").await, 200);
}

#[tokio::test]
async fn a_request_without_its_credential_is_answered_with_400_and_never_passes() {
    let limit = RateLimitLayer::new(one_a_day(), fresh_store().1, Header::new("x-api-key"));
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    let server = serve(app).await;
    let mut connection = Connection::open(Version::Http2, server.address).await;
    for _ in 0..3 {
        assert_eq!(connection.get("/").await.status, 400);
    }
}

#[tokio::test]
async fn a_user_whom_an_outer_layer_has_found_is_charged() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct User(String);

    let sign_in = |mut request: axum::extract::Request| async {
        let user = request.uri().path().trim_start_matches('/').to_owned();
        request.extensions_mut().insert(User(user));
        request
    };
    let limit = RateLimitLayer::new(one_a_day(), fresh_store().1, FromExtension::<User>::new());
    let app = Router::new()
        .route("/{user}", get(|| async {}))
        .layer(limit)
        .layer(axum::middleware::map_request(sign_in));
    let server = serve(app).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    for (path, status) in [("/ann", 200), ("/ann", 429), ("/bob", 200), ("/ann", 429)] {
        assert_eq!(connection.get(path).await.status, status);
    }
}
