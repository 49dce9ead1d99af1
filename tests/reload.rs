//! A limit that is replaced while it is in use: nobody's count is lost, and everybody is told the
//! numbers that judged.
#![cfg(feature = "reload")]

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use crate::at_once::at_once;
use crate::ready::ready;
use crate::support::{by_hand, daily};
use http::{Request, Response};
use tollgate::{
    ConfigError, Quota, RateLimitLayer, RateLimiter, algorithm::FixedWindow, choice::Reloadable,
    key::Global, store::LocalStore,
};
use tower::{Layer, ServiceExt, service_fn};

/// A limit that is replaced between the call and its poll is the one that decides.
#[test]
fn the_limit_that_is_in_force_when_now_is_called_decides() {
    let limit = Reloadable::new(daily(1));
    let limiter = RateLimiter::new(limit.clone(), LocalStore::new());
    let check = limiter.check_cost("bob", 3);
    limit.replace(daily(5)).unwrap();
    let decision = check.now();
    assert!(decision.is_admitted());
    assert_eq!((decision.limit(), decision.remaining()), (5, 2));
}

#[test]
fn nobodys_count_is_lost_while_a_limit_is_replaced_a_thousand_times() {
    const LARGEST: u64 = 50_000;
    let limit = Reloadable::new(daily(1));
    let limiter = RateLimiter::new(limit.clone(), by_hand().1);
    let (admitted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    at_once(5, |thread| match thread {
        0..4 => loop {
            // Once it is over, only what the last limit leaves is still to be had.
            let was_over = is_over.load(Ordering::Acquire);
            let decision = ready(limiter.check("bob")).unwrap();
            let so_far = match decision.is_admitted() {
                true => 1 + admitted.fetch_add(1, Ordering::Relaxed),
                false => admitted.load(Ordering::Relaxed),
            };
            assert!(so_far <= LARGEST);
            if was_over && !decision.is_admitted() {
                break;
            }
        },
        _ => {
            for round in 0..1_000 {
                // Up and down, and never more than the largest, which comes last.
                let units = if round % 2 == 0 { 40 * round } else { round };
                limit.replace(daily(units)).unwrap();
                thread::yield_now();
            }
            limit.replace(daily(LARGEST)).unwrap();
            is_over.store(true, Ordering::Release);
        }
    });
    assert_eq!(admitted.into_inner(), LARGEST);
    let spent = ready(limiter.peek("bob")).unwrap();
    assert_eq!((spent.limit(), spent.remaining()), (LARGEST, 0));
}

#[test]
fn another_policy_is_refused_by_both_names_and_the_old_limit_stays() {
    let limit = Reloadable::new(daily(2));
    for (other, name) in [
        (FixedWindow::new(Quota::per_day(9)), "fixed-window-9-1d"),
        (daily(9).named("hourly"), "hourly"),
    ] {
        let error = limit.clone().replace(other).unwrap_err();
        assert!(matches!(error, ConfigError::OtherPolicy { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("daily") && said.contains(name), "{said}");
        assert!(format!("{:?}", limit.in_force()).contains("units: 2"));
    }
}

fn policy_line<B>(response: &Response<B>) -> &str {
    let line = &response.headers()["ratelimit-policy"];
    line.to_str().unwrap()
}

#[tokio::test]
async fn a_request_is_told_the_numbers_that_judged_it_although_they_were_replaced_meanwhile() {
    let limit = Reloadable::new(daily(2));
    let layer = RateLimitLayer::new(limit.clone(), by_hand().1, Global);
    let service = layer.layer(service_fn(move |_: Request<String>| {
        limit.replace(daily(1)).unwrap();
        std::future::ready(Ok::<_, Infallible>(Response::new(String::new())))
    }));
    let ask = || service.clone().oneshot(Request::new(String::new()));
    let admitted = ask().await.unwrap();
    assert_eq!(policy_line(&admitted), "\"daily\";q=2;w=86400");
    assert_eq!(admitted.headers()["ratelimit"], "\"daily\";r=1;t=86400");
    let refused = ask().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(policy_line(&refused), "\"daily\";q=1;w=86400");
}
