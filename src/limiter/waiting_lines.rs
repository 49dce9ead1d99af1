//! Who waits for which bucket in this process, first come, first served.

use std::{
    collections::HashMap,
    future::poll_fn,
    hash::{BuildHasher, Hash, RandomState},
    mem::replace,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use tokio::sync;

/// Where the lines are gone there is room for no more lines than this.
const MIN_CAPACITY: usize = 64;

/// A lock that is handed on in the order in which it was asked for, and how many ask for it or have
/// it.
type WaitingLine = (Arc<sync::Mutex<()>>, usize);

/// All lines of the process, by the hash of the bucket: if two buckets ever have the same hash,
/// they share a line. A bucket without a line takes no memory.
static LINES: LazyLock<Mutex<HashMap<u64, WaitingLine>>> = LazyLock::new(Mutex::default);

/// Not under the lock: to hash a key may be any code.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A waiter in a line. Dropping it leaves the line.
pub(super) struct Waiter {
    bucket: u64,
    line: Arc<sync::Mutex<()>>,
}

fn waiting_lines() -> MutexGuard<'static, HashMap<u64, WaitingLine>> {
    // Nothing panics while the lock is held.
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiter {
    /// In the line of this bucket.
    pub(super) fn new(bucket: impl Hash) -> Self {
        let bucket = HASHER.hash_one(bucket);
        let mut all = waiting_lines();
        let (line, waiters) = all.entry(bucket).or_default();
        *waiters += 1;
        let line = Arc::clone(line);
        Self { bucket, line }
    }

    /// Goes to the end of the line and waits until it is the first, which it is for as long as it
    /// keeps what this returns; and says whether it was behind another before.
    ///
    /// Then it is polled once more. The time of its caller may have run out with that of the one
    /// before it: if so, it is dropped before it asks, and charges nothing.
    pub(super) async fn first(&self) -> (sync::MutexGuard<'_, ()>, bool) {
        if let Ok(first) = self.line.try_lock() {
            return (first, false);
        }
        let first = self.line.lock().await;
        let mut is_polled_once_more = false;
        poll_fn(|cx| match replace(&mut is_polled_once_more, true) {
            true => Poll::Ready(()),
            false => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
        (first, true)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut all = waiting_lines();
        if let Some((_, waiters)) = all.get_mut(&self.bucket) {
            *waiters -= 1;
            if *waiters == 0 {
                all.remove(&self.bucket);
                // With room for four times as many, so that the table is seldom moved.
                let room = MIN_CAPACITY.max(4 * all.len());
                all.shrink_to(room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::Pin,
        task::{Context, Waker},
    };

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = (sync::MutexGuard<'a, ()>, bool)> + 'a>>;

    /// Whether it was behind another, and is the first now.
    fn is_first<'a>(waiting: &mut Waiting<'a>) -> Option<(sync::MutexGuard<'a, ()>, bool)> {
        match waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(first) => Some(first),
            Poll::Pending => None,
        }
    }

    #[test]
    fn whoever_leaves_makes_room_for_the_next_and_an_empty_line_is_forgotten() {
        let waiters = [(); 3].map(|()| Waiter::new("a line of this test alone"));
        let line = waiters[0].bucket;
        let is_kept = || waiting_lines().contains_key(&line);
        let [mut first, mut middle, mut last] = waiters
            .each_ref()
            .map(|waiter| -> Waiting<'_> { Box::pin(waiter.first()) });
        let (turn, was_behind) = is_first(&mut first).unwrap();
        assert!(!was_behind);
        assert!(is_first(&mut middle).is_none() && is_first(&mut last).is_none());
        drop(middle);
        assert!(is_first(&mut last).is_none());
        drop(turn);
        assert!(is_first(&mut last).is_none(), "it is polled once more");
        assert!(is_first(&mut last).unwrap().1);
        assert!(is_kept());
        drop((first, last));
        drop(waiters);
        assert!(!is_kept());
    }

    #[test]
    fn lines_that_are_gone_leave_no_room_behind() {
        let waiters = (0..100_000).map(|number| Waiter::new(("many", number)));
        drop(waiters.collect::<Vec<_>>());
        let most = waiting_lines().capacity();
        assert!(most <= 4 * MIN_CAPACITY, "room for {most}");
    }
}
