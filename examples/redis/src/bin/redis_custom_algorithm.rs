//! An algorithm of your own in Redis: that of `examples/custom_algorithm.rs`, written in Lua too.
//!
//! The script is one function: what a cost makes of a state, or that it does not fit. The methods
//! of `Algorithm` then describe the decision. So the rule is written twice, and both versions must
//! give the same decisions: here they do, in both stores.
//!
//! ```text
//! cargo run -p redis_examples --bin redis_custom_algorithm
//! ```

use std::time::Duration;

use redis_examples::{Failure, Server};
use tollgate::algorithm::{Policy, Script, Scripted};
use tollgate::store::{LocalStore, RedisConnection, RedisStore, Store};
use tollgate::{RateLimiter, Timestamp, clock::ManualClock};

#[path = "../../../custom_algorithm.rs"]
#[expect(dead_code, reason = "an example of its own, with a `main`")]
mod custom_algorithm;

use custom_algorithm::{Run, Tries};

/// A refund is a negative cost; the state of a caller who was never charged is all zeros. A penalty
/// `must` be charged, up to the limit as in Rust: a number that only grows would leave what Lua
/// counts exactly.
const TRIES: &str = "
local function tries(last, now, cost, must, limit, pause, taken, charged_at)
  taken = charged_at + pause > now and math.min(taken, limit) or 0
  if cost > 0 then
    if taken + cost > limit and not must then return false end
    charged_at = now
  end
  taken = math.max(math.min(taken + cost, limit), 0)
  return true, charged_at + pause, taken, charged_at
end
";

impl Scripted for Tries {
    fn script() -> Script {
        Script::new("tries", TRIES)
            .parameters(&["limit", "pause"])
            .state(&["taken", "charged_at"])
    }
    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.0.limit());
        output(self.pause_micros());
    }
    // No number is without a meaning: more than the limit was taken by a larger one.
    fn state(&self, _at: Timestamp, numbers: &[u64]) -> Option<Run> {
        let [taken, last] = *numbers else { return None };
        Some(Run { taken, last })
    }
    fn numbers(&self, run: &Run, _at: Timestamp, output: &mut dyn FnMut(u64)) {
        output(run.taken);
        output(run.last);
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let server = Server::start(&[])?;
    let redis = RedisConnection::from_url(&server.url())?;
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let local = LocalStore::builder().clock(clock.clone()).build();
    try_until_refused("in memory", local, &clock).await?;
    let shared = RedisStore::builder(redis).clock(clock.clone()).build();
    try_until_refused("in Redis", shared, &clock).await
}

async fn try_until_refused(
    place: &str,
    store: impl Store<Tries, String>,
    clock: &ManualClock,
) -> Result<(), Failure> {
    let policy = Policy::new("tries", &[3], Duration::from_secs(60));
    let logins = RateLimiter::new(Tries(policy), store);
    for remaining in [2, 1, 0] {
        assert_eq!(logins.check("bob").await?.remaining(), remaining);
        clock.advance(Duration::from_secs(10));
    }
    let wait = logins.check("bob").await?.retry_after();
    println!("{place}: three tries; the fourth in {wait:?}");
    assert_eq!(wait, Some(Duration::from_secs(50)));

    logins.refund("bob", 1).await?;
    assert_eq!(logins.peek("bob").await?.remaining(), 1);
    clock.advance(Duration::from_secs(50));
    assert_eq!(logins.check("bob").await?.remaining(), 2);

    // What must be charged, where the two versions differ first.
    logins.debit("bob", 5).await?;
    logins.refund("bob", 1).await?;
    assert_eq!(logins.peek("bob").await?.remaining(), 1);
    clock.advance(Duration::from_secs(30));
    logins.debit("bob", 1).await?;
    let wait = logins.check("bob").await?.retry_after();
    assert_eq!(wait, Some(Duration::from_secs(60)));
    Ok(())
}
