//! Who waits for which bucket in this process, first come, first served.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    hash::{BuildHasher, Hash, RandomState},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// So many locks, so that those who wait for different buckets seldom wait for each other.
const SHARDS: usize = 16;
/// A shard whose lines are gone keeps room for no more than this.
const MIN_CAPACITY: usize = 64;

/// All lines of the process. A bucket without a line takes no memory.
static LINES: LazyLock<Lines> = LazyLock::new(Lines::default);

#[derive(Default)]
struct Lines {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// By the hash of the bucket: two with the same one, if ever, wait for each other.
    lines: HashMap<u64, Line>,
    next_place: u64,
}

/// Those who wait for one bucket, by their places, each with how to wake him.
type Line = BTreeMap<u64, Option<Waker>>;

/// The line of one bucket, whether anybody stands in it or not.
#[derive(Clone, Copy)]
pub(super) struct LineOf(u64);

/// A place in a line; it is left when this is dropped, and whoever is first then is woken.
pub(super) struct Place {
    line: LineOf,
    place: u64,
}

impl LineOf {
    /// The line of what has this hash.
    pub(super) fn new(bucket: impl Hash) -> Self {
        Self(LINES.hasher.hash_one(bucket))
    }

    pub(super) fn is_empty(self) -> bool {
        !self.shard().lines.contains_key(&self.0)
    }

    /// Goes to the end of the line.
    pub(super) fn join(self) -> Place {
        let mut shard = self.shard();
        let place = shard.next_place;
        shard.next_place += 1;
        shard.lines.entry(self.0).or_default().insert(place, None);
        Place { line: self, place }
    }

    fn shard(self) -> MutexGuard<'static, Shard> {
        let shard = &LINES.shards[self.0 as usize % SHARDS];
        // Nothing panics while a lock is held.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(super) fn is_first(&self) -> bool {
        let mut shard = self.line.shard();
        self.waker(&mut shard).is_none()
    }

    /// Waits until nobody is before it.
    pub(super) async fn first(&self) {
        poll_fn(|cx| {
            let mut shard = self.line.shard();
            let Some(waker) = self.waker(&mut shard) else {
                return Poll::Ready(());
            };
            let is_known = |known: &Waker| known.will_wake(cx.waker());
            if !waker.as_ref().is_some_and(is_known) {
                let old = waker.replace(cx.waker().clone());
                // The last waker of a task may drop what the task holds: another place, say.
                drop(shard);
                drop(old);
            }
            Poll::Pending
        })
        .await;
    }

    /// Its waker, unless it is the first.
    fn waker<'a>(&self, shard: &'a mut Shard) -> Option<&'a mut Option<Waker>> {
        let line = shard.lines.get_mut(&self.line.0)?;
        match line.first_key_value() {
            Some((first, _)) if *first == self.place => None,
            _ => line.get_mut(&self.place),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut shard = self.line.shard();
        let Some(line) = shard.lines.get_mut(&self.line.0) else {
            return;
        };
        let was_first = line
            .first_key_value()
            .is_some_and(|(first, _)| *first == self.place);
        let own = line.remove(&self.place);
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

    fn is_first(place: &Place) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(place.first()).poll(&mut cx).is_ready() && place.is_first()
    }

    #[test]
    fn whoever_leaves_makes_room_for_the_next_and_an_empty_line_is_forgotten() {
        let line = LineOf::new("a line of this test alone");
        let [first, middle, last] = [line.join(), line.join(), line.join()];
        assert_eq!([&first, &middle, &last].map(is_first), [true, false, false]);
        drop(middle);
        assert!(!is_first(&last));
        drop(first);
        assert!(is_first(&last));
        assert!(!line.is_empty());
        drop(last);
        assert!(line.is_empty());
    }

    #[test]
    fn lines_that_are_gone_leave_no_room_behind() {
        let lines = (0..100_000).map(|number| LineOf::new(("many", number)));
        let places: Vec<_> = lines.map(LineOf::join).collect();
        drop(places);
        let capacity = |shard: &Mutex<Shard>| shard.lock().unwrap().lines.capacity();
        let most = LINES.shards.iter().map(capacity).max().unwrap();
        assert!(most <= 4 * MIN_CAPACITY, "room for {most}");
    }
}
