//! A store of your own, far away: its answers come later, or not in time, and nothing else changes
//! for the layer.
//!
//! This one only pretends: a sleep stands for the network, a store in memory for the server, where
//! each decision is one step that nothing comes between.
//!
//! ```text
//! cargo run --example custom_store
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::{error::Error, future::Future, pin::Pin, time::Duration};

use axum::{Router, body::Body, routing::get};
use http::Request;
use tokio::time::{sleep, timeout};
use tollgate::algorithm::{Algorithm, TokenBucket};
use tollgate::key::{Global, Key};
use tollgate::store::{Answer, AsKey, Decided, LocalStore, Store, Written};
use tollgate::{Quota, RateLimitLayer, StoreError, StoreErrorKind};
use tower::ServiceExt;

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Reply<T> = Answer<T, Later<T>>;

/// Its clones share the server, and so the buckets.
#[derive(Clone)]
struct FarAway<A: Algorithm, K> {
    server: LocalStore<A, K>,
    is_reachable: Arc<AtomicBool>,
}

impl<A: Algorithm, K: Key> FarAway<A, K> {
    /// Asks the server, and waits no longer than a request can bear.
    fn ask<T: Send + 'static>(
        &self,
        question: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Reply<Result<T, StoreError>> {
        let is_reachable = Arc::clone(&self.is_reachable);
        let exchange = async move {
            let there_and_back = if is_reachable.load(SeqCst) { 2 } else { 60_000 };
            sleep(Duration::from_millis(there_and_back)).await;
            question.await
        };
        Answer::Later(Box::pin(async {
            let late = |_| StoreError::new(StoreErrorKind::Unavailable, "no answer in 0.2 s");
            timeout(Duration::from_millis(200), exchange)
                .await
                .map_err(late)?
        }))
    }
}

impl<A: Algorithm, K: Key> Store<A, K> for FarAway<A, K> {
    type Deciding = Later<Decided<A>>;
    type Writing = Later<Written>;

    fn decide<Q: AsKey<K> + ?Sized>(&self, rule: &A, key: &Q, cost: u32) -> Reply<Decided<A>> {
        let (server, rule, key) = (self.server.clone(), rule.clone(), key.to_owned());
        self.ask(async move { server.decide(&rule, &key, cost).wait().await })
    }
    fn peek<Q: AsKey<K> + ?Sized>(&self, rule: &A, key: &Q, cost: u32) -> Reply<Decided<A>> {
        let (server, rule, key) = (self.server.clone(), rule.clone(), key.to_owned());
        self.ask(async move { server.peek(&rule, &key, cost).wait().await })
    }
    fn refund<Q: AsKey<K> + ?Sized>(&self, rule: &A, key: &Q, cost: u32) -> Reply<Written> {
        let (server, rule, key) = (self.server.clone(), rule.clone(), key.to_owned());
        self.ask(async move { server.refund(&rule, &key, cost).wait().await })
    }
    fn reset<Q: AsKey<K> + ?Sized>(&self, rule: &A, key: &Q) -> Reply<Written> {
        let (server, rule, key) = (self.server.clone(), rule.clone(), key.to_owned());
        self.ask(async move { server.reset(&rule, &key).wait().await })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let is_reachable = Arc::new(AtomicBool::new(true));
    let store = FarAway {
        server: LocalStore::new(),
        is_reachable: Arc::clone(&is_reachable),
    };
    // From here on, it is what it would be with `LocalStore::new()`.
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_hour(2)), store, Global);
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    for status in [200, 200, 429] {
        let response = app.clone().oneshot(Request::new(Body::empty())).await?;
        println!("the server answers: {}", response.status());
        assert_eq!(response.status(), status);
    }
    is_reachable.store(false, SeqCst);
    let response = app.oneshot(Request::new(Body::empty())).await?;
    println!("it does not, so nobody knows: {}", response.status());
    assert_eq!(response.status(), 503); // unless `.on_store_error(..)` says otherwise
    Ok(())
}
