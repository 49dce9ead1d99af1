//! Settlements that come late. If their holds are gone, because the process was suspended or the
//! server was replaced by one that does not know them, they free nothing that others hold. If the
//! server hangs for a while, no response waits for them.

use std::{convert::Infallible, fmt::Debug, future::ready, sync::Arc, time::Duration};

use fred::prelude::Config;
use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tollgate::{
    End, Hold, Quota, RateLimitLayer, RateLimiter,
    algorithm::{Settled, SlidingLog},
    key::Global,
    store::RedisStore,
};
use tollgate_redis_tests::{Sentinels, Server, Worker, comes, connect, patient, until};
use tower::{Layer, Service, ServiceExt, service_fn};

const HELD_AT_MOST: Duration = Duration::from_secs(2);

/// What is spent does not come back while a test lasts.
fn ten() -> Settled<SlidingLog> {
    SlidingLog::new(Quota::per_day(10)).settled()
}

fn briefly() -> Settled<SlidingLog> {
    ten().held_at_most(HELD_AT_MOST)
}

type Limiter = RateLimiter<Settled<SlidingLog>, RedisStore>;

async fn limiter(rule: Settled<SlidingLog>, config: Config) -> Limiter {
    RateLimiter::new(rule, patient(connect(config).await).build())
}

async fn held(limiter: &Limiter, key: &str, units: u32) -> Hold {
    let held = limiter.hold(key, units).await.unwrap();
    held.unwrap_or_else(|refused| panic!("{units} of {key}: {refused:?}"))
}

async fn remaining(limiter: &Limiter, key: &str) -> u64 {
    limiter.peek(key).await.unwrap().remaining()
}

/// Holds units of each key, and settles them with what it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_that_holds() {
    let Some(url) = Worker::role() else { return };
    let limiter = limiter(briefly(), Config::from_url(&url).unwrap()).await;
    let mut holds = Vec::new();
    for order in Worker::orders() {
        let words: Vec<&str> = order.split(' ').collect();
        match words[..] {
            ["hold", key, units] => {
                holds.push(held(&limiter, key, units.parse().unwrap()).await);
            }
            ["settle", spent] => {
                let hold: Hold = holds.remove(0);
                hold.settle(spent.parse().unwrap()).await.unwrap();
            }
            _ => panic!("{order}"),
        }
        Worker::done();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_suspended_for_longer_than_its_holds_last_frees_nothing_of_others() {
    let server = Server::start().await;
    let limiter = limiter(briefly(), server.config()).await;
    let mut suspended = Worker::start(
        "slow::late_settlements::a_process_that_holds",
        &server.url(),
    );
    for key in ["less", "more"] {
        suspended.ask(&format!("hold {key} 4"));
        assert_eq!(remaining(&limiter, key).await, 6);
    }
    suspended.suspend();
    // It gets this order while it is suspended, and settles as soon as it goes on.
    suspended.tell("settle 0");
    suspended.tell("settle 6");
    sleep(HELD_AT_MOST * 2 + Duration::from_millis(200)).await;
    let begun = Instant::now();
    let mut others = Vec::new();
    for key in ["less", "more"] {
        // By then what it holds has counted as spent.
        others.push(held(&limiter, key, 5).await);
        assert_eq!(remaining(&limiter, key).await, 1);
    }
    suspended.go_on();
    assert!(suspended.hear().1 && suspended.hear().1);
    assert_eq!(remaining(&limiter, "less").await, 1);
    assert_eq!(remaining(&limiter, "more").await, 0);
    assert!(begun.elapsed() < HELD_AT_MOST, "too slow a machine to tell");
    for (hold, spent) in others.into_iter().zip([2, 0]) {
        hold.settle(spent).await.unwrap();
    }
    assert_eq!(remaining(&limiter, "less").await, 10 - 4 - 2);
    assert_eq!(remaining(&limiter, "more").await, 10 - 4 - 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_lost_in_a_failover_frees_nothing_and_charges_what_was_spent_beyond_it() {
    let sentinels = Sentinels::start().await;
    let limiter = limiter(ten(), sentinels.config()).await;
    sentinels.part_the_replica().await;
    let mut lost = Vec::new();
    for key in ["less", "all", "more"] {
        lost.push((key, held(&limiter, key, 4).await));
    }
    sentinels.kill_primary().await;
    sentinels.wait_for_failover().await;
    until("a decision", async || limiter.peek("any").await.ok()).await;
    let mut others = Vec::new();
    for (key, _) in &lost {
        assert_eq!(remaining(&limiter, key).await, 10, "it is lost");
        others.push(held(&limiter, key, 7).await);
    }
    for ((key, late), (spent, left)) in lost.into_iter().zip([(1, 3), (4, 3), (6, 1)]) {
        late.settle(spent).await.unwrap();
        assert_eq!(remaining(&limiter, key).await, left, "{key}");
    }
    for other in others {
        other.settle(0).await.unwrap();
    }
    for (key, left) in [("less", 10), ("all", 10), ("more", 8)] {
        assert_eq!(remaining(&limiter, key).await, left, "{key}");
    }
}

/// How long the request takes, to the end of its body.
async fn answered_in<S, B>(service: S) -> Duration
where
    S: Service<Request<()>, Response = Response<B>, Error: Debug>,
{
    let begun = Instant::now();
    let response = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(response);
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_after_the_handler_delays_no_answer_and_learns_later_what_was_spent() {
    let server = Arc::new(Server::start().await);
    let store = patient(server.client().await).build();
    let ten = |name| SlidingLog::new(Quota::per_day(10)).named(name).settled();
    let layer = |name| RateLimitLayer::new(ten(name), store.clone(), Global).cost(4);
    // Answers, after which the server does nothing. It settles the hold of its request, if there is
    // one.
    let stops = Arc::clone(&server);
    let inner = service_fn(move |request: Request<()>| {
        stops.stop_process();
        if let Some(hold) = request.extensions().get::<Hold>() {
            drop(hold.settle(1));
        }
        ready(Ok::<_, Infallible>(Response::new("hello".to_owned())))
    });
    let by_hand = layer("by-hand");
    let by_head = layer("by-head").settle(|_: &Response<String>| 1);
    let at_end = layer("at-end").settle_at_end(|_: &End| 1);
    for way in ["by-hand", "by-head", "at-end"] {
        // Loads the scripts.
        let limiter = RateLimiter::new(ten(way), store.clone());
        let hold = limiter.hold(&(), 1).await.unwrap().unwrap();
        hold.settle(0).await.unwrap();
        let took = match way {
            "by-hand" => answered_in(by_hand.layer(inner.clone())).await,
            "by-head" => answered_in(by_head.layer(inner.clone())).await,
            _ => answered_in(at_end.layer(inner.clone())).await,
        };
        assert!(took < Duration::from_secs(1), "{way}: {took:?}");
        server.continue_process();
        let left = async || limiter.peek(&()).await.ok().map(|it| it.remaining());
        comes("the settlement", async || left().await == Some(9)).await;
    }
}
