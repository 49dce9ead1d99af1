//! Jobs of many tenants, each at its own rate: workers wait for their turn instead of trying again
//! and again.
//!
//! The jobs of one tenant are served first come, first served. A cancelled job gives its turn to
//! the next one at once.
//!
//! ```text
//! cargo run --example worker
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::{task::JoinSet, time::timeout};
use tollgate::{Quota, RateLimiter};
use tollgate::{algorithm::TokenBucket, observe::Event, store::LocalStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Fifty jobs a second for each tenant, one by one.
    let jobs = TokenBucket::new(Quota::per_second(50)).burst(1);
    let limiter = RateLimiter::new(jobs, LocalStore::new());
    // The longest wait of each tenant.
    let longest = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = Arc::clone(&longest);
    let limiter = limiter.observe(move |event: &Event<'_, String>| {
        if let (Some(tenant), Some(waited)) = (event.key(), event.waited()) {
            let mut longest = seen.lock().unwrap();
            let longest = longest.entry(tenant.clone()).or_insert(waited);
            *longest = waited.max(*longest);
        }
    });

    let start = Instant::now();
    // How many jobs each worker has done.
    let done = Arc::new(Mutex::new([0; 12]));
    let mut workers = JoinSet::new();
    for worker in 0..12 {
        let (limiter, done) = (limiter.clone(), Arc::clone(&done));
        workers.spawn(async move {
            let tenant = ["ann", "bob", "cid"][worker % 3];
            for _ in 0..5 {
                limiter.until_ready(tenant, 1).await?;
                done.lock().unwrap()[worker] += 1;
            }
            // The fewest jobs that a worker of the same tenant has done.
            let done = *done.lock().unwrap();
            let least = done.into_iter().skip(worker % 3).step_by(3).min();
            Ok::<_, tollgate::StoreError>(least)
        });
    }
    // They take turns: when one has done all five, no other is far behind.
    while let Some(worker) = workers.join_next().await {
        let least = worker??;
        assert!(least >= Some(3), "{least:?} of 5");
    }
    let longest = std::mem::take(&mut *longest.lock().unwrap());
    for (tenant, waited) in &longest {
        println!("{tenant}: no job waited longer than {waited:.0?}");
    }
    // Twenty jobs of a tenant take nineteen fiftieths of a second, whatever the others do.
    let took = start.elapsed();
    println!("60 jobs of 3 tenants in {took:.0?}");
    assert!(took >= Duration::from_millis(380), "{took:?}");
    let least = Duration::from_millis(20);
    assert!(longest.len() == 3 && longest.values().all(|waited| *waited >= least));

    // A cancelled job lets the next one go.
    limiter.debit("dan", 500).await?;
    let given_up = timeout(Duration::from_millis(10), limiter.until_ready("dan", 1)).await;
    assert!(given_up.is_err());
    limiter.reset("dan").await?;
    timeout(Duration::from_secs(1), limiter.until_ready("dan", 1)).await??;
    Ok(())
}
