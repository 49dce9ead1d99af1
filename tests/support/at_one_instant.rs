//! What an algorithm lets through at one instant, where nobody else asks.

use tollgate::{Timestamp, algorithm::KeyLimit};

/// Panics if there is no end.
pub(crate) fn let_through_at_one_instant<A: KeyLimit>(algorithm: &A) -> u64 {
    let now = Timestamp::from_micros(1_700_000_000_000_000);
    let mut state = algorithm.fresh(now);
    let admitted = (0..10_000).take_while(|_| algorithm.step(&mut state, 1, now).0);
    let admitted = admitted.count() as u64;
    assert!(admitted < 10_000, "there is no end");
    admitted
}
