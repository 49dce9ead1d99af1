//! Waits with a timeout, and for many at once.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Asks every 20 ms until there is an answer.
///
/// # Panics
///
/// When a minute has gone by: `what` did not come.
pub async fn until<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        if let Ok(Some(answer)) = timeout(left, ask()).await {
            return answer;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}: not after {PATIENCE:?}")
}

/// Asks every 20 ms until it is so.
///
/// # Panics
///
/// When a minute has gone by: `what` did not come.
pub async fn comes(what: &str, is_so: impl AsyncFn() -> bool) {
    until(what, async || is_so().await.then_some(())).await;
}

/// The answer, if it comes in time.
///
/// # Panics
///
/// When the time has gone by.
pub async fn within<T>(limit: Duration, what: &str, answer: impl Future<Output = T>) -> T {
    match timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: not after {limit:?}"),
    }
}

/// What so many tasks return that begin together, each with a clone of this and its number.
pub async fn crowd<L, T, F>(count: u32, of: &L, task: impl Fn(L, u32) -> F) -> Vec<T>
where
    L: Clone,
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks = (0..count).map(|number| task(of.clone(), number));
    tasks.collect::<JoinSet<_>>().join_all().await
}
