//! Callers over Redis that wait in line until a cost is admitted.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tollgate::{
    Quota, RateLimiter,
    algorithm::{Gcra, Scripted, TokenBucket},
    store::RedisStore,
};
use tollgate_redis_tests::{Server, until};

const CALLERS: usize = 1_000;

async fn store(server: &Server) -> RedisStore {
    let builder = RedisStore::builder(server.client().await);
    builder.deadline(Duration::from_secs(20)).build()
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
/// served; unless all of them give up at the same instant.
fn come<A>(
    limiter: &Arc<RateLimiter<A, RedisStore>>,
    patience: Duration,
) -> (JoinSet<()>, Arc<Mutex<Vec<usize>>>)
where
    A: Scripted<State: Send, Snapshot: Send + Sync> + Send + Sync + 'static,
{
    let (mut callers, served) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
    let end = Instant::now() + patience;
    for number in 0..CALLERS {
        let (limiter, served) = (Arc::clone(limiter), Arc::clone(&served));
        callers.spawn(async move {
            if let Ok(ready) = timeout_at(end, limiter.until_ready("bob", 1)).await {
                ready.unwrap();
                served.lock().unwrap().push(number);
            }
        });
    }
    (callers, served)
}

#[tokio::test]
async fn of_all_who_come_at_one_instant_only_the_first_in_line_asks() {
    let server = Server::start().await;
    let store = store(&server).await;
    let rule = Gcra::new(Quota::per_hour(79)).named("api");
    let limiter = limiter(rule, &store).await;
    let (before, start) = (server.command_calls("evalsha").await, Instant::now());
    let (mut callers, served) = come(&limiter, Duration::from_secs(60));
    until("a refusal", async || {
        (store.usage().refused > 0).then_some(())
    })
    .await;
    assert_eq!(*served.lock().unwrap(), Vec::from_iter(0..79));
    let usage = store.usage();
    assert_eq!(
        (usage.admitted, usage.refused, usage.in_flight),
        (1 + 79, 1, 0)
    );
    let asked = server.command_calls("evalsha").await - before;
    let looks = start.elapsed().as_secs();
    let are_few = (80..=80 + looks).contains(&asked);
    assert!(are_few, "{asked} scripts, {looks} of them looks");
    callers.shutdown().await;
}

#[tokio::test]
async fn of_all_who_give_up_at_one_instant_at_most_the_first_is_charged_and_not_if_it_is_settled() {
    let server = Server::start().await;
    let plenty = TokenBucket::new(Quota::per_day(CALLERS as u64)).named("api");
    let charged = charged_to_who_gave_up(&server, plenty.clone()).await;
    assert!(charged <= 1, "{charged}");
    charged_to_who_gave_up(&server, plenty.named("settled").settled()).await;
}

/// All give up while the first attempt is on its way: how much is charged, in the end.
async fn charged_to_who_gave_up<A>(server: &Server, rule: A) -> u64
where
    A: Scripted<State: Send, Snapshot: Send + Sync> + Send + Sync + 'static,
{
    let store = store(server).await;
    let limiter = limiter(rule, &store).await;
    server.stop_process();
    let (callers, served) = come(&limiter, Duration::from_millis(200));
    callers.join_all().await;
    server.continue_process();
    until("its end", async || {
        (store.usage().in_flight == 0).then_some(())
    })
    .await;
    assert!(served.lock().unwrap().is_empty());
    let charged = async || CALLERS as u64 - limiter.peek("bob").await.unwrap().remaining();
    if A::SETTLES {
        until("units that are freed", async || {
            (charged().await == 0).then_some(())
        })
        .await;
    }
    charged().await
}
