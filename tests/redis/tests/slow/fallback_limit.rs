//! A smaller limit in each process, while a real server is killed, hangs, fails over or is set up
//! wrongly.

use std::{cell::RefCell, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use fred::{
    clients::Client,
    types::{Builder, config::Config},
};
use http::{Request, Response};
use tokio::{sync::Mutex, task::spawn_blocking, time::sleep};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter,
    algorithm::FixedWindow,
    key::from_fn,
    store::{LocalStore, RedisStore},
};
use tollgate_redis_tests::{Proxy, Sentinels, Server, Worker, until};
use tower::{Layer, Service, ServiceExt, service_fn, util::BoxCloneSyncService};

const DEADLINE: Duration = Duration::from_millis(100);

/// The key of all requests.
const KEY: u32 = 7;

/// So many units in more than a year.
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
    let answer = service.ready().await.unwrap().call(Request::new(KEY)).await;
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

/// During this fault of the server the smaller limit decides about each request. Its ten units were
/// used before, and it grants none of them anew.
async fn the_smaller_limit_takes_over(fault: impl Fn(&Server), ends: impl AsyncFn(&Server)) {
    let server = Server::start().await;
    let service = service(store(server.client().await), 1_000_000, 30);
    for _ in 0..10 {
        assert_eq!(ask(&service).await, (200, "full".to_owned()));
    }
    fault(&server);
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

const PROCESSES: usize = 8;

/// A small machine runs eight processes at a time.
static CROWD: Mutex<()> = Mutex::const_new(());

/// Starts the processes, over the server at this URL, with a full limit and a small one each, and
/// has all ask as fast as they can once the last of them is connected.
fn start_workers(url: &str, full: u64, small: u64) -> Vec<Worker> {
    start_workers_of(PROCESSES, url, full, small)
}

fn start_workers_of(processes: usize, url: &str, full: u64, small: u64) -> Vec<Worker> {
    let role = format!("{full} {small} {url}");
    let mut workers: Vec<_> = (0..processes)
        .map(|_| Worker::start("slow::fallback_limit::one_of_the_eight", &role))
        .collect();
    for worker in &mut workers {
        worker.ask("connect");
    }
    for worker in &mut workers {
        worker.tell("go");
    }
    workers
}

/// How many requests of a process were answered: admitted and refused by each limit.
#[derive(Debug, Default, Clone, Copy)]
struct Answers {
    full: u64,
    small: u64,
    refused_by_full: u64,
    refused_by_small: u64,
}

impl Answers {
    fn is_empty(&self) -> bool {
        self.full + self.small + self.refused_by_full + self.refused_by_small == 0
    }

    fn add(&mut self, (status, by): (u16, &str)) {
        let count = match (status, by) {
            (200, "full") => &mut self.full,
            (200, "small") => &mut self.small,
            (429, "full") => &mut self.refused_by_full,
            (429, "small") => &mut self.refused_by_small,
            // Whether Redis is set up rightly is not known before the first attempt to connect has
            // ended.
            (500, "") if self.is_empty() => return,
            other => panic!("{other:?}"),
        };
        *count += 1;
    }
}

/// The answers of this process so far: to requests from before it was told of the server's failure,
/// and since.
fn answers(worker: &mut Worker) -> [Answers; 2] {
    let said = worker.ask("tell");
    let answers = said.iter().map(|line| {
        let numbers: Vec<u64> = line.split(' ').map(|it| it.parse().unwrap()).collect();
        let [full, small, refused_by_full, refused_by_small] = numbers[..] else {
            panic!("{line}")
        };
        Answers {
            full,
            small,
            refused_by_full,
            refused_by_small,
        }
    });
    let answers: Vec<_> = answers.collect();
    answers.try_into().unwrap()
}

/// Waits until each process has had such answers, and returns those of all.
async fn answers_of_each(
    workers: &mut [Worker],
    what: &str,
    are_such: impl Fn([Answers; 2]) -> bool,
) -> Vec<[Answers; 2]> {
    let workers = RefCell::new(workers);
    until(what, async || {
        let all: Vec<_> = workers.borrow_mut().iter_mut().map(answers).collect();
        all.iter().all(|of_one| are_such(*of_one)).then_some(all)
    })
    .await
}

fn sum<'a>(all: &'a [[Answers; 2]], count: impl Fn(&Answers) -> u64 + 'a) -> u64 {
    all.iter().flatten().map(count).sum()
}

