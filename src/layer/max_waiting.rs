//! How many requests may wait in a layer at the same time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum of requests that wait for their turns, of all keys together; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct MaxWaiting(Option<Arc<Semaphore>>);

/// Lets one request wait, until it is dropped.
#[derive(Debug)]
pub struct WaitPermit(
    #[expect(dead_code, reason = "it is only dropped")] Option<OwnedSemaphorePermit>,
);

impl MaxWaiting {
    pub(super) fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self(Some(Arc::new(Semaphore::new(max))))
    }

    /// `None` if the maximum of requests is waiting.
    pub(super) fn permit(&self) -> Option<WaitPermit> {
        let permit = match &self.0 {
            Some(max) => Some(Arc::clone(max).try_acquire_owned().ok()?),
            None => None,
        };
        Some(WaitPermit(permit))
    }
}
