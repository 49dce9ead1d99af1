//! A rule of your own: three tries, then none until a minute after the last of them.
//!
//! An algorithm is a value, and pure functions over its state: no clock, no lock, nothing async.
//! Layers, stores and tuples take it like the crate's own. For Redis it is written in Lua too:
//! `examples/redis/src/bin/redis_custom_algorithm.rs`.
//!
//! ```text
//! cargo run --example custom_algorithm
//! ```

use std::{error::Error, time::Duration};

use tollgate::algorithm::{Algorithm, Policy, Status};
use tollgate::{RateLimiter, Timestamp, clock::ManualClock, store::LocalStore};

/// Admits the policy's limit of units, then none until a pause after the last admitted one: the
/// policy's window.
///
/// In any span of one pause it admits no more than the limit: two runs are at least a pause apart.
#[derive(Debug, Clone)]
pub(crate) struct Tries(pub(crate) Policy);

/// The units taken in a row, and when the last ones were.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) taken: u64,
    pub(crate) last: u64,
}

impl Tries {
    pub(crate) fn pause_micros(&self) -> u64 {
        self.0.window().as_micros() as u64
    }

    /// The units taken since the last pause, and the time until the next pause is over.
    fn look(&self, run: &Run, now: Timestamp) -> (u64, u64) {
        let until_over = run
            .last
            .saturating_add(self.pause_micros())
            .saturating_sub(now.as_micros());
        let taken = run.taken.min(self.0.limit());
        (if until_over > 0 { taken } else { 0 }, until_over)
    }
}

impl Algorithm for Tries {
    type State = Run;

    fn policy(&self) -> &Policy {
        &self.0
    }
    fn fresh(&self, at: Timestamp) -> Run {
        let (taken, last) = (0, at.as_micros());
        Run { taken, last }
    }
    fn judge(&self, run: &Run, cost: u32, now: Timestamp) -> bool {
        cost == 0 || self.look(run, now).0.saturating_add(cost.into()) <= self.0.limit()
    }
    fn debit(&self, run: &mut Run, units: u64, now: Timestamp) {
        // A penalty may be more than fits.
        let taken = self.look(run, now).0.saturating_add(units);
        run.taken = taken.min(self.0.limit());
        // If the clock stepped back a little, no time has passed.
        run.last = run.last.max(now.as_micros());
    }
    fn refund(&self, run: &mut Run, cost: u32, now: Timestamp) {
        run.taken = self.look(run, now).0.saturating_sub(cost.into());
    }
    fn is_fresh(&self, run: &Run, now: Timestamp) -> bool {
        run.last <= now.as_micros() && self.look(run, now).0 == 0
    }
    fn status(&self, run: &Run, cost: u32, admitted: bool, now: Timestamp) -> Status {
        let (taken, until_over) = self.look(run, now);
        let limit = self.0.limit();
        let left = limit.saturating_sub(taken);
        Status::of(limit, left, cost.into(), admitted, |units| {
            match units <= left {
                true => Some(0),
                false => (units <= limit).then_some(until_over),
            }
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let policy = Policy::new("tries", &[3], Duration::from_secs(60));
    let logins = RateLimiter::new(Tries(policy), store);
    for remaining in [2, 1, 0] {
        assert_eq!(logins.check("bob").await?.remaining(), remaining);
        clock.advance(Duration::from_secs(10));
    }
    let wait = logins.check("bob").await?.retry_after();
    println!("three tries; the fourth in {wait:?}");
    assert_eq!(wait, Some(Duration::from_secs(50)));

    clock.advance(Duration::from_secs(50));
    assert_eq!(logins.check("bob").await?.remaining(), 2);
    Ok(())
}
