//! A flood of new keys crowds newcomers, and nobody else: memory stays bounded, a caller over the
//! limit stays refused, a known caller under the limit is never locked out, and no call sweeps
//! everything.
//!
//! `TOLLGATE_FLOOD_KEYS` replaces the default of five million keys.

use std::{
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

#[path = "support/counting.rs"]
mod counting;
#[path = "support/ready.rs"]
mod ready;

use counting::{HELD, MOST_HELD};
use ready::ready;
use tollgate::{
    Quota, RateLimiter, Timestamp, algorithm::TokenBucket, clock::ManualClock, store::LocalStore,
};

const MAX_KEYS: usize = 100_000;
/// A key takes 17 bytes and a state 16, in a table that is at least 7/16 full; while a shard grows,
/// it exists twice.
const MAX_BYTES_PER_KEY: usize = 150;
/// Much longer than any call, and much shorter than repeated sweeps through everything.
const MAX_CALL: Duration = Duration::from_millis(250);
const CALLER_EVERY: u64 = 1_000;

type Store = LocalStore<TokenBucket, IpAddr, ManualClock>;

fn flood_keys() -> u64 {
    let keys = std::env::var("TOLLGATE_FLOOD_KEYS").ok();
    keys.map_or(5_000_000, |keys| keys.parse().expect("a number of keys"))
}

fn key(number: u64) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(u128::from(number) << 64))
}

struct Flood {
    limiter: RateLimiter<TokenBucket, Store>,
    store: Store,
    clock: ManualClock,
    nanos: Vec<u32>,
    bytes_before: usize,
    admitted: u64,
    most_keys: usize,
}

impl Flood {
    /// A hundred callers over their limit, and a hundred known ones under it.
    fn new(quota: Quota) -> Self {
        let calls = usize::try_from(flood_keys()).unwrap();
        let nanos = Vec::with_capacity(calls);
        let bytes_before = HELD.get();
        MOST_HELD.set(bytes_before);
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let store = LocalStore::builder()
            .clock(clock.clone())
            .max_keys(MAX_KEYS)
            .build();
        let flood = Self {
            limiter: RateLimiter::new(TokenBucket::new(quota), store.clone()),
            store,
            clock,
            nanos,
            bytes_before,
            admitted: 0,
            most_keys: 0,
        };
        for caller in 0..100 {
            assert!(flood.admits(key(caller), u32::try_from(quota.units()).unwrap()));
            assert!(flood.admits(key(100 + caller), 1));
        }
        flood
    }

    fn admits(&self, key: IpAddr, cost: u32) -> bool {
        let decision = ready(self.limiter.check_cost(&key, cost)).unwrap();
        decision.is_admitted()
    }

    /// New keys one after the other, with `step` between them, and `callers` now and then.
    fn run(&mut self, step: Duration, callers: impl Fn(&Self, u64)) {
        for number in 0..flood_keys() {
            let newcomer = key(1_000 + number);
            let start = Instant::now();
            let admitted = self.admits(newcomer, 1);
            self.nanos.push(start.elapsed().as_nanos() as u32);
            self.admitted += u64::from(admitted);
            self.clock.advance(step);
            if number % CALLER_EVERY == 0 {
                callers(self, number / CALLER_EVERY % 100);
                self.most_keys = self.most_keys.max(self.store.usage().keys);
            }
        }
    }

    fn report(&mut self, name: &str) {
        let most = MOST_HELD.get() - self.bytes_before;
        let worst = self.nanos.iter().copied().max().unwrap_or(0);
        println!(
            "{name}: at most {} kept, at most {most} bytes, at worst {worst} ns; {:?}",
            self.most_keys,
            self.store.usage(),
        );
        assert!(most <= MAX_KEYS * MAX_BYTES_PER_KEY);
        assert!(Duration::from_nanos(worst.into()) < MAX_CALL);
        assert!(self.most_keys <= MAX_KEYS);
    }
}

#[test]
fn a_flood_of_keys_that_stay_alive_crowds_newcomers_only() {
    // Nothing comes back while the flood lasts.
    let quota = Quota::per_day(100_000);
    let mut flood = Flood::new(quota);
    flood.run(Duration::ZERO, |flood, caller| {
        let is_refused = !flood.admits(key(caller), 1);
        assert!(is_refused, "over its limit before the flood");
        let passes = flood.admits(key(100 + caller), 1);
        assert!(passes, "known, and under its limit");
    });
    flood.report("alive");
    let usage = flood.store.usage();
    assert_eq!(usage.keys, MAX_KEYS.min(200 + flood.nanos.len()));
    // Newcomers without an entry share one quota.
    let with_a_place = (MAX_KEYS - 200) as u64;
    let due = flood_keys().min(with_a_place + quota.units());
    assert_eq!(flood.admitted, due);
    let without_a_place = flood_keys().saturating_sub(with_a_place);
    assert_eq!(usage.overflow_decisions, without_a_place);
}

#[test]
fn a_flood_of_keys_that_become_idle_leaves_as_it_comes() {
    // One unit takes 10 ms to come back, in which a thousand newcomers come.
    let quota = Quota::new(100_000, Duration::from_secs(1_000));
    let mut flood = Flood::new(quota);
    flood.run(Duration::from_micros(10), |flood, caller| {
        // It takes each unit as soon as it is back: it is over its limit at any time.
        while flood.admits(key(caller), 1) {}
        let passes = flood.admits(key(100 + caller), 1);
        assert!(passes, "known, and under its limit");
    });
    flood.report("idle");
    let usage = flood.store.usage();
    assert_eq!(usage.overflow_decisions, 0);
    assert_eq!(flood.admitted, flood_keys());
    assert!(flood.most_keys < MAX_KEYS / 10, "{}", flood.most_keys);
}
