//! Processes that lease one key, while processes stop and die, and while the server forgets, fails
//! over or hands the slot to another.

use std::{cell::Cell, collections::HashMap, time::Duration};

use fred::prelude::Config;
use tokio::{task::JoinSet, time::sleep};
use tollgate::{
    Quota, RateLimiter, Timestamp,
    algorithm::{FixedWindow, TokenBucket},
    choice::Reloadable,
    clock::ManualClock,
    store::{RedisConnection, RedisStore, RedisUsage},
};
use tollgate_redis_tests::{
    Cluster, Redis, Sentinels, Server, Worker, connect, patient, slot_of, until,
};

const LEASE_TIME: Duration = Duration::from_millis(100);
/// No lease outlives this on the server.
const HELD_FOR_AT_MOST: Duration = Duration::from_secs(10);
const LIMIT: u64 = 10_000;

fn limiter(store: &RedisStore) -> RateLimiter<FixedWindow, RedisStore> {
    let rule = FixedWindow::new(Quota::per_day(LIMIT)).from_first_request();
    RateLimiter::new(rule, store.clone())
}

/// Four processes, of which one stops for so long, and one is killed.
async fn processes_stay_within_the_limit(stopped_for: Duration) {
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
        (said[0], said[1])
    };
    for worker in &mut workers {
        assert_eq!(ask(worker, 500).0, 500);
    }
    workers[0].suspend();
    workers[1].kill();
    for worker in &mut workers[2..] {
        ask(worker, 500);
    }
    sleep(stopped_for).await;
    workers[0].go_on();
    // Its lease is over: it asks.
    assert_eq!(ask(&mut workers[0], 1), (1, 0));
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
async fn processes_that_stop_or_die_with_a_lease_let_no_more_through_than_the_limit() {
    processes_stay_within_the_limit(3 * LEASE_TIME).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stops_for_longer_than_its_hold_lives_spends_nothing_of_it() {
    processes_stay_within_the_limit(HELD_FOR_AT_MOST + 10 * LEASE_TIME).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_leases() {
    let Some(url) = Worker::role() else { return };
    let client = connect(Config::from_url(&url).unwrap()).await;
    let store = patient(client).build().leased(LEASE_TIME);
    let limiter = limiter(&store);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_idle_while_a_server_hangs_is_given_back_afterwards() {
    let server = Server::start().await;
    let (deadline, lease_time) = (Duration::from_millis(200), Duration::from_secs(2));
    let store = RedisStore::builder(server.client().await).deadline(deadline);
    let store = store.build();
    let limiter = limiter(&store.leased(lease_time));
    let held = || {
        let usage = store.usage();
        usage.units_leased - usage.units_given_back - usage.leased
    };
    // One by one until most of a lease is left.
    while held() < 20 {
        limiter.check("bob").await.unwrap();
    }
    server.stop_process();
    let before = store.usage();
    // Others ask, so that the outage is known before the lease is over.
    for _ in 0..20 {
        let _ = limiter.check("alice").await;
        sleep(deadline).await;
    }
    assert_eq!(store.usage().units_given_back, before.units_given_back);
    server.continue_process();
    until("all that was not spent, given back", async || {
        (held() == 0).then_some(())
    })
    .await;
    assert_eq!(store.usage().units_lost, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_reloaded_back_and_forth_while_it_is_leased_lets_all_its_units_through() {
    let server = Server::start().await;
    let daily = |units| {
        let rule = FixedWindow::new(Quota::per_day(units)).from_first_request();
        rule.named("daily")
    };
    let limit = Reloadable::new(daily(LIMIT));
    let stores = [(); 4].map(async |()| patient(server.client().await).build().leased(LEASE_TIME));
    let mut processes = JoinSet::new();
    for (process, store) in (0..).zip(stores) {
        let (store, limit) = (store.await, limit.clone());
        let limiter = RateLimiter::new(limit.clone(), store.clone());
        processes.spawn(async move {
            let mut admitted = [0, 0];
            for number in 0..4_000 {
                if process == 0 && number % 100 == 99 {
                    let is_small = number / 100 % 2 == 0;
                    limit
                        .replace(daily(if is_small { LIMIT / 2 } else { LIMIT }))
                        .unwrap();
                }
                let decision = limiter.check("bob").await.unwrap();
                let is_small = decision.limit() < LIMIT;
                admitted[usize::from(is_small)] += u64::from(decision.is_admitted());
            }
            (admitted, store.usage())
        });
    }
    let processes = processes.join_all().await;
    let sum = |of: fn(&([u64; 2], RedisUsage)) -> u64| processes.iter().map(of).sum::<u64>();
    let [by_large, by_small] = [sum(|it| it.0[0]), sum(|it| it.0[1])];
    let leased = sum(|it| it.1.leased);
    assert!(by_small <= LIMIT / 2, "{by_small}");
    assert!(by_small > 0 && leased > 2_000, "{by_small} {leased}");
    let limiter = RateLimiter::new(daily(LIMIT), patient(server.client().await).build());
    let admitted = Cell::new(by_large + by_small);
    until("all units", async || {
        while limiter.check("bob").await.unwrap().is_admitted() {
            admitted.update(|it| it + 1);
        }
        (admitted.get() >= LIMIT).then_some(())
    })
    .await;
    assert_eq!(admitted.get(), LIMIT);
}

/// A limit of one a second is not leased, so nobody keeps it from the others. Ten minutes of a
/// clock that is turned by hand.
#[test]
fn of_a_limit_of_one_a_second_each_of_eight_that_always_ask_gets_its_part() {
    let redis = Redis::start();
    let clock = ManualClock::at(Timestamp::from_micros(1 << 40));
    let key = redis.new_key();
    let rule = TokenBucket::new(Quota::per_second(1)).burst(1);
    let limiters = [(); 8].map(|()| {
        let store = redis.store(clock.clone()).leased(LEASE_TIME);
        RateLimiter::new(rule.clone(), store)
    });
    let (mut admitted, mut first) = ([0_u64; 8], 0);
    for turn in 0..10 * 60 * 10 {
        // In no order that stands.
        first = (first * 5 + turn) % 8;
        for process in (first..8).chain(0..first) {
            let decision = redis.wait(limiters[process].check(&key)).unwrap();
            admitted[process] += u64::from(decision.is_admitted());
        }
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!(admitted.iter().sum::<u64>(), 600, "{admitted:?}");
    assert!(admitted.iter().all(|&it| it >= 600 / 8 / 2), "{admitted:?}");
}

/// Stores with connections of their own, in one process.
struct Fleet(Vec<RedisStore>);

impl Fleet {
    async fn new<C>(connection: impl AsyncFn() -> C, lease_time: Option<Duration>) -> Self
    where
        C: Into<RedisConnection>,
    {
        let mut stores = Vec::new();
        for _ in 0..3 {
            let store = RedisStore::builder(connection().await);
            let store = store.deadline(Duration::from_secs(1)).build();
            stores.push(lease_time.map_or(store.clone(), |time| store.leased(time)));
        }
        Self(stores)
    }

    /// How many of so many decisions of each store were admitted; one without an answer is not.
    async fn ask(&self, count: u64) -> u64 {
        let mut admitted = 0;
        for store in &self.0 {
            let limiter = limiter(store);
            for _ in 0..count {
                let decided = limiter.check("bob").await;
                admitted += u64::from(decided.is_ok_and(|it| it.is_admitted()));
            }
        }
        admitted
    }

    /// Asks until a store admits something.
    async fn is_decided(&self) -> u64 {
        until("a decision", async || match self.ask(1).await {
            0 => None,
            admitted => Some(admitted),
        })
        .await
    }

    /// How many are still admitted until none are, also after what lies idle was given back.
    async fn use_up(&self) -> u64 {
        let (mut all, mut rounds_of_none) = (0, 0);
        while rounds_of_none < 3 {
            let admitted = self.ask(500).await;
            rounds_of_none = if admitted == 0 { rounds_of_none + 1 } else { 0 };
            all += admitted;
            sleep(3 * LEASE_TIME).await;
        }
        all
    }

    fn leased(&self) -> u64 {
        self.0.iter().map(|store| store.usage().leased).sum()
    }
}

/// Without leases, and with them.
const BOTH: [Option<Duration>; 2] = [None, Some(LEASE_TIME)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_server_forgot_all_what_was_leased_comes_on_top_and_no_more() {
    let mut excess = HashMap::new();
    for lease_time in BOTH {
        let server = Server::start().await;
        let fleet = Fleet::new(async || server.client().await, lease_time).await;
        let before = fleet.ask(1_000).await;
        assert_eq!(before, 3_000);
        let _: String = server.command("FLUSHALL", &[]).await;
        let after = fleet.use_up().await;
        println!("{before} were admitted before, {after} after: {lease_time:?}");
        assert!(after >= LIMIT, "{after}");
        assert_eq!(fleet.leased() > 1_000, lease_time.is_some());
        excess.insert(lease_time, after - LIMIT);
    }
    assert_eq!(excess[&None], 0);
    assert!(excess[&Some(LEASE_TIME)] <= LIMIT / 4, "{excess:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_count_on_the_server_that_a_failover_makes_the_primary() {
    let sentinels = Sentinels::start().await;
    let fleet = Fleet::new(async || sentinels.client().await, Some(LEASE_TIME)).await;
    let mut admitted = fleet.ask(1_000).await;
    sentinels.replica_is_in_step().await;
    sentinels.kill_primary().await;
    admitted += fleet.ask(1).await;
    sentinels.wait_for_failover().await;
    admitted += fleet.is_decided().await;
    admitted += fleet.use_up().await;
    println!(
        "{admitted} were admitted, {} of them leased",
        fleet.leased()
    );
    assert!(fleet.leased() > 1_000);
    assert!(admitted <= LIMIT, "{admitted}");
    assert!(admitted >= LIMIT * 3 / 4, "{admitted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_count_on_the_node_to_which_a_slot_moves() {
    let cluster = Cluster::start().await;
    let client = async || super::cluster::client(&cluster);
    let fleet = Fleet::new(client, Some(LEASE_TIME)).await;
    let mut admitted = fleet.is_decided().await + fleet.ask(500).await;
    let slot = slot_of(&cluster.keys("").await[0]);
    let from = cluster.owner_of(slot).await;
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to).await;
    admitted += fleet.ask(500).await;
    cluster.move_keys(slot, from, to).await;
    admitted += fleet.ask(500).await;
    cluster.end_migration(slot, from, to).await;
    admitted += fleet.use_up().await;
    println!(
        "{admitted} were admitted, {} of them leased",
        fleet.leased()
    );
    assert!(fleet.leased() > 1_000);
    assert_eq!(admitted, LIMIT);
}
