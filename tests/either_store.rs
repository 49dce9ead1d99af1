//! An `EitherStore` decides, holds and gives back as the store in it.

use std::{convert::Infallible, fmt::Debug, time::Duration};

use http::{Request, Response};
use tollgate::{
    Decision, EachOf, Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::{FixedWindow, InFlight, LeakyBucket, SlidingLog, TokenBucket},
    choice::by_request,
    clock::ManualClock,
    key::{Key, from_fn},
    store::{Ask, Change, EitherStore, LocalStore, Store, local::LocalBuckets},
};
use tower::{BoxError, Layer, ServiceExt, service_fn};

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
        "a caller that waits for one store does not wait for the other"
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
        let waiting = store
            .decide(&queue, &key, Ask::Charge(1))
            .wait()
            .await
            .unwrap();
        let snapshot = waiting.snapshot;
        drop(store.change(
            &queue,
            &key,
            Change::Withdraw {
                admission: &snapshot,
                cost: 1,
            },
        ));
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

#[tokio::test]
async fn a_place_in_flight_is_given_back_to_the_store_that_gave_it() {
    type Local = LocalStore<InFlight, String>;
    type Either = EitherStore<Local, Remote<Local>>;
    for store in [
        Either::Left(LocalStore::new()),
        Either::Right(Remote(LocalStore::new())),
    ] {
        let limiter = RateLimiter::new(InFlight::new(1), store);
        let hold = async || limiter.hold("bob", 1).await.unwrap();
        let first = hold().await.expect("there is a place");
        assert!(hold().await.is_err());
        drop(first);
        assert!(hold().await.is_ok());
    }
}

/// A plan by the request, and a handler that asks the store of its layer.
#[tokio::test]
async fn plans_and_a_handler_that_asks_by_hand_share_it() {
    type Local = LocalStore<FixedWindow, String>;
    type Either = EitherStore<Local, Remote<Local>>;
    let plan = |name: &'static str, units| FixedWindow::new(Quota::per_day(units)).named(name);
    for store in [
        Either::Left(LocalStore::new()),
        Either::Right(Remote(LocalStore::new())),
    ] {
        let by_user = from_fn(|request: &Request<()>| {
            let path = request.uri().path();
            Ok::<_, Infallible>(Some(path.to_owned()))
        });
        let by_plan = by_request(move |request: &Request<()>| match request.uri().query() {
            Some("paid") => plan("paid", 5),
            _ => plan("free", 2),
        });
        let limiter = RateLimiter::new(plan("paid", 5), store.clone());
        let handler = service_fn(move |request: Request<()>| {
            let limiter = limiter.clone();
            async move {
                // The request was more expensive than the layer assumed.
                limiter.debit(request.uri().path(), 2).await?;
                Ok::<_, BoxError>(Response::new(String::new()))
            }
        });
        let service = RateLimitLayer::new(by_plan, store, by_user).layer(handler);
        let ask = async |target: &str| {
            let request = Request::get(target).body(()).unwrap();
            let response = service.clone().oneshot(request).await.unwrap();
            response.status().as_u16()
        };
        assert_eq!([ask("/bob?paid").await, ask("/bob?paid").await], [200, 200]);
        assert_eq!(ask("/bob?paid").await, 429);
        let free = [ask("/bob").await, ask("/bob").await, ask("/bob").await];
        assert_eq!(free, [200, 200, 429]);
        assert_eq!(ask("/ann?paid").await, 200);
    }
}
