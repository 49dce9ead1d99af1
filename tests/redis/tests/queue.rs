//! A request that is dropped while it waits for its turn: its place over Redis.

use std::time::Duration;

use tollgate::{
    Quota, RateLimiter, Timestamp,
    algorithm::LeakyBucket,
    clock::ManualClock,
    store::{RedisStore, Store},
};
use tollgate_redis_tests::{Server, until};

#[tokio::test]
async fn only_the_last_in_line_gives_its_place_back() {
    let server = Server::start().await;
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store = RedisStore::builder(server.client().await)
        .clock(clock)
        .deadline(Duration::from_secs(10))
        .build();
    let queue = LeakyBucket::new(Quota::per_second(10)).queue();
    let bob = "bob".to_owned();
    let mut places = Vec::new();
    for _ in 0..3 {
        let place = store.decide(&queue, "bob", 1).wait().await.unwrap();
        assert!(place.admitted);
        places.push(place.snapshot);
    }
    let limiter = RateLimiter::new(queue.clone(), store.clone());
    let left = async || limiter.peek("bob").await.unwrap().remaining();
    assert_eq!(left().await, 7);
    let calls = server.command_calls("evalsha").await;
    store.withdraw(&queue, &bob, &places[0], 1);
    // Its script has to be loaded first: it is asked for twice.
    until("a place in the middle", async || {
        (server.command_calls("evalsha").await >= calls + 2).then_some(())
    })
    .await;
    assert_eq!(left().await, 7);
    store.withdraw(&queue, &bob, &places[2], 1);
    until("the last place", async || (left().await > 7).then_some(())).await;
    assert_eq!(left().await, 8);
    let next = store.decide(&queue, "bob", 1).wait().await.unwrap();
    assert_eq!(next.snapshot, places[2]);
}
