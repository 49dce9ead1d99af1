//! Callers over Redis that wait in line until a cost is admitted.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tollgate::{
    Quota, RateLimiter,
    algorithm::{Gcra, Scripted, SlidingLog, TokenBucket},
    choice::Reloadable,
    store::RedisStore,
};
use tollgate_redis_tests::{Server, comes, patient};

const CALLERS: usize = 1_000;
/// How late a busy machine may notice something.
const LATE: Duration = Duration::from_secs(1);

/// The numbers of those who were served, in turn.
type Served = Arc<Mutex<Vec<usize>>>;

async fn store(server: &Server) -> RedisStore {
    patient(server.client().await).build()
}

/// A limiter whose scripts are loaded.
async fn limiter<A: Scripted<State: Send, Snapshot: Send>>(
    rule: A,
    store: &RedisStore,
) -> Arc<RateLimiter<A, RedisStore>> {
    let limiter = RateLimiter::new(rule, store.clone());
    limiter.until_ready("ann", 1).await.unwrap();
    limiter.peek("ann").await.unwrap();
    Arc::new(limiter)
}

/// Callers of one key who come one after the other, at one instant, and write down when they are
/// served.
fn come<A>(limiter: &Arc<RateLimiter<A, RedisStore>>) -> (Vec<JoinHandle<()>>, Served)
where
    A: Scripted<State: Send, Snapshot: Send + Sync> + Send + Sync + 'static,
{
    let served = Served::default();
    let come = |number| {
        let (limiter, served) = (Arc::clone(limiter), Arc::clone(&served));
        tokio::spawn(async move {
            limiter.until_ready("bob", 1).await.unwrap();
            served.lock().unwrap().push(number);
        })
    };
    ((0..CALLERS).map(come).collect(), served)
}

#[tokio::test]
async fn of_all_who_come_at_one_instant_only_the_first_in_line_asks() {
    let server = Server::start().await;
    let store = store(&server).await;
    let rule = Gcra::new(Quota::per_hour(79)).named("api");
    let limiter = limiter(rule, &store).await;
    let (before, start) = (server.command_calls("evalsha").await, Instant::now());
    let (callers, served) = come(&limiter);
    comes("a refusal", async || store.usage().refused > 0).await;
    assert_eq!(*served.lock().unwrap(), Vec::from_iter(0..79));
    let usage = store.usage();
    assert_eq!((usage.admitted, usage.refused), (1 + 79, 1));
    assert_eq!(usage.in_flight, 0);
    let asked = server.command_calls("evalsha").await - before;
    let looks = start.elapsed().as_secs();
    let are_few = (80..=80 + looks).contains(&asked);
    assert!(are_few, "{asked} scripts, {looks} of them looks");
    callers.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn of_those_who_give_up_only_the_first_in_line_may_be_charged_and_not_if_it_is_settled() {
    let server = Server::start().await;
    let plenty = TokenBucket::new(Quota::per_day(CALLERS as u64)).named("api");
    let (charged, most) = charged_to_who_gave_up(&server, plenty.clone()).await;
    assert!(charged <= most, "{charged} of {most}");
    let (charged, _) = charged_to_who_gave_up(&server, plenty.named("settled").settled()).await;
    assert_eq!(charged, 0);
}

/// They give up at random instants, most of them while the server hangs, and all who are left at
/// one instant: how much is charged to them in the end, and how many were the first in line.
async fn charged_to_who_gave_up<A>(server: &Server, rule: A) -> (u64, u64)
where
    A: Scripted<State: Send, Snapshot: Send + Sync> + Send + Sync + 'static,
{
    let store = store(server).await;
    let limiter = limiter(rule, &store).await;
    let (callers, served) = come(&limiter);
    let (mut random, mut firsts) = (Rng::with_seed(7), 0);
    let mut waiting = Vec::from_iter(0..CALLERS);
    for round in 0..40 {
        // It hangs in every other round, and in the last one.
        match round % 2 {
            0 => server.continue_process(),
            _ => server.stop_process(),
        }
        for _ in 0..random.usize(1..8) {
            sleep(Duration::from_micros(random.u64(0..1_000))).await;
            waiting.retain(|number| !callers[*number].is_finished());
            if waiting.is_empty() {
                continue;
            }
            let at = random.usize(..waiting.len()) * random.usize(..2);
            firsts += u64::from(at == 0);
            callers[waiting.remove(at)].abort();
        }
    }
    callers.iter().for_each(JoinHandle::abort);
    server.continue_process();
    comes("its end", async || store.usage().in_flight == 0).await;
    let served = served.lock().unwrap().len() as u64;
    let charged = async || CALLERS as u64 - limiter.peek("bob").await.unwrap().remaining() - served;
    if A::SETTLES {
        comes("units that are freed", async || charged().await == 0).await;
    }
    // Of those who are left, the first one.
    (charged().await, firsts + 1)
}

#[tokio::test]
async fn the_first_in_line_notices_within_a_second_that_there_is_room() {
    let server = Server::start().await;
    let (waits_at, changed_at) = (store(&server).await, store(&server).await);
    let log = |units| SlidingLog::new(Quota::per_day(units)).named("api");
    let limit = |units| log(units).settled();
    let is_noticed = async |change: &str| {
        let in_force = Reloadable::new(limit(2));
        let limiter = RateLimiter::new(in_force.clone(), waits_at.clone());
        let other = RateLimiter::new(limit(2), changed_at.clone());
        other.check(change).await.unwrap();
        let hold = other.hold(change, 1).await.unwrap().expect("it fits");
        let changed = async {
            sleep(Duration::from_millis(300)).await;
            match change {
                "reset" => other.reset(change).await.unwrap(),
                "refund" => other.refund(change, 1).await.unwrap(),
                "settle" => hold.settle(0).await.unwrap(),
                _ => in_force.replace(limit(3)).unwrap(),
            }
            Instant::now()
        };
        let ready = async { (limiter.until_ready(change, 1).await, Instant::now()) };
        let ((ready, noticed), changed) = tokio::join!(ready, changed);
        let after = noticed.checked_duration_since(changed).expect("not before");
        assert!(ready.unwrap().is_admitted());
        let is_soon = after <= Duration::from_secs(1) + LATE;
        assert!(is_soon, "{change}: {after:?}");
    };
    let [reset, refund, settle, raise] = ["reset", "refund", "settle", "raise"].map(is_noticed);
    tokio::join!(reset, refund, settle, raise);
}
