//! `.now()` over a remote store.

use tollgate::{Quota, RateLimiter};
use tollgate::{algorithm::TokenBucket, store::RedisStore};

fn is_admitted(redis: fred::clients::Client) -> bool {
    let bucket = TokenBucket::new(Quota::per_second(20));
    let limiter = RateLimiter::new(bucket, RedisStore::new(redis));
    limiter.check("bob").now().is_admitted()
}

fn main() {
    let _ = is_admitted;
}
