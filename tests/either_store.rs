//! An `EitherStore` decides, holds and gives back as the store in it.

use std::{fmt::Debug, time::Duration};

use tollgate::{
    Decision, Quota, RateLimiter, Timestamp,
    algorithm::{SlidingLog, TokenBucket},
    clock::ManualClock,
    store::{EitherStore, LocalStore, Store, local::LocalBuckets},
};

use crate::support::Remote;

type Clocked<L, K> = LocalStore<L, K, ManualClock>;

fn local<L: LocalBuckets<K>, K>() -> (ManualClock, Clocked<L, K>) {
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store = LocalStore::builder().clock(clock.clone()).build();
    (clock, store)
}

/// The answers of a limiter to all of its methods, in some order.
async fn told<S>(store: S, clock: &ManualClock) -> Vec<Decision>
where
    S: Store<tollgate::algorithm::Settled<TokenBucket>, String>,
    S::Deciding: Send,
{
    let bucket = TokenBucket::new(Quota::per_minute(6)).settled();
    let limiter = RateLimiter::new(bucket, store);
    let mut told = Vec::new();
    for step in 0..40 {
        clock.advance(Duration::from_secs(step % 7));
        match step % 8 {
            0..=2 => told.push(limiter.check_cost("bob", 2).await.unwrap()),
            3 => limiter.refund("bob", 1).await.unwrap(),
            4 => limiter.debit("bob", 3).await.unwrap(),
            5 => match limiter.hold("bob", 3).await.unwrap() {
                Ok(hold) => hold.settle(1).await.unwrap(),
                Err(refused) => told.push(*refused),
            },
            6 if step > 20 => limiter.reset("bob").await.unwrap(),
            _ => told.push(limiter.peek("bob").await.unwrap()),
        }
    }
    told
}

#[tokio::test]
async fn it_answers_everything_as_the_store_it_is() {
    let (clock, store) = local();
    let expected = told(store, &clock).await;
    assert!(expected.iter().any(Decision::is_admitted));
    assert!(expected.iter().any(|decision| !decision.is_admitted()));

    type Either<L> = EitherStore<Clocked<L, String>, Remote<Clocked<L, String>>>;
    let (clock, store) = local();
    assert_eq!(told(Either::Left(store), &clock).await, expected);
    let (clock, store) = local();
    assert_eq!(told(Either::Right(Remote(store)), &clock).await, expected);
}

#[tokio::test]
async fn clones_share_the_buckets_of_their_store_and_no_others() {
    async fn shares<S: Store<SlidingLog, u32> + Debug>(store: S, other: S) {
        let limit = SlidingLog::new(Quota::per_hour(1));
        let limiter = |store: &S| RateLimiter::new(limit.clone(), store.clone());
        let (first, second, other) = (limiter(&store), limiter(&store), limiter(&other));
        assert!(first.check(&1).await.unwrap().is_admitted());
        assert!(!second.check(&1).await.unwrap().is_admitted());
        assert!(other.check(&1).await.unwrap().is_admitted());
        assert_eq!(store.buckets_id(), store.clone().buckets_id());
    }
    type Either = EitherStore<LocalStore<SlidingLog, u32>, LocalStore<SlidingLog, u32>>;
    let [one, another] = [(); 2].map(|()| Either::Left(LocalStore::new()));
    shares(one, another).await;
    let [one, another] = [(); 2].map(|()| Either::Right(LocalStore::new()));
    shares(one, another).await;
    let [one, another] = [LocalStore::new(), LocalStore::new()].map(Either::Left);
    assert_ne!(
        Store::<SlidingLog, u32>::buckets_id(&one),
        Store::<SlidingLog, u32>::buckets_id(&another),
        "a caller that waits for one store does not wait for the other"
    );
}
