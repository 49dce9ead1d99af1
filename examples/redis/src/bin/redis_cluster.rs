//! Three processes and a Redis Cluster: with any algorithm, together they admit what one process
//! would alone.
//!
//! ```text
//! cargo run -p redis_examples --bin redis_cluster
//! ```
//!
//! It uses the cluster that `REDIS_CLUSTER_URL` names (`redis-cluster://host:port?node=host:port`),
//! or starts one of three nodes that ends with the example. The processes run this same program.

use std::{env, time::Duration};

use redis_examples::{Cluster, Failure, Process};
use tollgate::algorithm::{FixedWindow, Gcra, MinInterval, Scripted, SlidingLog, TokenBucket};
use tollgate::store::{RedisConnection, RedisStore};
use tollgate::{Quota, RateLimiter};

/// Each user has a bucket, on one of the nodes.
const USERS: u64 = 30;
/// How many times each process asks for each user.
const TIMES: u32 = 6;
/// Each limit with how much of it a user may have.
const LIMITS: [(&str, u64); 5] = [
    ("Gcra, 10 at once", 10),
    ("FixedWindow, 10 an hour", 10),
    ("SlidingLog, 10 an hour", 10),
    ("MinInterval, an hour", 1),
    ("(TokenBucket, SlidingLog)", 7),
];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [worker, url, prefix] = &arguments[..] {
        assert_eq!(worker, "worker");
        return work(url, prefix).await;
    }
    let (url, _cluster) = match env::var("REDIS_CLUSTER_URL") {
        Ok(url) => (url, None),
        Err(_) => {
            let cluster = Cluster::start().await?;
            (cluster.url(), Some(cluster))
        }
    };
    // A prefix for this run alone: the cluster may have other buckets.
    let prefix = format!("example-{}", std::process::id());
    let start = |_| Process::start(&["worker", &url, &prefix]);
    let mut workers = (0..3).map(start).collect::<Result<Vec<_>, _>>()?;
    // All workers are connected before any begins.
    for worker in &mut workers {
        assert_eq!(worker.line()?, "ready");
    }
    workers.iter_mut().try_for_each(Process::go)?;
    println!("{USERS} users, each of whom asks each of three processes {TIMES} times:\n");
    println!("limit                      admitted by each  together");
    for (name, each) in LIMITS {
        let mut admitted = Vec::new();
        for worker in &mut workers {
            admitted.push(worker.line()?.parse::<u64>()?);
        }
        let together: u64 = admitted.iter().sum();
        println!("{name:<25}  {:>16}  {together:>8}", format!("{admitted:?}"));
        assert_eq!(together, USERS * each);
    }
    Ok(())
}

/// Prints for each limit how many requests it admitted; all workers do this at the same time.
async fn work(url: &str, prefix: &str) -> Result<(), Failure> {
    let store = RedisStore::builder(RedisConnection::from_url(url)?)
        .prefix(prefix)
        .deadline(Duration::from_secs(5))
        .build();
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let (hourly, hour) = (Quota::per_hour(10), Duration::from_secs(3_600));
    let both = (
        TokenBucket::new(hourly),
        SlidingLog::new(Quota::per_hour(7)),
    );
    admitted(&store, Gcra::new(hourly)).await?;
    admitted(&store, FixedWindow::new(hourly).from_first_request()).await?;
    admitted(&store, SlidingLog::new(hourly)).await?;
    admitted(&store, MinInterval::new(hour)).await?;
    admitted(&store, both).await
}

async fn admitted<A: Scripted>(store: &RedisStore, algorithm: A) -> Result<(), Failure> {
    let limiter = RateLimiter::new(algorithm, store.clone());
    let mut admitted = 0;
    for user in (0..TIMES).flat_map(|_| 0..USERS) {
        admitted += u32::from(limiter.check(&user).await?.is_admitted());
    }
    println!("{admitted}");
    Ok(())
}
