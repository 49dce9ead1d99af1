//! Keys and states that have left a table, dropped when no lock is held any more.

use std::{
    cell::Cell,
    mem::needs_drop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

thread_local! {
    static IS_DROPPING: Cell<bool> = const { Cell::new(false) };
}

/// Keys and states that have left a table. It is made before a lock is taken, so that it is dropped
/// after the lock is released: a key's own `Drop` may take its time, panic, or ask the same store.
pub(super) struct DeferredDrops<K, S>(Vec<(Option<K>, Option<S>)>);

impl<K, S> DeferredDrops<K, S> {
    #[inline]
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    #[inline]
    pub(super) fn keep(&mut self, key: Option<K>, state: Option<S>) {
        if needs_drop::<(K, S)>() {
            // Mostly there is only one: a list grows to four at once otherwise.
            self.0.reserve_exact(1);
            self.0.push((key, state));
        }
    }

    /// Drops all of them, also those after one whose `Drop` panics; then that panic goes on.
    #[cold]
    fn drop_all(&mut self) {
        let was_dropping = IS_DROPPING.replace(true);
        let mut panicked = None;
        for dropped in self.0.drain(..) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(dropped))) {
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

impl<K, S> Drop for DeferredDrops<K, S> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_empty() {
            self.drop_all();
        }
    }
}

/// Whether this thread is dropping what has left a table. If a key's own `Drop` asks a store then,
/// that call sweeps nothing: each key that left might ask again, one inside the other, as deep as
/// there are idle keys.
#[inline]
pub(super) fn is_dropping() -> bool {
    IS_DROPPING.get()
}