/// The server is stopped, goes on, is killed and comes back empty, while all processes ask as fast
/// as they can: together they admit the full limit, once more what it forgot, and the small limit
/// of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_stay_within_the_full_limit_and_the_small_one_of_each() {
    const FULL: u64 = 400;
    const SMALL: u64 = 200;

    let _crowd = CROWD.lock().await;
    let server = Server::start().await;
    let mut workers = start_workers(&server.url(), FULL, SMALL);
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
    let all: Vec<_> = workers.iter_mut().map(answers).collect();
    for of_one in all.chunks(1) {
        let small = sum(of_one, |answers| answers.small);
        assert!(small <= SMALL, "{of_one:?}");
    }
    let (full, small) = (sum(&all, |it| it.full), sum(&all, |it| it.small));
    println!("{full} by the full limit, {small} by the small ones");
    // The server came back empty once: it forgot what it had counted, at most the full limit.
    assert!((FULL..=2 * FULL).contains(&full), "{full}");
    assert!((1..=PROCESSES as u64 * SMALL).contains(&small), "{small}");
}

/// The primary dies while all processes ask as fast as they can, and its replica takes over, which
/// knows of the first hundred units only: together they admit the full limit, once more what the
/// replica did not know, and the small limit of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_stay_within_the_bound_while_the_server_fails_over() {
    const FULL: u64 = 2_000;
    const SMALL: u64 = 250;
    const KNOWN: u64 = 100;

    let _crowd = CROWD.lock().await;
    let sentinels = Sentinels::start().await;
    let patient = RedisStore::builder(sentinels.client().await);
    let patient = patient.deadline(Duration::from_secs(10)).build();
    let limiter = RateLimiter::new(limit("full", FULL), patient);
    let known = u32::try_from(KNOWN).unwrap();
    assert!(limiter.check_cost(&KEY, known).await.unwrap().is_admitted());
    sentinels.part_the_replica().await;
    let mut workers = start_workers(&sentinels.url(), FULL, SMALL);
    let asks_the_first = |[before, _]: [Answers; 2]| before.full >= 30;
    answers_of_each(&mut workers, "answers of the primary", asks_the_first).await;
    let first = sentinels.kill_primary().await.port();
    // The first primary does not answer what is asked from now on.
    for worker in &mut workers {
        worker.tell("failed");
    }
    let second = sentinels.wait_for_failover().await.port();
    assert_ne!(second, first);
    let is_used_up = |[_, after]: [Answers; 2]| after.refused_by_full > 0;
    let all = answers_of_each(&mut workers, "refusals by the second primary", is_used_up).await;
    println!("{all:?}");

    let each = |part: usize| all.iter().map(move |of_one| of_one[part]);
    let forgotten: u64 = each(0).map(|before| before.full).sum();
    let after: u64 = each(1).map(|after| after.full).sum();
    // Some that it charged may have been answered too late, and by the small limit.
    assert!((FULL / 2..=FULL - KNOWN).contains(&after), "{after}");
    for of_one @ [before, _] in &all {
        let small = sum(&[*of_one], |answers| answers.small);
        assert!(before.full > 0 && small > 0, "{of_one:?}");
        // The small limit had counted what the full one admitted.
        assert!(before.full.min(SMALL) + small <= SMALL, "{of_one:?}");
    }
    assert!(each(1).any(|after| after.refused_by_small > 0));
    let admitted = KNOWN + sum(&all, |answers| answers.full + answers.small);
    let bound = FULL + forgotten + PROCESSES as u64 * SMALL;
    println!("{admitted} of {bound}, {forgotten} were forgotten");
    assert!(admitted <= bound);
}

