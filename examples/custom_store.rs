//! A store of your own: one over `dashmap`, a map that many programs have already.
//!
//! ```text
//! cargo run --example custom_store
//! ```
//!
//! It does what every store must do: it decides and charges in one step, keeps the buckets of
//! different policies apart, and evicts only states that their policy calls fresh.
//!
//! It differs from `LocalStore` in three ways. When it is full, it looks at all keys to find idle
//! ones. A new key that finds no room gets an error, and the layer's `on_store_error` says what
//! happens to the request. (So it is not an `ImmediateStore`, whose answers are never errors.) And
//! it supports one quota for each policy name: if a name has several, `LocalStore` keeps a state
//! for as long as it matters to any of them.

use std::{
    error::Error,
    future::Pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use axum::{Router, body::Body, routing::get};
use dashmap::{DashMap, Entry};
use http::Request;
use tollgate::algorithm::{Ending, KeyLimit, PolicyId, TokenBucket};
use tollgate::clock::{Clock, ManualClock, SystemClock};
use tollgate::key::{Global, Key};
use tollgate::store::{Answer, AsKey, Ask, Change, Decided, Store, Written};
use tollgate::{Quota, RateLimitLayer, RateLimiter, StoreError, StoreErrorKind, Timestamp};
use tower::ServiceExt;

type Buckets<A, K> = DashMap<(PolicyId, K), Bucket<A>>;

/// A state, and its algorithm, which says when the state may be evicted.
struct Bucket<A: KeyLimit> {
    algorithm: A,
    state: A::State,
}

/// Its clones share the buckets.
struct DashMapStore<A: KeyLimit, K, C = SystemClock> {
    shared: Arc<Shared<A, K>>,
    clock: C,
}

struct Shared<A: KeyLimit, K> {
    buckets: Buckets<A, K>,
    max_keys: usize,
    has_warned: AtomicBool,
}

impl<A: KeyLimit, K, C: Clone> Clone for DashMapStore<A, K, C> {
    fn clone(&self) -> Self {
        let (shared, clock) = (Arc::clone(&self.shared), self.clock.clone());
        Self { shared, clock }
    }
}

impl<A: KeyLimit, K: Key, C: Clock> DashMapStore<A, K, C> {
    fn new(max_keys: usize, clock: C) -> Self {
        let (buckets, has_warned) = (DashMap::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared {
            buckets,
            max_keys,
            has_warned,
        });
        Self { shared, clock }
    }

    /// Whether a new key finds room, after idle keys are evicted.
    fn has_room(&self, now: Timestamp) -> bool {
        let Shared {
            buckets, max_keys, ..
        } = &*self.shared;
        // Several threads here at once may each add a key beyond the maximum.
        if buckets.len() >= *max_keys {
            buckets.retain(|_, bucket| !bucket.algorithm.is_fresh(&bucket.state, now));
        }
        buckets.len() < *max_keys
    }

    fn full(&self) -> StoreError {
        if !self.shared.has_warned.swap(true, Relaxed) {
            eprintln!("the store is full of live keys: new ones are not decided about");
        }
        StoreError::new(StoreErrorKind::Unavailable, "the store is full")
    }
}

impl<A: KeyLimit, K: Key, C: Clock> Store<A, K> for DashMapStore<A, K, C> {
    // It answers at once, so there is never a future.
    type Deciding = Pending<Decided<A>>;
    type Writing = Pending<Written>;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<A>, Self::Deciding> {
        // The clock is read under the guard: a thread that waited for it with a time would bring an
        // earlier one than the state's.
        let decide =
            |state: &mut A::State| Answer::Now(Ok(ask.decide(algorithm, state, self.clock.now())));
        let bucket_of = (algorithm.policy_id(), key.to_owned());
        if let Some(mut bucket) = self.shared.buckets.get_mut(&bucket_of) {
            // The guard is held until the charge, so no other call comes between.
            return decide(&mut bucket.state);
        }
        // No guard is held here: `retain` waits for all of them.
        if !self.has_room(self.clock.now()) {
            return Answer::Now(Err(self.full()));
        }
        match self.shared.buckets.entry(bucket_of) {
            // Another thread has added the key meanwhile.
            Entry::Occupied(mut known) => decide(&mut known.get_mut().state),
            Entry::Vacant(new) => {
                let now = self.clock.now();
                let mut state = algorithm.fresh(now);
                let answer = decide(&mut state);
                // A key that was charged nothing needs no entry.
                if !algorithm.is_fresh(&state, now) {
                    let algorithm = algorithm.clone();
                    new.insert(Bucket { algorithm, state });
                }
                answer
            }
        }
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        if let Change::Override(_) = change {
            return change.not_supported();
        }
        let bucket_of = (algorithm.policy_id(), key.to_owned());
        if let Change::Reset = change {
            self.shared.buckets.remove(&bucket_of);
            return Answer::Now(Ok(()));
        }
        let needs_room = matches!(
            change,
            Change::Debit(_) | Change::End(_, Ending::Settled { .. })
        );
        if let Some(mut bucket) = self.shared.buckets.get_mut(&bucket_of) {
            let now = self.clock.now();
            change.apply(algorithm, &mut bucket.state, now);
        } else if needs_room {
            if !self.has_room(self.clock.now()) {
                return Answer::Now(Err(self.full()));
            }
            let mut bucket = (self.shared.buckets.entry(bucket_of)).or_insert_with(|| Bucket {
                algorithm: algorithm.clone(),
                state: algorithm.fresh(self.clock.now()),
            });
            let now = self.clock.now();
            change.apply(algorithm, &mut bucket.state, now);
        }
        Answer::Now(Ok(()))
    }
}

/// Decides about one unit of the key, without a future.
fn admits<S: Store<TokenBucket, String>>(store: &S, bucket: &TokenBucket, key: &str) -> bool {
    match store.decide(bucket, key, Ask::Charge(1)) {
        Answer::Now(Ok(verdict)) => verdict.admitted,
        _ => false,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // In a layer it takes the place of `LocalStore::new()`.
    let store = DashMapStore::new(10_000, SystemClock::new());
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_hour(2)), store, Global);
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    for status in [200, 200, 429] {
        let response = app.clone().oneshot(Request::new(Body::empty())).await?;
        println!("the store decides: {}", response.status());
        assert_eq!(response.status(), status);
    }

    // Threads that share a key get no more than one of them would.
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = DashMapStore::new(2, clock.clone());
    let bucket = TokenBucket::new(Quota::per_minute(100));
    let admitted = thread::scope(|scope| {
        let ask = || (0..100).filter(|_| admits(&store, &bucket, "ann")).count();
        let threads = [(); 4].map(|()| scope.spawn(ask));
        threads.map(|thread| thread.join().unwrap_or(0))
    });
    println!("four threads got {admitted:?} of 100");
    assert_eq!(admitted.iter().sum::<usize>(), 100);

    // While it is full of live keys, new keys get an error, and the others are still decided.
    assert!(admits(&store, &bucket, "bob"));
    let limiter = RateLimiter::new(bucket.clone(), store.clone());
    assert!(limiter.check("cid").await.is_err());
    assert!(limiter.check("bob").await?.is_admitted());
    assert!(!limiter.check("ann").await?.is_admitted());
    clock.advance(Duration::from_secs(60));
    assert!(limiter.check("cid").await?.is_admitted());
    println!("{} key, a minute later", store.shared.buckets.len());
    assert_eq!(store.shared.buckets.len(), 1);
    Ok(())
}
