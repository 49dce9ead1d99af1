//! A smaller limit in each process, while a real server is killed, hangs or cannot be reached.

use std::time::Duration;

use fred::types::{Builder, config::Config};
use http::Request;
use tokio::{task::spawn_blocking, time::sleep};
use tollgate::{
    Quota, RateLimiter,
    algorithm::FixedWindow,
    store::{LocalStore, RedisStore},
};
use tollgate_redis_tests::{Proxy, Server, Worker};
use tower::{Service, ServiceExt};

use crate::traffic::{Limited, limited};

const DEADLINE: Duration = Duration::from_millis(100);

/// The key of all requests.
const KEY: u32 = 7;

/// So many units in more than a year.
fn limit(name: &str, units: u64) -> FixedWindow {
    FixedWindow::new(Quota::new(units, Duration::from_secs(400 * 86_400))).named(name)
}

/// What a request is answered: the status, and which limit decided.
async fn ask(service: &Limited) -> (u16, String) {
    let mut service = service.clone();
    let answer = service.ready().await.unwrap().call(Request::new(KEY)).await;
    let answer = answer.unwrap();
    let policy = answer.headers().get("ratelimit-policy");
    let name = policy.and_then(|policy| policy.to_str().unwrap().split('"').nth(1));
    let name = name.unwrap_or_default().to_owned();
    (answer.status().as_u16(), name)
}

const PROCESSES: u64 = 8;

/// The server hangs, goes on, cannot be reached, is killed and comes back empty, while all
/// processes ask as fast as they can: together they admit the full limit, once more what it forgot,
/// and the small limit of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_stay_within_the_full_limit_and_the_small_one_of_each() {
    const FULL: u64 = 400;
    const SMALL: u64 = 200;

    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::ZERO).await;
    let role = format!("{FULL} {SMALL} redis://127.0.0.1:{}", proxy.port());
    let start = |_| Worker::start("slow::fallback_limit::one_of_the_eight", &role);
    let mut workers: Vec<_> = (0..PROCESSES).map(start).collect();
    for worker in &mut workers {
        worker.ask("connect");
    }
    workers.iter_mut().for_each(|worker| worker.tell("go"));
    let pause = || sleep(Duration::from_millis(700));
    pause().await;
    server.stop_process();
    pause().await;
    server.continue_process();
    pause().await;
    proxy.hold_first(usize::MAX);
    pause().await;
    proxy.forward();
    pause().await;
    server.kill();
    pause().await;
    server.restart().await;
    pause().await;
    let (mut full, mut small) = (0, 0);
    for worker in &mut workers {
        let said = worker.ask("tell");
        let numbers: Vec<u64> = said.iter().map(|it| it.parse().unwrap()).collect();
        assert!(numbers[1] <= SMALL, "{numbers:?}");
        (full, small) = (full + numbers[0], small + numbers[1]);
    }
    println!("{full} by the full limit, {small} by the small ones");
    // The server came back empty once: it forgot what it had counted, at most the full limit.
    assert!((FULL..=2 * FULL).contains(&full), "{full}");
    assert!((1..=PROCESSES * SMALL).contains(&small), "{small}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_eight() {
    let Some(role) = Worker::role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let [full, small, url] = words[..] else {
        panic!("{role}")
    };
    let (full, small) = (full.parse().unwrap(), small.parse().unwrap());
    let client = Builder::from_config(Config::from_url(url).unwrap());
    let store = RedisStore::builder(client.build().unwrap()).deadline(DEADLINE);
    let alone = RateLimiter::new(limit("small", small), LocalStore::new());
    let service = limited(limit("full", full), &store.build(), alone);
    assert_eq!(Worker::orders().next().unwrap(), "connect");
    Worker::done();
    assert_eq!(Worker::orders().next().unwrap(), "go");
    let order = spawn_blocking(|| Worker::orders().next());
    let (mut by_full, mut by_small, mut refused) = (0, 0, 0);
    while !order.is_finished() {
        let (status, by) = ask(&service).await;
        match (status, &*by) {
            (200, "full") => by_full += 1,
            (200, "small") => by_small += 1,
            (429, _) => refused += 1,
            // Whether Redis is set up rightly is not known before the first attempt to connect has
            // ended.
            (500, "") if by_full + by_small + refused == 0 => {}
            other => panic!("{other:?}"),
        }
        sleep(Duration::from_millis(4)).await;
    }
    Worker::say(by_full);
    Worker::say(by_small);
    Worker::done();
}
