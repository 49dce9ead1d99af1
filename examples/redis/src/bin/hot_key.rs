//! One key that everybody asks about, and a caller who does not give up: what each costs Redis.
//!
//! ```text
//! cargo run -p redis_examples --bin hot_key
//! ```
//!
//! It starts a Redis, which ends with the example. A thousand requests about one key come at the
//! same time and share a few scripts. A flood of requests that are refused costs Redis next to
//! nothing, as its refusals are remembered. A key that is in use all the time is leased.

use std::time::Duration;

use redis_examples::{Failure, Server};
use tokio::task::JoinSet;
use tollgate::store::{RedisConnection, RedisStore};
use tollgate::{Quota, RateLimiter, algorithm::TokenBucket};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Server::start(&[])?;
    let store = RedisStore::builder(RedisConnection::from_url(&redis.url())?)
        .deadline(Duration::from_secs(5))
        .remember_refusals(Duration::from_secs(10))
        .build();
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_hour(400)), store.clone());
    limiter.check("everybody").await?;

    let mut crowd = JoinSet::new();
    for _ in 0..1_000 {
        let limiter = limiter.clone();
        crowd.spawn(async move { limiter.check("everybody").await });
    }
    for decision in crowd.join_all().await {
        decision?;
    }
    let crowd = store.usage();
    println!(
        "A crowd of 1 000: {} were admitted, {} shared scripts with others.",
        crowd.admitted - 1,
        crowd.joined
    );
    assert_eq!(crowd.admitted, 400);
    assert!(crowd.joined > 300);

    for _ in 0..50_000 {
        limiter.check("everybody").await?;
    }
    let flood = store.usage();
    println!(
        "A flood of 50 000: {} were refused, {} of them without asking Redis.",
        flood.refused - crowd.refused,
        flood.remembered - crowd.remembered
    );
    assert!(flood.remembered - crowd.remembered > 40_000);

    let leased = store.leased(Duration::from_millis(200));
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(100_000)), leased);
    for _ in 0..10_000 {
        limiter.check("tenant").await?;
    }
    let in_use = store.usage().leased;
    println!("A key in use, 10 000 times: {in_use} were admitted without asking Redis.");
    assert!(in_use > 9_000);
    Ok(())
}
