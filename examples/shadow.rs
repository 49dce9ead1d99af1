//! A dry run of a week, in a second: a limit counts and refuses nobody, and an observer sees whom
//! it would have refused. Then the limit is enforced, without a restart.
//!
//! The clock is manual, and both weeks have the same traffic: the second week refuses what the dry
//! run announced.
//!
//! ```text
//! cargo run --example shadow
//! ```

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tollgate::observe::{Event, Outcome};
use tollgate::{Quota, RateLimitLayer, Timestamp};
use tollgate::{algorithm::FixedWindow, clock::ManualClock, key::from_fn, store::LocalStore};
use tower::{Layer, ServiceExt, service_fn};

/// Each tenant and how many requests it sends in an hour.
const TENANTS: [(&str, u32); 3] = [("bakery", 60), ("cinema", 120), ("florist", 90)];
const HOURS: u32 = 7 * 24;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let hourly = FixedWindow::new(Quota::per_hour(100));
    let tenant = from_fn(|request: &Request<String>| {
        let tenant = request.uri().path().trim_start_matches('/');
        Ok::<_, Infallible>(Some(tenant.to_owned()))
    });

    let is_enforced = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_enforced);
    let refused: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let seen = Arc::clone(&refused);
    let service = RateLimitLayer::new(hourly, store, tenant)
        .enforce(move |_: &Request<String>, _: Option<&String>| switch.load(Ordering::Relaxed))
        .observe(move |event: &Event<'_, String>| {
            if let (Outcome::ShadowRefused | Outcome::Refused, Some(tenant)) =
                (event.outcome(), event.key())
            {
                *seen.lock().unwrap().entry(tenant.clone()).or_default() += 1;
            }
        })
        .layer(service_fn(async |_: Request<String>| {
            Ok::<_, Infallible>(Response::new(String::new()))
        }));

    // What callers get: how many were let through, and how many were told to wait.
    let week = async || {
        let (mut passed, mut told_to_wait) = (0, 0);
        for _ in 0..HOURS {
            for (tenant, requests) in TENANTS {
                for _ in 0..requests {
                    let request = Request::get(format!("/{tenant}")).body(String::new());
                    let response = service.clone().oneshot(request.unwrap()).await.unwrap();
                    match response.status() {
                        StatusCode::TOO_MANY_REQUESTS => told_to_wait += 1,
                        _ => passed += 1,
                    }
                    let is_told = response.headers().contains_key("ratelimit");
                    assert_eq!(is_told, is_enforced.load(Ordering::Relaxed));
                }
            }
            clock.advance(Duration::from_secs(3_600));
        }
        (passed, told_to_wait)
    };

    let (passed, told_to_wait) = week().await;
    let would_refuse = std::mem::take(&mut *refused.lock().unwrap());
    println!("dry run: {passed} requests passed, and {told_to_wait} were refused.");
    for (tenant, requests) in &would_refuse {
        println!("  {tenant} would have been refused {requests} times");
    }
    assert_eq!((passed, told_to_wait), (270 * HOURS, 0));
    assert_eq!(
        would_refuse,
        BTreeMap::from([("cinema".to_owned(), 20 * HOURS)])
    );

    is_enforced.store(true, Ordering::Relaxed);
    let (passed, told_to_wait) = week().await;
    println!("enforced: {passed} requests passed, and {told_to_wait} were refused.");
    assert_eq!((passed, told_to_wait), (250 * HOURS, 20 * HOURS));
    assert_eq!(*refused.lock().unwrap(), would_refuse);
}
