//! A limit in shadow over Redis has the state of that limit, enforced alone, over exactly the
//! requests that the enforced limits admit.

use std::time::Duration;

use crate::shadow_claims::{START, stands_as_if_alone, stands_as_if_alone_by_its_key};
use fred::clients::Client;
use tollgate::{
    Quota,
    algorithm::*,
    clock::ManualClock,
    store::{LocalStore, RedisStore},
};
use tollgate_algorithms::every_algorithm;
use tollgate_redis_tests::{Cluster, Server};

const STEPS: usize = 150;

fn store(client: &Client, prefix: &str, clock: &ManualClock) -> RedisStore {
    let builder = RedisStore::builder(client.clone()).prefix(prefix.replace(' ', "-"));
    let builder = builder.deadline(Duration::from_secs(20));
    builder.clock(clock.clone()).build()
}

macro_rules! for_every_algorithm {
    ($case:ident) => {
        let quota = Quota::per_second(2);
        let (burst, precision) = (5, Duration::from_millis(100));
        let interval = Duration::from_millis(400);
        every_algorithm!($case, quota, burst, precision, interval);
    };
}

#[tokio::test]
async fn beside_an_enforced_limit_it_stands_as_it_does_alone() {
    let server = Server::start().await;
    let client = server.client().await;
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let of = |who: &str| store(&client, &format!("{who} {}", $name), &clock);
            let stores = (of("both"), of("alone"), of("gate"));
            stands_as_if_alone($name, ($made, $made.shadow()), stores, &clock, STEPS).await;
        )+};
    }
    for_every_algorithm!(case);
}

/// With keys in several slots the shadow is charged in the second round, as the enforced limit is.
#[tokio::test]
async fn across_slots_it_stands_as_it_does_alone_in_memory() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let both = store(&client, &format!("slots {}", $name), &clock);
            let alone = LocalStore::builder().clock(clock.clone()).build();
            stands_as_if_alone_by_its_key($name, ($made, $made.shadow()), (both, alone), &clock, STEPS / 3).await;
        )+};
    }
    for_every_algorithm!(case);
}
