//! The fields that a request brings, and those that the service behind the layer has written.

#![no_main]

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use sfv::{List, Parser};
use tollgate::{
    Quota, RateLimitLayer, Timestamp,
    algorithm::FixedWindow,
    clock::ManualClock,
    key::Header,
    response::{Fields, Http},
    store::LocalStore,
};
use tower::{Layer, ServiceExt, service_fn};

/// What a request may bring, and what a response may have.
const NAMES: [&str; 9] = [
    "x-api-key",
    "content-type",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "x-ratelimit-remaining",
    "retry-after",
    "cache-control",
    "te",
];

/// A field for each line: its name by the first byte, its value in the rest.
fn fields(lines: &[u8]) -> HeaderMap {
    let lines = lines.split(|&byte| byte == b'\n');
    let field = |line: &[u8]| {
        let (first, value) = line.split_first()?;
        let name = HeaderName::from_static(NAMES[usize::from(*first) % NAMES.len()]);
        Some((name, HeaderValue::from_bytes(value).ok()?))
    };
    let mut all = HeaderMap::new();
    for (name, value) in lines.filter_map(field) {
        all.append(name, value);
    }
    all
}

type Answer = Response<Full<Bytes>>;

fn answer(
    dialect: Fields,
    method: &Method,
    asked: &HeaderMap,
    answered: &HeaderMap,
) -> [Answer; 2] {
    let quota = FixedWindow::new(Quota::new(1, Duration::from_secs(7)));
    let store = LocalStore::builder()
        .clock(ManualClock::at(Timestamp::default()))
        .build();
    let limit = RateLimitLayer::new(quota, store, Header::new("x-api-key"))
        .respond_with(Http::new().fields(dialect));
    let service = limit.layer(service_fn(async |_: Request<()>| {
        let mut response = Response::new(Full::default());
        *response.headers_mut() = answered.clone();
        Ok::<_, Infallible>(response)
    }));
    [(); 2].map(|()| {
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.headers_mut() = asked.clone();
        let answer = service.clone().oneshot(request).now_or_never();
        answer.expect("a store in memory answers at once").unwrap()
    })
}

/// The seconds of a field that must be there.
fn seconds(headers: &HeaderMap, name: &str) -> u64 {
    let value = headers
        .get(name)
        .and_then(|it| it.to_str().ok()?.parse().ok());
    value.unwrap_or_else(|| panic!("{name} is no number: {headers:?}"))
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let dialect = Fields::ALL[usize::from(first) % Fields::ALL.len()];
    let method = if first < 128 {
        Method::POST
    } else {
        Method::GET
    };
    let mut halves = data.splitn(2, |&byte| byte == 0);
    let [asked, answered] = [(); 2].map(|()| fields(halves.next().unwrap_or_default()));
    let [admitted, refused] = answer(dialect, &method, &asked, &answered);
    if asked.get_all("x-api-key").iter().count() != 1 {
        // It has no key, or several.
        let is_grpc = refused.headers().contains_key("grpc-status");
        assert!(is_grpc || refused.status() == 400);
        assert_eq!(admitted.status(), refused.status());
        return;
    }
    // What the service has answered is there.
    assert_eq!(admitted.status(), 200);
    for name in ["content-type", "cache-control", "x-api-key"] {
        let [all, sent] = [&admitted.headers(), &&answered].map(|it| it.get_all(name));
        assert!(all.iter().eq(sent.iter()), "{name}");
    }
    // The second request is refused, and told so in the form that it asks for.
    match refused.headers().get("grpc-status") {
        Some(status) => assert_eq!(
            (status, refused.status().as_u16()),
            (&HeaderValue::from(8), 200)
        ),
        None => assert_eq!(refused.status(), 429),
    }
    assert_eq!(seconds(refused.headers(), "retry-after"), 7);
    if dialect == Fields::Draft11 {
        for name in ["ratelimit", "ratelimit-policy"] {
            let line = refused.headers()[name].as_bytes();
            let list: List = Parser::new(line).parse().expect("a list of RFC 9651");
            assert_eq!(list.len(), 1);
        }
    }
});
