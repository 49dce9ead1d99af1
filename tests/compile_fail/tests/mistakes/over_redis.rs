//! What a store in Redis cannot do.

use std::convert::Infallible;

use axum::{Router, extract::Request, routing::get};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter,
    algorithm::{KeyLimit, TokenBucket},
    key::{PeerIp, from_fn},
    store::RedisStore,
};

fn app() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn bucket() -> TokenBucket {
    TokenBucket::new(Quota::per_second(20))
}

fn now_over_redis(redis: RedisStore) -> bool {
    let limiter = RateLimiter::new(bucket(), redis);
    limiter.check("bob").now().is_admitted()
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct User(String);

fn key_of_this_process_alone(redis: RedisStore) -> Router {
    let by_user = from_fn(|request: &Request| {
        Ok::<_, Infallible>(Some(User(request.uri().path().to_owned())))
    });
    app().layer(RateLimitLayer::new(bucket(), redis, by_user))
}

fn rule_without_a_script<Allowance: KeyLimit>(rule: Allowance, redis: RedisStore) -> Router {
    app().layer(RateLimitLayer::new(rule, redis, PeerIp::new()))
}

fn main() {}
