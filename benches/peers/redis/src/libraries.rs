//! The limiters in Rust: tollgate, and the peers as their own documentation says.

use std::{rc::Rc, sync::Arc, time::Duration};

use fred::clients::Client;
use redis::aio::ConnectionManager;
use skp_ratelimit::{
    Algorithm as _, GCRA,
    storage::{RedisConfig, RedisStorage},
};
use throttle_kit::RedisBackend;
use tollgate::{
    RateLimiter,
    algorithm::Scripted,
    store::{RedisStore, RedisStoreBuilder},
};
use trypema::{
    BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, TrypemaError, WindowSize,
    hybrid::{HybridRateLimiterProvider, SyncInterval},
    redis::{RedisKey, RedisRateLimiterProvider},
};

use crate::subject::{Decide, one_by_one};

/// One unit each interval, and so many at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) interval: Duration,
    pub(crate) burst: u16,
}

/// The window of those that count in windows: some are aligned to a clock, and a day rarely ends
/// during a run.
pub(crate) const WINDOW: Duration = Duration::from_secs(86_400);

/// The part of a window that is counted by itself.
pub(crate) const BUCKET: Duration = Duration::from_secs(3_600);

pub(crate) fn tollgate(client: &Client, algorithm: impl Scripted) -> Decide {
    over(store(client).build(), algorithm)
}

pub(crate) fn store(client: &Client) -> RedisStoreBuilder {
    RedisStore::builder(client.clone()).deadline(Duration::from_secs(30))
}

pub(crate) fn over(store: RedisStore, algorithm: impl Scripted) -> Decide {
    let limiter = Rc::new(RateLimiter::new(algorithm, store));
    one_by_one(move |caller| {
        let limiter = Rc::clone(&limiter);
        async move {
            limiter
                .check(&caller)
                .await
                .expect("a decision")
                .is_admitted()
        }
    })
}

pub(crate) fn tower_rate_limit_fred(client: &Client, limit: Limit) -> Decide {
    let client = client.clone();
    one_by_one(move |caller| {
        let client = client.clone();
        async move {
            let Limit { interval, burst } = limit;
            let refused = tower_rate_limit_fred::rate_limit(&client, caller, burst, interval);
            refused.await.expect("a decision").is_none()
        }
    })
}

pub(crate) async fn throttle_kit(url: &str, limit: Limit) -> Decide {
    let backend = RedisBackend::connect(url).await.expect("a connection");
    let quota = throttle_kit::Quota::from_parts(limit.interval, limit.burst.into());
    let limiter = throttle_kit::RateLimiter::new(quota, backend);
    one_by_one(move |caller| {
        let limiter = limiter.clone();
        async move { limiter.check(&caller).await.allowed }
    })
}

pub(crate) async fn skp_ratelimit(url: &str, limit: Limit) -> Decide {
    let storage = RedisStorage::new(RedisConfig::new(url)).await;
    let storage = Rc::new(storage.expect("a connection"));
    let burst = limit.burst.into();
    let quota = skp_ratelimit::Quota::with_period_and_burst(limit.interval, burst);
    one_by_one(move |caller| {
        let (storage, quota) = (Rc::clone(&storage), quota.clone());
        async move {
            let decision = GCRA::new()
                .check_and_record(&*storage, &caller, &quota)
                .await;
            decision.expect("a decision").is_allowed()
        }
    })
}

/// None where the server is too old for it.
pub(crate) async fn trypema(url: &str, most: u32) -> Option<Decide> {
    let provider = RedisRateLimiterProvider::builder(connection(url).await)
        .window_size(WindowSize::seconds_or_panic(WINDOW.as_secs()))
        .bucket_size(BucketSize::seconds_or_panic(BUCKET.as_secs()))
        .build();
    let provider: Arc<_> = provider.expect("a valid window");
    trypema_if_new(most, async move |key, rate| {
        provider.absolute().inc(&key, &rate, 1).await
    })
    .await
}

/// The one that spends here, and tells Redis after each interval.
pub(crate) async fn trypema_hybrid(url: &str, most: u32, interval: Duration) -> Option<Decide> {
    let interval = interval.as_millis() as u64;
    let provider = HybridRateLimiterProvider::builder(connection(url).await)
        .window_size(WindowSize::seconds_or_panic(WINDOW.as_secs()))
        .bucket_size(BucketSize::seconds_or_panic(BUCKET.as_secs()))
        .sync_interval(SyncInterval::milliseconds_or_panic(interval))
        .build();
    let provider: Arc<_> = provider.expect("a valid window");
    trypema_if_new(most, async move |key, rate| {
        provider.absolute().inc(&key, &rate, 1).await
    })
    .await
}

async fn connection(url: &str) -> ConnectionManager {
    let client = redis::Client::open(url).expect("an address");
    client.get_connection_manager().await.expect("a connection")
}

async fn trypema_if_new(
    most: u32,
    decide: impl AsyncFn(RedisKey, RateLimit) -> Result<RateLimitDecision, TrypemaError> + 'static,
) -> Option<Decide> {
    let rate = RateLimit::per_day_or_panic(most.into());
    let key = |caller: String| RedisKey::try_from(caller).expect("a plain key");
    if let Err(error) = decide(key("first".to_owned()), rate).await {
        eprintln!("trypema: {error}");
        return None;
    }
    let decide = Rc::new(decide);
    Some(one_by_one(move |caller| {
        let decide = Rc::clone(&decide);
        async move {
            let decision = decide(key(caller), rate).await;
            matches!(decision.expect("a decision"), RateLimitDecision::Allowed)
        }
    }))
}
