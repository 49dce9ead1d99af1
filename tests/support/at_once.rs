//! Threads that begin together.

use std::{sync::Barrier, thread};

/// Runs it on so many threads at once, each with its number.
pub(crate) fn at_once(threads: u64, body: impl Fn(u64) + Sync) {
    let start = Barrier::new(usize::try_from(threads).unwrap());
    thread::scope(|scope| {
        for number in 0..threads {
            let (start, body) = (&start, &body);
            scope.spawn(move || {
                start.wait();
                body(number);
            });
        }
    });
}
