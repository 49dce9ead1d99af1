//! An observer of numbers, for keys that are text.

use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, observe::Event, store::LocalStore};

fn main() {
    let quota = TokenBucket::new(Quota::per_second(20));
    let limiter = RateLimiter::new(quota, LocalStore::new())
        .observe(|event: &Event<'_, u64>| println!("{:?}", event.key()));
    let _ = limiter.check("bob");
}
