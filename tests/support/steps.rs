//! What one caller asks, and when.

use fastrand::Rng;
use tollgate::Timestamp;

/// When the clocks begin.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_700_006_400_000_000);

/// So many steps: microseconds that pass before, and the cost.
pub(crate) fn steps(count: usize) -> impl Iterator<Item = (u64, u32)> {
    let mut random = Rng::with_seed(11);
    (0..count).map(move |_| {
        let (passes, cost) = (random.u64(..4), random.u32(..8));
        (passes * passes * 60_000, cost)
    })
}
