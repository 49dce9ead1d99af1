//! How many requests may wait in a layer at the same time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The maximum of requests that wait for their turns, of all keys together; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct MaxWaiting(Option<Arc<Counter>>);

#[derive(Debug)]
struct Counter {
    max: usize,
    waiting: AtomicUsize,
}

/// Lets one request wait, until it is dropped.
#[derive(Debug)]
pub struct WaitPermit(Option<Arc<Counter>>);

impl MaxWaiting {
    pub(super) fn new(max: usize) -> Self {
        let waiting = AtomicUsize::new(0);
        Self(Some(Arc::new(Counter { max, waiting })))
    }

    /// `None` if the maximum of requests is waiting.
    pub(super) fn permit(&self) -> Option<WaitPermit> {
        let Some(counter) = &self.0 else {
            return Some(WaitPermit(None));
        };
        let one_more = |waiting| (waiting < counter.max).then_some(waiting + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        counter.waiting.fetch_update(set, fetch, one_more).ok()?;
        Some(WaitPermit(Some(Arc::clone(counter))))
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        if let Some(counter) = &self.0 {
            counter.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
