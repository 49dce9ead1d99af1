//! Processes that lease one key, of which one stops for three lease times and one is killed.

use std::time::Duration;

use fred::prelude::Config;
use tokio::time::sleep;
use tollgate::{Quota, RateLimiter, algorithm::FixedWindow};
use tollgate_redis_tests::{Server, Worker, connect, patient};

const LEASE_TIME: Duration = Duration::from_millis(100);
const LIMIT: u64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_stop_or_die_with_a_lease_let_no_more_through_than_the_limit() {
    let server = Server::start().await;
    let start = |_| Worker::start("slow::leases::one_that_leases", &server.url());
    let mut workers: Vec<_> = (0..4).map(start).collect();
    let (mut admitted, mut leased) = (0, 0);
    let mut ask = |worker: &mut Worker, count: u64| {
        let said: Vec<u64> = worker
            .ask(&count.to_string())
            .iter()
            .map(|it| it.parse().unwrap())
            .collect();
        admitted += said[0];
        leased += said[1];
        said[0]
    };
    for worker in &mut workers {
        assert_eq!(ask(worker, 500), 500);
    }
    workers[0].suspend();
    workers[1].kill();
    for worker in &mut workers[2..] {
        ask(worker, 500);
    }
    sleep(3 * LEASE_TIME).await;
    workers[0].go_on();
    workers.remove(1);
    // All that is left: the process that stopped, and those that did not.
    for _ in 0..6 {
        for worker in &mut workers {
            ask(worker, 1_000);
        }
    }
    assert!(admitted <= LIMIT, "{admitted}");
    // A process that dies keeps a quarter of the limit from the others at most.
    assert!(admitted >= LIMIT * 3 / 4, "{admitted}");
    assert!(leased > 1_000, "{leased}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_leases() {
    let Some(url) = Worker::role() else {
        return;
    };
    let client = connect(Config::from_url(&url).unwrap()).await;
    let store = patient(client).build().leased(LEASE_TIME);
    let rule = FixedWindow::new(Quota::per_day(LIMIT)).from_first_request();
    let limiter = RateLimiter::new(rule, store.clone());
    for order in Worker::orders() {
        let (mut admitted, before) = (0_u64, store.usage().leased);
        for _ in 0..order.parse::<u64>().unwrap() {
            admitted += u64::from(limiter.check("bob").await.unwrap().is_admitted());
        }
        Worker::say(admitted);
        Worker::say(store.usage().leased - before);
        Worker::done();
    }
}
