//! A store of one's own that has only what every store must have.

use tollgate::{
    Quota, RateLimiter, StoreErrorKind,
    algorithm::{InFlight, KeyLimit, TokenBucket},
    key::Key,
    store::{Answer, AsKey, Ask, Change, Decided, LocalBuckets, LocalStore, Store, Written},
};

#[derive(Clone, Debug)]
struct Plain<S>(S);

impl<A, K, L> Store<A, K> for Plain<LocalStore<L, K>>
where
    A: KeyLimit,
    K: Key,
    L: LocalBuckets<K>,
    LocalStore<L, K>: Store<A, K>,
{
    type Deciding = <LocalStore<L, K> as Store<A, K>>::Deciding;
    type Writing = <LocalStore<L, K> as Store<A, K>>::Writing;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<A>, Self::Deciding> {
        self.0.decide(algorithm, key, ask)
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        match change {
            Change::Refund(_) | Change::Reset => self.0.change(algorithm, key, change),
            other => other.not_supported(),
        }
    }
}

#[tokio::test]
async fn a_store_without_holds_decides_and_says_of_each_of_them_that_it_has_none() {
    let bucket = TokenBucket::new(Quota::per_hour(9)).settled();
    let limiter = RateLimiter::new(bucket, Plain(LocalStore::<_, u32>::new()));
    assert_eq!(limiter.check(&1).await.unwrap().remaining(), 8);

    let hold = limiter.hold(&1, 2).await.unwrap().unwrap();
    let settled = hold.settle(1).await.unwrap_err();
    let debited = limiter.debit(&1, 1).await.unwrap_err();
    let places = RateLimiter::new(InFlight::new(1), Plain(LocalStore::<_, u32>::new()));
    let place = places.hold(&1, 1).await.unwrap().unwrap();
    let ended = place.settle(0).await.unwrap_err();
    for (error, what) in [
        (settled, "settlements"),
        (debited, "debits"),
        (ended, "ends of requests"),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        let says_what = format!("this store does not support {what}");
        assert!(error.to_string().ends_with(&says_what), "{error}");
    }
}
