//! One program that counts in memory or in Redis, as it was configured.

use std::time::Duration;

use fred::clients::Client;
use tollgate::{
    EachOf, Quota, RateLimiter, StoreErrorKind,
    algorithm::{SlidingLog, TokenBucket},
    store::{EitherStore, LocalStore, RedisStore, local::LocalBuckets},
};
use tollgate_redis_tests::Server;

type ByConfiguration<L, K> = EitherStore<LocalStore<L, K>, RedisStore>;

fn store<L: LocalBuckets<K>, K>(client: Option<&Client>) -> ByConfiguration<L, K> {
    match client {
        Some(client) => {
            let builder = RedisStore::builder(client.clone()).prefix("either");
            EitherStore::Right(builder.deadline(Duration::from_secs(20)).build())
        }
        None => EitherStore::Left(LocalStore::new()),
    }
}

#[tokio::test]
async fn two_instances_share_a_limit_in_redis_and_have_one_each_in_memory() {
    let server = Server::start().await;
    let client = server.client().await;
    for (client, admitted) in [(None, [true, true]), (Some(&client), [true, false])] {
        for (instance, admitted) in admitted.into_iter().enumerate() {
            let limit = TokenBucket::new(Quota::per_day(1)).named("one-a-day");
            let limiter = RateLimiter::new(limit, store::<_, String>(client));
            let decision = limiter.check("bob").await.unwrap();
            assert_eq!(decision.is_admitted(), admitted, "instance {instance}");
            assert!(!limiter.check("bob").await.unwrap().is_admitted());
        }
    }
}

#[tokio::test]
async fn each_of_several_keys_and_what_is_held_lie_in_the_configured_store() {
    let server = Server::start().await;
    let client = server.client().await;
    for client in [None, Some(&client)] {
        let limits = EachOf((
            TokenBucket::new(Quota::per_day(10)).settled(),
            SlidingLog::new(Quota::per_day(3)).settled(),
        ));
        let limiter = RateLimiter::new(limits, store(client));
        let keys = EachOf((Some(1_u32), Some("alice".to_owned())));
        let hold = limiter
            .hold(&keys, 3)
            .await
            .unwrap()
            .expect("there is room");
        assert!(!limiter.check(&keys).await.unwrap().is_admitted());
        hold.settle(1).await.unwrap();
        let decision = limiter.check(&keys).await.unwrap();
        let left: Vec<_> = decision
            .policies()
            .iter()
            .map(|of| of.remaining())
            .collect();
        assert_eq!(left, [8, 1]);
    }
}

#[tokio::test]
async fn a_server_that_is_gone_or_hangs_is_an_error_and_not_counted_in_memory() {
    for fault in [Server::kill, Server::stop_process] {
        let server = Server::start().await;
        let limit = TokenBucket::new(Quota::per_day(1));
        let store = RedisStore::builder(server.client().await);
        let store = store.deadline(Duration::from_millis(500)).build();
        let limiter = RateLimiter::new(limit, ByConfiguration::<_, String>::Right(store));
        assert!(limiter.check("bob").await.unwrap().is_admitted());
        fault(&server);
        let error = limiter.check("bob").await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    }
}
