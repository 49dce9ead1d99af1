//! A smaller limit in each process, while a real server is killed, hangs or is set up wrongly.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use fred::{clients::Client, types::Builder};
use http::{Request, Response};
use tokio::time::{Instant, sleep};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter,
    algorithm::FixedWindow,
    key::from_fn,
    store::{LocalStore, RedisStore},
};
use tollgate_redis_tests::{Server, Worker, until};
use tower::{Layer, Service, ServiceExt, service_fn, util::BoxCloneSyncService};

const DEADLINE: Duration = Duration::from_millis(100);

/// So much in more than a year.
fn limit(name: &str, units: u64) -> FixedWindow {
    FixedWindow::new(Quota::new(units, Duration::from_secs(400 * 86_400))).named(name)
}

fn store(client: Client) -> RedisStore {
    RedisStore::builder(client).deadline(DEADLINE).build()
}

type Limited = BoxCloneSyncService<Request<u32>, Response<Bytes>, Infallible>;

/// A service with the full limit over this store, and the small one in its place.
fn service(store: RedisStore, full: u64, small: u64) -> Limited {
    let key = |request: &Request<u32>| Ok::<_, Infallible>(Some(*request.body()));
    let alone = RateLimiter::new(limit("small", small), LocalStore::new());
    let layer = RateLimitLayer::new(limit("full", full), store, from_fn(key));
    let inner =
        service_fn(async |_: Request<u32>| Ok::<_, Infallible>(Response::new(Bytes::new())));
    BoxCloneSyncService::new(layer.on_store_error(alone).layer(inner))
}

/// What a request is answered: the status, and which limit decided.
async fn ask(service: &Limited) -> (u16, String) {
    let mut service = service.clone();
    let answer = service.ready().await.unwrap().call(Request::new(7)).await;
    let answer = answer.unwrap();
    let policy = answer.headers().get("ratelimit-policy");
    let name = policy.map(|policy| {
        policy
            .to_str()
            .unwrap()
            .split('"')
            .nth(1)
            .unwrap()
            .to_owned()
    });
    (answer.status().as_u16(), name.unwrap_or_default())
}

async fn is_decided_by(service: &Limited, name: &str) {
    until("a decision", async || {
        let (_, by) = ask(service).await;
        (by == name).then_some(())
    })
    .await;
}

/// While this befalls the server, the smaller limit decides about each request, whose ten units
/// were used before: it grants none of them anew.
async fn the_smaller_limit_takes_over(befalls: impl Fn(&Server), ends: impl AsyncFn(&Server)) {
    let server = Server::start().await;
    let service = service(store(server.client().await), 1_000_000, 30);
    for _ in 0..10 {
        assert_eq!(ask(&service).await, (200, "full".to_owned()));
    }
    befalls(&server);
    for number in 0..40 {
        let status = if number < 20 { 200 } else { 429 };
        assert_eq!(
            ask(&service).await,
            (status, "small".to_owned()),
            "{number}"
        );
    }
    ends(&server).await;
    is_decided_by(&service, "full").await;
    assert_eq!(ask(&service).await, (200, "full".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_server_is_dead_the_smaller_limit_decides() {
    let restart = async |server: &Server| server.restart().await;
    the_smaller_limit_takes_over(Server::kill, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_server_hangs_the_smaller_limit_decides() {
    let goes_on = async |server: &Server| server.continue_process();
    the_smaller_limit_takes_over(Server::stop_process, goes_on).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_wrong_password_nobody_is_let_through_by_the_smaller_limit() {
    let server = Server::start_with(&["--requirepass", "secret"]).await;
    let client = Builder::from_config(server.config_of("default", "other"));
    let service = service(store(client.build().unwrap()), 10, 10);
    for _ in 0..50 {
        assert_eq!(ask(&service).await, (500, String::new()));
    }
}

const PROCESSES: usize = 8;
const FULL: u64 = 400;
const SMALL: u64 = 200;

/// The server is stopped, goes on, is killed and comes back empty, while all processes ask as fast
/// as they can: together they admit the full limit, once more what it forgot, and the small limit
/// of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_stay_within_the_full_limit_and_the_small_one_of_each() {
    let server = Server::start().await;
    let role = server.port().to_string();
    let mut workers: Vec<_> = (0..PROCESSES)
        .map(|_| Worker::start("one_of_the_eight", &role))
        .collect();
    for worker in &mut workers {
        worker.ask("connect");
        worker.tell("go");
    }
    let pause = || sleep(Duration::from_millis(700));
    pause().await;
    for _ in 0..2 {
        server.stop_process();
        pause().await;
        server.continue_process();
        pause().await;
    }
    server.kill();
    pause().await;
    server.restart().await;
    pause().await;
    let (mut full, mut small) = (0, 0);
    for worker in &mut workers {
        worker.tell("end");
        let (said, is_whole) = worker.hear();
        assert!(is_whole, "{said:?}");
        let counts: Vec<u64> = said[0]
            .split(' ')
            .map(|count| count.parse().unwrap())
            .collect();
        let &[by_full, by_small] = &*counts else {
            panic!("{said:?}")
        };
        assert!(by_small <= SMALL, "{by_small}");
        (full, small) = (full + by_full, small + by_small);
    }
    println!("{full} by the full limit, {small} by the small ones");
    // The server came back empty once: it forgot what it had counted, at most the full limit.
    assert!((FULL..=2 * FULL).contains(&full), "{full}");
    assert!((1..=PROCESSES as u64 * SMALL).contains(&small), "{small}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_eight() {
    let Some(port) = Worker::role() else { return };
    let config = fred::types::config::Config {
        server: fred::types::config::ServerConfig::new_centralized(
            "127.0.0.1",
            port.parse().unwrap(),
        ),
        ..Default::default()
    };
    let client = Builder::from_config(config).build().unwrap();
    let service = service(store(client), FULL, SMALL);
    let order = || Worker::orders().next();
    assert_eq!(order().unwrap(), "connect");
    Worker::done();
    assert_eq!(order().unwrap(), "go");
    let end = tokio::task::spawn_blocking(order);
    let (mut full, mut small) = (0, 0);
    let start = Instant::now();
    while !end.is_finished() && start.elapsed() < Duration::from_secs(60) {
        match ask(&service).await {
            (200, by) if by == "full" => full += 1,
            (200, by) if by == "small" => small += 1,
            (429, _) => {}
            other => panic!("{other:?}"),
        }
        sleep(Duration::from_millis(4)).await;
    }
    Worker::say(format_args!("{full} {small}"));
    Worker::done();
}
