//! Who waits for which bucket in this process, first come, first served.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    hash::{BuildHasher, Hash, RandomState},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// Where the lines are gone there is room for no more lines than this.
const MIN_CAPACITY: usize = 64;

/// All lines of the process. A bucket without a line takes no memory.
static LINES: LazyLock<Mutex<WaitingLines>> = LazyLock::new(Mutex::default);

/// Not under the lock: to hash a key may be any code.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[derive(Default)]
struct WaitingLines {
    /// By the hash of the bucket: if two buckets ever have the same hash, they share a line.
    lines: HashMap<u64, WaitingLine>,
    next_number: u64,
}

/// The waiters for one bucket, in the order of their numbers, each with its waker.
type WaitingLine = BTreeMap<u64, Option<Waker>>;

/// A waiter in a line. Dropping it leaves the line, and wakes the waiter that is first then.
pub(super) struct Waiter {
    line: u64,
    number: u64,
}

fn waiting_lines() -> MutexGuard<'static, WaitingLines> {
    // Nothing panics while the lock is held.
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiter {
    /// Goes to the end of the line of this bucket.
    pub(super) fn new(bucket: impl Hash) -> Self {
        let line = HASHER.hash_one(bucket);
        let mut all = waiting_lines();
        let number = all.next_number;
        all.next_number += 1;
        all.lines.entry(line).or_default().insert(number, None);
        Self { line, number }
    }

    /// Waits until it is the first, and says whether it was behind another before.
    ///
    /// It is polled once more then. The time of its caller may have run out with that of the one
    /// before it: if so, it is dropped before it asks, and charges nothing.
    pub(super) async fn first(&self) -> bool {
        let (mut was_behind, mut is_polled_once_more) = (false, false);
        poll_fn(|cx| {
            let mut all = waiting_lines();
            let Some(waker) = self.waker(&mut all) else {
                if was_behind && !is_polled_once_more {
                    is_polled_once_more = true;
                    drop(all);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                return Poll::Ready(was_behind);
            };
            was_behind = true;
            let is_known = |known: &Waker| known.will_wake(cx.waker());
            if !waker.as_ref().is_some_and(is_known) {
                let old = waker.replace(cx.waker().clone());
                // The last waker of a task may drop what the task holds: another waiter, say.
                drop(all);
                drop(old);
            }
            Poll::Pending
        })
        .await
    }

    /// Its waker, unless it is the first.
    fn waker<'a>(&self, all: &'a mut WaitingLines) -> Option<&'a mut Option<Waker>> {
        let line = all.lines.get_mut(&self.line)?;
        match line.first_key_value() {
            Some((first, _)) if *first == self.number => None,
            _ => line.get_mut(&self.number),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut all = waiting_lines();
        let Some(line) = all.lines.get_mut(&self.line) else {
            return;
        };
        let was_first = line
            .first_key_value()
            .is_some_and(|(first, _)| *first == self.number);
        let own = line.remove(&self.number);
        let next = line.first_entry().filter(|_| was_first);
        let next = next.and_then(|mut next| next.get_mut().take());
        if line.is_empty() {
            all.lines.remove(&self.line);
            // With room for four times as many, so that the table is seldom moved.
            let room = MIN_CAPACITY.max(4 * all.lines.len());
            all.lines.shrink_to(room);
        }
        drop(all);
        drop(own);
        // Without the lock: it may run any code.
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Context};

    use super::*;

    fn is_first(waiter: &Waiter) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(waiter.first()).poll(&mut cx).is_ready()
    }

    #[test]
    fn whoever_leaves_makes_room_for_the_next_and_an_empty_line_is_forgotten() {
        let [first, middle, last] = [(); 3].map(|()| Waiter::new("a line of this test alone"));
        assert_eq!([&first, &middle, &last].map(is_first), [true, false, false]);
        drop(middle);
        assert!(!is_first(&last));
        drop(first);
        assert!(is_first(&last));
        let line = last.line;
        let is_kept = || waiting_lines().lines.contains_key(&line);
        assert!(is_kept());
        drop(last);
        assert!(!is_kept());
    }

    #[test]
    fn lines_that_are_gone_leave_no_room_behind() {
        let waiters = (0..100_000).map(|number| Waiter::new(("many", number)));
        drop(waiters.collect::<Vec<_>>());
        let most = waiting_lines().lines.capacity();
        assert!(most <= 4 * MIN_CAPACITY, "room for {most}");
    }
}
