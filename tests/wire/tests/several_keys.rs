//! A limit of address and account in front of a real axum server: what callers are told, and of
//! which key.

use crate::loopback::{Answer, Http1, lines, serve};
use axum::{Router, routing::get};
use http::Request;
use tollgate::{
    EachOf, Quota, RateLimitLayer,
    algorithm::{FixedWindow, TokenBucket},
    key::{Header, PeerIp},
};

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn address(units: u64) -> TokenBucket {
    TokenBucket::new(Quota::per_hour(units)).named("address")
}

fn account(units: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units)).named("account")
}

/// So many an hour from an address, so many a day for an account.
async fn app(by_address: u64, by_account: u64, header: Header) -> Http1 {
    let limits = EachOf((address(by_address), account(by_account)));
    let keys = EachOf((PeerIp::new(), header));
    let limit = RateLimitLayer::new(limits, crate::support::by_hand().1, keys);
    Http1::connect(serve(hello().layer(limit)).await).await
}

async fn ask(client: &mut Http1, account: Option<&str>) -> Answer {
    let mut request = Request::get("/");
    if let Some(account) = account {
        request = request.header("x-account", account);
    }
    client.send(request.body(()).unwrap()).await
}

fn by_account() -> Header {
    Header::new("x-account").or_skip()
}

#[tokio::test]
async fn both_policies_are_told_and_of_a_refusal_the_one_that_is_violated() {
    let mut client = app(5, 2, by_account()).await;
    let policies = ["\"address\";q=5;w=3600, \"account\";q=2;w=86400"];
    for left in [(4, 720, 1), (3, 1_440, 0)] {
        let answer = ask(&mut client, Some("bob")).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(lines(&answer, "ratelimit-policy").join(", "), policies[0]);
        let told = lines(&answer, "ratelimit").join(", ");
        let address = format!("\"address\";r={};t=", left.0);
        let account = format!("\"account\";r={};t=86400", left.2);
        assert!(
            told.starts_with(&address) && told.ends_with(&account),
            "{told}"
        );
    }
    let refused = ask(&mut client, Some("bob")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(lines(&refused, "retry-after"), ["86400"]);
    assert_eq!(lines(&refused, "ratelimit"), ["\"account\";r=0;t=86400"]);
    let body = std::str::from_utf8(refused.body()).unwrap();
    assert!(
        body.contains(r#""violated-policies":["account"]"#),
        "{body}"
    );
    // The refused request was not charged to the address.
    let answer = ask(&mut client, Some("ann")).await;
    let told = lines(&answer, "ratelimit").join(", ");
    assert!(told.starts_with("\"address\";r=2;t="), "{told}");
}

#[tokio::test]
async fn who_is_anonymous_is_limited_by_the_address_alone_and_told_of_it_alone() {
    let mut client = app(2, 9, by_account()).await;
    let answer = ask(&mut client, None).await;
    assert_eq!(
        lines(&answer, "ratelimit-policy"),
        ["\"address\";q=2;w=3600"]
    );
    assert_eq!(lines(&answer, "ratelimit"), ["\"address\";r=1;t=1800"]);
    assert_eq!(ask(&mut client, Some("bob")).await.status(), 200);
    for account in [None, Some("bob"), Some("ann")] {
        let refused = ask(&mut client, account).await;
        assert_eq!(refused.status(), 429);
        assert_eq!(lines(&refused, "ratelimit"), ["\"address\";r=0;t=1800"]);
    }
}

#[tokio::test]
async fn a_key_that_must_be_there_is_asked_for_and_nothing_is_charged_without_it() {
    let mut client = app(2, 9, Header::new("x-account")).await;
    for _ in 0..5 {
        assert_eq!(ask(&mut client, None).await.status(), 400);
    }
    let answer = ask(&mut client, Some("bob")).await;
    assert!(
        lines(&answer, "ratelimit")
            .join(", ")
            .starts_with("\"address\";r=1;")
    );
}

#[tokio::test]
async fn of_two_layers_around_each_other_the_outer_one_stays_charged() {
    let inner = RateLimitLayer::new(account(1), crate::support::by_hand().1, by_account());
    let outer = RateLimitLayer::new(address(5), crate::support::by_hand().1, PeerIp::new());
    let mut client = Http1::connect(serve(hello().layer(inner).layer(outer)).await).await;
    let answer = ask(&mut client, Some("bob")).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(lines(&answer, "ratelimit").len(), 2);
    for left in [3, 2] {
        let refused = ask(&mut client, Some("bob")).await;
        assert_eq!(refused.status(), 429);
        let told = lines(&refused, "ratelimit");
        assert!(
            told.iter().any(|line| line.starts_with("\"account\";r=0;")),
            "{told:?}"
        );
        let address = format!("\"address\";r={left};");
        assert!(
            told.iter().any(|line| line.starts_with(&address)),
            "{told:?}"
        );
    }
}
