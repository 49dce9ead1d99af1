//! The lock of a shard, which is held for about as long as it takes to ask for it.

use std::{hint, thread, time::Duration};

/// How long the first turn of waiting is: some decisions, so that two threads at one key decide in
/// runs, and don't hand its cache lines to and fro.
const FIRST_SPINS: u32 = 32;
/// How often a turn of waiting is twice as long as the one before.
const DOUBLINGS: u32 = 4;
/// In how many turns the processor is left to others before this thread sleeps.
const YIELDS: u32 = 32;
const SLEEP: Duration = Duration::from_micros(50);

/// On a cache line of its own.
///
/// Letting go of it is a plain store, as nobody is parked behind it: half the price of a lock that
/// has to look whom to wake, and two threads at one key are not sent through the kernel. Whoever
/// waits does so for a few turns of a loop, then leaves the processor to others, then sleeps: so
/// one whose holder was interrupted wastes little, and one of a higher priority lets its holder go
/// on.
#[repr(align(64))]
pub(super) struct Lock<T>(spin::mutex::SpinMutex<T>);

/// What a [`Lock`] is about, while it is held. It is let go of in a panic too: a panic in a key's
/// own `Eq` leaves nothing half written behind.
pub(super) type Held<'a, T> = spin::mutex::SpinMutexGuard<'a, T>;

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(spin::mutex::SpinMutex::new(value))
    }

    #[inline]
    pub(super) fn lock(&self) -> Held<'_, T> {
        match self.0.try_lock() {
            Some(held) => held,
            None => self.wait(),
        }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> Option<Held<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn wait(&self) -> Held<'_, T> {
        let mut turn = 0;
        loop {
            wait_a_turn(turn);
            turn = turn.saturating_add(1);
            // Looked at first, so that those who wait don't take the cache line from the one who
            // holds it.
            if !self.0.is_locked()
                && let Some(held) = self.0.try_lock()
            {
                return held;
            }
        }
    }
}

fn wait_a_turn(turn: u32) {
    if turn <= DOUBLINGS {
        for _ in 0..FIRST_SPINS << turn {
            hint::spin_loop();
        }
    } else if turn <= DOUBLINGS + YIELDS {
        thread::yield_now();
    } else {
        thread::sleep(SLEEP);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn only_one_holds_it_at_a_time() {
        let lock = Lock::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut held = lock.lock();
                        let seen = *held;
                        *held = hint::black_box(seen) + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 8 * 20_000);
    }

    #[test]
    fn whoever_waits_longer_than_a_loop_gets_it_in_the_end() {
        let lock = Lock::new(());
        let (asks, has_it) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let held = lock.lock();
            scope.spawn(|| {
                asks.store(true, Ordering::SeqCst);
                let _held = lock.lock();
                has_it.store(true, Ordering::SeqCst);
            });
            while !asks.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            // Longer than all the turns before the sleeping ones.
            for _ in 0..10 {
                thread::sleep(SLEEP);
            }
            assert!(!has_it.load(Ordering::SeqCst));
            drop(held);
        });
        assert!(has_it.load(Ordering::SeqCst));
    }

    #[test]
    fn a_panic_lets_go_of_it() {
        let lock = Lock::new(7);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = lock.lock();
            panic!("as a key's own `Eq` may");
        }));
        assert!(panicked.is_err());
        assert!(lock.try_lock().is_some_and(|held| *held == 7));
    }
}
