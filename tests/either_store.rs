//! An `EitherStore` decides, holds and gives back as the store in it.

use std::time::Duration;

use tollgate::{
    Decision, Quota, RateLimiter,
    algorithm::TokenBucket,
    clock::ManualClock,
    store::{EitherStore, LocalStore, Store},
};

use crate::support::{Remote, by_hand};

type Clocked<L, K> = LocalStore<L, K, ManualClock>;

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
    let (clock, store) = by_hand();
    let expected = told(store, &clock).await;
    assert!(expected.iter().any(Decision::is_admitted));
    assert!(expected.iter().any(|decision| !decision.is_admitted()));

    type Either<L> = EitherStore<Clocked<L, String>, Remote<Clocked<L, String>>>;
    let (clock, store) = by_hand();
    assert_eq!(told(Either::Left(store), &clock).await, expected);
    let (clock, store) = by_hand();
    assert_eq!(told(Either::Right(Remote(store)), &clock).await, expected);
}
