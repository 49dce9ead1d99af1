//! A store that is one of two: it decides, holds and gives back as the one it is.

mod support;

use std::{fmt::Debug, time::Duration};

use tollgate::{
    Decision, EachOf, Quota, RateLimiter, Timestamp,
    algorithm::{LeakyBucket, SlidingLog, TokenBucket},
    clock::ManualClock,
    key::Key,
    store::{EitherStore, LocalStore, Store, local::LocalBuckets},
};

use support::Remote;

type Clocked<L, K> = LocalStore<L, K, ManualClock>;

fn local<L: LocalBuckets<K>, K>() -> (ManualClock, Clocked<L, K>) {
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store = LocalStore::builder().clock(clock.clone()).build();
    (clock, store)
}

/// What a limiter answers that is asked everything there is, in some order.
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
    shares(
        Either::Left(LocalStore::new()),
        Either::Left(LocalStore::new()),
    )
    .await;
    shares(
        Either::Left(LocalStore::new()),
        Either::Right(LocalStore::new()),
    )
    .await;
    shares(
        Either::Right(LocalStore::new()),
        Either::Right(LocalStore::new()),
    )
    .await;
    let [one, another] = [LocalStore::new(), LocalStore::new()].map(Either::Left);
    assert_ne!(
        Store::<SlidingLog, u32>::buckets_id(&one),
        Store::<SlidingLog, u32>::buckets_id(&another),
        "who waits for the one does not wait for the other"
    );
}

#[tokio::test]
async fn it_keeps_each_of_several_keys() {
    type Limits = EachOf<(TokenBucket, SlidingLog)>;
    type Keys = EachOf<(Option<u32>, Option<String>)>;
    type Either = EitherStore<LocalStore<Limits, Keys>, Clocked<Limits, Keys>>;
    let limits = || {
        let bucket = TokenBucket::new(Quota::per_hour(2));
        EachOf((bucket, SlidingLog::new(Quota::per_hour(1))))
    };
    for store in [Either::Left(LocalStore::new()), Either::Right(local().1)] {
        let limiter = RateLimiter::new(limits(), store);
        let check = async |address: u32, account: &str| {
            let keys = EachOf((Some(address), Some(account.to_owned())));
            limiter.check(&keys).await.unwrap().is_admitted()
        };
        assert!(check(1, "alice").await);
        assert!(!check(1, "alice").await);
        assert!(check(1, "bob").await, "the refused request was not charged");
        assert!(!check(1, "carol").await);
    }
}

#[tokio::test]
async fn a_turn_in_the_queue_is_given_back_to_the_store_that_gave_it() {
    async fn second_wait<K: Key + From<u8>, S>(store: S) -> Duration
    where
        S: Store<tollgate::algorithm::LeakyBucketQueue, K>,
    {
        let queue = LeakyBucket::new(Quota::per_second(1)).capacity(5).queue();
        let limiter = RateLimiter::new(queue.clone(), store.clone());
        let key = K::from(1);
        limiter.check(&key).await.unwrap();
        let waiting = store.decide(&queue, &key, 1).wait().await.unwrap();
        let snapshot = waiting.snapshot;
        store.withdraw(&queue, &key, &snapshot, 1);
        limiter.check(&key).await.unwrap().delay()
    }
    type Queue = tollgate::algorithm::LeakyBucketQueue;
    type Either = EitherStore<Clocked<Queue, u32>, Clocked<Queue, u32>>;
    let direct = second_wait::<u32, _>(local().1).await;
    assert_eq!(direct, Duration::from_secs(1));
    assert_eq!(second_wait::<u32, _>(Either::Left(local().1)).await, direct);
    assert_eq!(
        second_wait::<u32, _>(Either::Right(local().1)).await,
        direct
    );
}
