//! Units that are to be held by a rule that counts requests.

use std::time::Duration;
use tollgate::algorithm::{MinInterval, Settled};

fn main() {
    let _ = Settled::new(MinInterval::new(Duration::from_secs(1)));
}
