//! Jobs of many tenants, each at its own rate: workers wait for their turn instead of asking again
//! and again.
//!
//! Those who wait for one tenant are served first come, first served. A job that is cancelled gives
//! its turn to the next at once.
//!
//! ```text
//! cargo run --example worker
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use tokio::{task::JoinSet, time::timeout};
use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, store::LocalStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Fifty jobs a second for each tenant, one by one.
    let jobs = TokenBucket::new(Quota::per_second(50)).burst(1);
    let limiter = RateLimiter::new(jobs, LocalStore::new());

    let start = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..12 {
        let limiter = limiter.clone();
        workers.spawn(async move {
            let tenant = ["ann", "bob", "cid"][worker % 3];
            let mut longest = Duration::ZERO;
            for _ in 0..5 {
                let asked = Instant::now();
                limiter.until_ready(tenant, 1).await?;
                longest = longest.max(asked.elapsed());
            }
            Ok::<_, tollgate::StoreError>((tenant, longest))
        });
    }
    let mut longest = Duration::ZERO;
    while let Some(worker) = workers.join_next().await {
        let (tenant, waited) = worker??;
        println!("{tenant}: no job waited longer than {waited:.0?}");
        longest = longest.max(waited);
    }
    // Twenty jobs of a tenant take nineteen fiftieths of a second, whatever the others do.
    let took = start.elapsed();
    println!("60 jobs of 3 tenants in {took:.0?}");
    assert!(took >= Duration::from_millis(380), "{took:?}");
    assert!(longest >= Duration::from_millis(20), "{longest:?}");

    // A job that is given up in time lets the next one go.
    limiter.debit("dan", 500).await?;
    let given_up = timeout(Duration::from_millis(10), limiter.until_ready("dan", 1)).await;
    assert!(given_up.is_err());
    limiter.reset("dan").await?;
    timeout(Duration::from_secs(1), limiter.until_ready("dan", 1)).await??;
    Ok(())
}
