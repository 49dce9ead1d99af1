//! Who waits for which bucket in this process, first come, first served.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    hash::{BuildHasher, Hash, RandomState},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// How many locks there are, so that lines of different buckets seldom wait for one lock.
const SHARDS: usize = 16;
/// A shard whose lines are gone keeps room for no more lines than this.
const MIN_CAPACITY: usize = 64;

/// All lines of the process. A bucket without a line takes no memory.
static LINES: LazyLock<WaitingLines> = LazyLock::new(WaitingLines::default);

#[derive(Default)]
struct WaitingLines {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// By the hash of the bucket: if two buckets ever have the same hash, they share a line.
    lines: HashMap<u64, WaitingLine>,
    next_number: u64,
}

/// The waiters for one bucket, in the order of their numbers, each with its waker.
type WaitingLine = BTreeMap<u64, Option<Waker>>;

/// The line of one bucket, whether anybody stands in it or not.
#[derive(Clone, Copy)]
pub(super) struct WaitingLineOf(u64);

/// A waiter in a line. Dropping it leaves the line, and wakes the waiter that is first then.
pub(super) struct Waiter {
    line: WaitingLineOf,
    number: u64,
}

impl WaitingLineOf {
    /// The line of this bucket.
    pub(super) fn new(bucket: impl Hash) -> Self {
        Self(LINES.hasher.hash_one(bucket))
    }

    /// Goes to the end of the line.
    pub(super) fn join(self) -> Waiter {
        let mut shard = self.shard();
        let number = shard.next_number;
        shard.next_number += 1;
        shard.lines.entry(self.0).or_default().insert(number, None);
        Waiter { line: self, number }
    }

    fn shard(self) -> MutexGuard<'static, Shard> {
        let shard = &LINES.shards[self.0 as usize % SHARDS];
        // Nothing panics while a lock is held.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Waits until it is the first, and says whether it was behind another before.
    ///
    /// It is polled once more then. The time of its caller may have run out with that of the one
    /// before it: if so, it is dropped before it asks, and charges nothing.
    pub(super) async fn first(&self) -> bool {
        let (mut was_behind, mut is_polled_once_more) = (false, false);
        poll_fn(|cx| {
            let mut shard = self.line.shard();
            let Some(waker) = self.waker(&mut shard) else {
                if was_behind && !is_polled_once_more {
                    is_polled_once_more = true;
                    drop(shard);
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
                drop(shard);
                drop(old);
            }
            Poll::Pending
        })
        .await
    }

    /// Its waker, unless it is the first.
    fn waker<'a>(&self, shard: &'a mut Shard) -> Option<&'a mut Option<Waker>> {
        let line = shard.lines.get_mut(&self.line.0)?;
        match line.first_key_value() {
            Some((first, _)) if *first == self.number => None,
            _ => line.get_mut(&self.number),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut shard = self.line.shard();
        let Some(line) = shard.lines.get_mut(&self.line.0) else {
            return;
        };
        let was_first = line
            .first_key_value()
            .is_some_and(|(first, _)| *first == self.number);
        let own = line.remove(&self.number);
        let next = line.first_entry().filter(|_| was_first);
        let next = next.and_then(|mut next| next.get_mut().take());
        if line.is_empty() {
            shard.lines.remove(&self.line.0);
            // With room for four times as many, so that the table is seldom moved.
            let room = MIN_CAPACITY.max(4 * shard.lines.len());
            shard.lines.shrink_to(room);
        }
        drop(shard);
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
        let line = WaitingLineOf::new("a line of this test alone");
        let [first, middle, last] = [line.join(), line.join(), line.join()];
        assert_eq!([&first, &middle, &last].map(is_first), [true, false, false]);
        drop(middle);
        assert!(!is_first(&last));
        drop(first);
        assert!(is_first(&last));
        let is_kept = || line.shard().lines.contains_key(&line.0);
        assert!(is_kept());
        drop(last);
        assert!(!is_kept());
    }

    #[test]
    fn lines_that_are_gone_leave_no_room_behind() {
        let lines = (0..100_000).map(|number| WaitingLineOf::new(("many", number)));
        let waiters: Vec<_> = lines.map(WaitingLineOf::join).collect();
        drop(waiters);
        let capacity = |shard: &Mutex<Shard>| shard.lock().unwrap().lines.capacity();
        let most = LINES.shards.iter().map(capacity).max().unwrap();
        assert!(most <= 4 * MIN_CAPACITY, "room for {most}");
    }
}
