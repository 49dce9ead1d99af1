//! Several limits at once: ten a second, 120 a minute and 240 an hour, never two within 100 ms.
//!
//! A tuple of algorithms is an algorithm. A request must pass all of them. If one refuses, none is
//! charged, and the decision says which one refused. Here a caller asks for as much as it can get
//! in an hour; a manual clock makes the hour short.
//!
//! ```text
//! cargo run --example several_limits
//! ```

use std::{collections::BTreeMap, error::Error, time::Duration};

use tollgate::algorithm::{FixedWindow, MinInterval, SlidingBuckets, SlidingLog};
use tollgate::{Quota, RateLimiter, Timestamp, clock::ManualClock, store::LocalStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let start = Timestamp::from_micros(0);
    let clock = ManualClock::at(start);
    let store = LocalStore::builder().clock(clock.clone()).build();
    let limits = (
        MinInterval::new(Duration::from_millis(100)).named("spacing"),
        SlidingLog::new(Quota::per_second(10)).named("second"),
        SlidingBuckets::new(Quota::per_minute(120), Duration::from_secs(1))
            .strict()
            .named("minute"),
        FixedWindow::new(Quota::per_hour(240)).named("hour"),
    );
    let limiter = RateLimiter::new(limits, store);

    // The caller sends requests of two units, and waits for exactly the announced time.
    let (mut admitted, mut refused_by) = (0, BTreeMap::<String, u32>::new());
    let mut elapsed = Duration::ZERO;
    println!("     time  admitted  refused by  again after  what each has left");
    while elapsed < Duration::from_secs(3_600) {
        let decision = limiter.check_cost("bob", 2).await?;
        let Some(wait) = decision.retry_after() else {
            admitted += 2;
            continue;
        };
        let times = refused_by.entry(decision.policy().to_owned()).or_default();
        *times += 1;
        if *times == 1 {
            let left = decision.policies().iter();
            let left: Vec<_> = left.map(|policy| policy.remaining()).collect();
            let (at, by) = (format!("{elapsed:.1?}"), decision.policy());
            println!(
                "{at:>9}  {admitted:>8}  {by:>10}  {:>11}  {left:?}",
                format!("{wait:.1?}")
            );
        }
        clock.advance(wait);
        elapsed += wait;
    }

    println!("\nIn an hour {admitted} units were admitted; refusals: {refused_by:?}");
    assert_eq!(admitted, 240);
    let names: Vec<_> = refused_by.keys().map(String::as_str).collect();
    assert_eq!(names, ["hour", "minute", "second", "spacing"]);
    Ok(())
}
