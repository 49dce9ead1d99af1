//! A file of rules, and the requests that are matched by it.

#![no_main]

use std::{convert::Infallible, net::SocketAddr, sync::LazyLock};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use tollgate::{RateLimitLayer, Timestamp, clock::ManualClock, rules::Rules, store::LocalStore};
use tower::{Layer, ServiceExt, service_fn};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("no thread is needed for it")
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    // The request stands after the file.
    let (text, request) = text.rsplit_once('\n').unwrap_or((text, "/"));
    let rules = Rules::new().extension("user", |user: &u64| *user);
    let read = match text.starts_with('{') {
        true => {
            let mut json = serde_json::Deserializer::from_str(text);
            rules.replace(&mut json).map_err(|error| error.to_string())
        }
        false => toml::Deserializer::parse(text)
            .and_then(|file| rules.replace(file))
            .map_err(|error| error.to_string()),
    };
    match read {
        Ok(()) => {}
        Err(error) => return assert_ne!(error, ""),
    }
    let store = LocalStore::builder()
        .clock(ManualClock::at(Timestamp::default()))
        .build();
    let limit = RateLimitLayer::new(rules.clone(), store, rules);
    let service = limit.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    let Ok(uri) = request.parse::<Uri>() else {
        return;
    };
    // For the timers of those that wait.
    let _entered = RUNTIME.enter();
    for (method, user) in [
        (Method::GET, None),
        (Method::POST, Some(7)),
        (Method::GET, Some(7)),
    ] {
        let mut request = Request::new(());
        (*request.method_mut(), *request.uri_mut()) = (method, uri.clone());
        let peer = SocketAddr::from(([10, 0, 0, 1], 443));
        request.extensions_mut().insert(peer);
        if let Some(user) = user {
            request.extensions_mut().insert::<u64>(user);
        }
        let header = HeaderValue::from_static("203.0.113.7");
        request.headers_mut().insert("x-forwarded-for", header);
        // One that waits for its turn is not answered at once.
        if let Some(answer) = service.clone().oneshot(request).now_or_never() {
            let status = answer.unwrap().status().as_u16();
            assert!([200, 400, 403, 429, 500].contains(&status), "{status}");
        }
    }
});
