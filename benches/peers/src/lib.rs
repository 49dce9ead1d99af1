//! The same work through tollgate and through the crates that people would pick instead.
//!
//! Each program in `bin/` prints one section of `BENCHMARKS.md`; `scripts/bench` runs them all.
//! Everything that is compared takes turns in one run, and what is reported is a ratio with its
//! spread, see [`turns`].

pub mod keys;
pub mod layers;
pub mod limit;
pub mod own;
pub mod peers;
pub mod table;
pub mod versions;

pub use tollgate_benches::{quick, turns};

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

/// The output of a future that never waits, where it is polled, as by `.await`.
#[inline(always)]
pub fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a limiter in memory is never pending"),
    }
}
