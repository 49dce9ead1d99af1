//! What is dropped once no lock is held any more.

use std::{
    cell::Cell,
    mem::needs_drop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use arrayvec::ArrayVec;

/// So many need no memory of their own: as many as can leave in a call about a known key.
const FEW: usize = 8;

thread_local! {
    static IS_DROPPING: Cell<bool> = const { Cell::new(false) };
}

/// Keys and states that have left a table. To be made before a lock is taken, so that it is dropped
/// after the lock is let go of: a key's own `Drop` may take its time, panic, or ask the same store.
pub(super) struct Gone<K, S> {
    few: ArrayVec<(Option<K>, Option<S>), FEW>,
    more: Vec<(Option<K>, Option<S>)>,
}

impl<K, S> Gone<K, S> {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            few: ArrayVec::new_const(),
            more: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn entry(&mut self, (key, state): (K, S)) {
        self.keep(Some(key), Some(state));
    }

    /// A key that was asked about, if it is not in the table now.
    #[inline]
    pub(super) fn left_of(&mut self, key: Option<K>) {
        if key.is_some() {
            self.keep(key, None);
        }
    }

    #[inline]
    pub(super) fn state(&mut self, state: S) {
        self.keep(None, Some(state));
    }

    #[inline]
    fn keep(&mut self, key: Option<K>, state: Option<S>) {
        if !needs_drop::<(K, S)>() {
            return;
        }
        if let Err(full) = self.few.try_push((key, state)) {
            self.more.push(full.element());
        }
    }

    /// Drops all of them, also those that come after one whose `Drop` panics; that panic goes on.
    #[cold]
    fn drop_all(&mut self) {
        let was_dropping = IS_DROPPING.replace(true);
        let mut panicked = None;
        for gone in self.few.drain(..).chain(self.more.drain(..)) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(gone))) {
                panicked.get_or_insert(panic);
            }
        }
        IS_DROPPING.set(was_dropping);
        if let Some(panic) = panicked
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl<K, S> Drop for Gone<K, S> {
    #[inline]
    fn drop(&mut self) {
        if needs_drop::<(K, S)>() && !self.few.is_empty() {
            self.drop_all();
        }
    }
}

/// Whether this thread is dropping what has left a table. If a key's own `Drop` asks a store then,
/// that call makes no other keys leave: each of them might ask again, one inside the other, as deep
/// as there are idle keys.
#[inline]
pub(super) fn is_dropping() -> bool {
    IS_DROPPING.get()
}
