//! Whom a request over a real connection is charged to, whatever its header fields say.

use axum::{Router, routing::get};
use http::{HeaderValue, Request};
use http_body_util::Full;
use tollgate::{Quota, RateLimitLayer, algorithm::FixedWindow, key::ClientIp};
use tollgate_wire::{Connection, Server, Version, fresh_store, serve};

/// The peer of all connections here is 127.0.0.1.
async fn limited(units: u64, by: ClientIp) -> Server {
    let limit = FixedWindow::new(Quota::per_day(units)).named("clients");
    let limit = RateLimitLayer::new(limit, fresh_store().1, by);
    serve(Router::new().route("/", get(|| async {})).layer(limit)).await
}

async fn status(connection: &mut Connection, forwarded_for: &[&str]) -> u16 {
    let mut request = Request::get("/").body(Full::default()).unwrap();
    for line in forwarded_for {
        let line = HeaderValue::from_bytes(line.as_bytes()).unwrap();
        request.headers_mut().append("x-forwarded-for", line);
    }
    connection.send(request).await.status.as_u16()
}

#[tokio::test]
async fn an_untrusted_peer_gets_no_new_bucket_by_what_it_writes() {
    for version in Version::ALL {
        let by = ClientIp::x_forwarded_for(["10.0.0.0/8"]);
        let server = limited(2, by).await;
        let mut connection = Connection::open(version, server.address).await;
        assert_eq!(status(&mut connection, &["1.1.1.1"]).await, 200);
        assert_eq!(status(&mut connection, &["10.0.0.1, 2.2.2.2"]).await, 200);
        for spoofed in [&["3.3.3.3"][..], &["10.0.0.1"], &["a", "b"], &[]] {
            assert_eq!(status(&mut connection, spoofed).await, 429, "{spoofed:?}");
        }
    }
}

#[tokio::test]
async fn a_thousand_leftmost_addresses_are_one_bucket() {
    let by = ClientIp::x_forwarded_for(["127.0.0.0/8"]);
    let server = limited(3, by).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    let mut admitted = 0;
    for number in 0..1_000 {
        let line = format!("6.6.{}.{}, 192.0.2.7", number / 250, number % 250);
        let status = status(&mut connection, &[&line]).await;
        assert!([200, 429].contains(&status));
        admitted += u32::from(status == 200);
    }
    assert_eq!(admitted, 3);
    assert_eq!(status(&mut connection, &["192.0.2.8"]).await, 200);
}

#[tokio::test]
async fn the_client_that_a_trusted_proxy_names_is_charged_over_all_lines_and_spellings() {
    let by = ClientIp::x_forwarded_for(["127.0.0.0/8", "10.0.0.0/8"]);
    let server = limited(6, by).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    for lines in [
        &["1.2.3.4"][..],
        &["6.6.6.6, 1.2.3.4"],
        &["1.2.3.4, 10.0.0.2"],
        &["6.6.6.6", "1.2.3.4"],
        &["::ffff:1.2.3.4"],
        &["1.2.3.4:5555"],
    ] {
        assert_eq!(status(&mut connection, lines).await, 200, "{lines:?}");
    }
    assert_eq!(status(&mut connection, &["1.2.3.4:7777"]).await, 429);
    assert_eq!(status(&mut connection, &["1.2.3.5"]).await, 200);
}

#[tokio::test]
async fn what_cannot_be_read_or_is_missing_is_charged_to_the_proxy() {
    let by = ClientIp::x_forwarded_for(["127.0.0.0/8"]);
    let server = limited(5, by).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    let long = "1.2.3.4, ".repeat(2_000) + "1.2.3.4";
    for lines in [
        &[][..],
        &["1.2.3.4, garbage"],
        &["1.2.3.4, unknown"],
        &[", ,"],
        &[&long],
    ] {
        assert_eq!(status(&mut connection, lines).await, 200, "{lines:?}");
    }
    for lines in [&[][..], &["5.5.5.5, _hidden"], &["fe80::1%eth0"]] {
        assert_eq!(status(&mut connection, lines).await, 429, "{lines:?}");
    }
}

#[tokio::test]
async fn only_the_configured_field_is_read() {
    let by = ClientIp::forwarded(["127.0.0.0/8"]);
    let server = limited(1, by).await;
    let mut connection = Connection::open(Version::Http2, server.address).await;
    let mut send = async |forwarded: &'static str, forwarded_for: &'static str| {
        let request = Request::get("/")
            .header("forwarded", forwarded)
            .header("x-forwarded-for", forwarded_for)
            .header("x_forwarded_for", forwarded_for)
            .header("x-real-ip", forwarded_for);
        let request = request.body(Full::default()).unwrap();
        connection.send(request).await.status.as_u16()
    };
    assert_eq!(send("for=9.9.9.9;proto=https", "1.1.1.1").await, 200);
    assert_eq!(
        send("for=1.1.1.1;host=\"a,b\", For=9.9.9.9", "2.2.2.2").await,
        429
    );
    assert_eq!(send("for=9.9.9.8", "1.1.1.1").await, 200);
}