/// Twice the proxy forwards nothing, and closes no connection. Meanwhile a process is killed, and
/// another one starts with a small limit of its own. Nothing is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_stay_within_the_bound_in_a_black_hole_and_one_that_starts_there_counts() {
    const FULL: u64 = 3_000;
    const SMALL: u64 = 100;

    let _crowd = CROWD.lock().await;
    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::ZERO).await;
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let mut workers = start_workers(&url, FULL, SMALL);
    let asks = |[before, _]: [Answers; 2]| before.full >= 5;
    answers_of_each(&mut workers, "answers of the server", asks).await;
    proxy.hold_first(usize::MAX);
    let is_used_up = |[before, _]: [Answers; 2]| before.refused_by_small > 0;
    answers_of_each(&mut workers, "refusals by the small limit", is_used_up).await;

    let killed = answers(&mut workers[0]);
    workers[0].kill();
    workers[0] = start_workers_of(1, &url, FULL, SMALL).remove(0);
    let all = answers_of_each(&mut workers, "refusals in the new process", is_used_up).await;
    let of_the_new = sum(&all[..1], |answers| answers.small);
    assert_eq!(of_the_new, SMALL, "nobody else is charged to it");

    proxy.forward();
    let most = all.iter().map(|[of_one, _]| of_one.full).max().unwrap();
    let asks_again = |[of_one, _]: [Answers; 2]| of_one.full > most;
    answers_of_each(&mut workers, "answers of the server again", asks_again).await;
    proxy.hold_first(usize::MAX);
    sleep(Duration::from_secs(1)).await;
    proxy.forward();
    let is_over = |[before, _]: [Answers; 2]| before.refused_by_full > 0;
    let mut all = answers_of_each(&mut workers, "refusals by the full limit", is_over).await;
    all.push(killed);
    println!("{all:?}");
    for [of_one, _] in &all {
        assert!(of_one.small <= SMALL, "{of_one:?}");
    }
    let (full, small) = (sum(&all, |it| it.full), sum(&all, |it| it.small));
    println!("{full} by the full limit, {small} by the small ones");
    // What was charged just before the proxy stopped may have been answered by a small limit.
    assert!((FULL / 2..=FULL).contains(&full), "{full}");
    // Each of the eight was charged with what the server admitted before.
    let first_charged: u64 = 5 * PROCESSES as u64;
    let bound = (PROCESSES as u64 + 1) * SMALL - first_charged;
    assert!((SMALL..=bound).contains(&small), "{small} of {bound}");
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
    let service = service(store(client.build().unwrap()), full, small);
    let order = || Worker::orders().next();
    assert_eq!(order().unwrap(), "connect");
    Worker::done();
    assert_eq!(order().unwrap(), "go");
    let seen = Arc::new(Mutex::new((0, [Answers::default(); 2])));
    let told = Arc::clone(&seen);
    let orders = spawn_blocking(move || {
        for order in Worker::orders() {
            let (part, all) = &mut *told.blocking_lock();
            match &*order {
                "failed" => *part = 1,
                "tell" => {
                    for it in all {
                        let admitted = format!("{} {}", it.full, it.small);
                        let refused = format!("{} {}", it.refused_by_full, it.refused_by_small);
                        Worker::say(format!("{admitted} {refused}"));
                    }
                    Worker::done();
                }
                other => panic!("{other}"),
            }
        }
    });
    while !orders.is_finished() {
        let (part, _) = *seen.lock().await;
        let (status, by) = ask(&service).await;
        seen.lock().await.1[part].add((status, &by));
        sleep(Duration::from_millis(4)).await;
    }
}
