//! No call about a log costs what its entries cost: neither a look at it, nor a newcomer to a full
//! store who has to start from what all newcomers owe together.

use std::time::Duration;

#[path = "support/counting.rs"]
mod counting;
#[path = "support/local.rs"]
mod local;
#[path = "support/ready.rs"]
mod ready;

use counting::{ASKED_FOR, HELD};
use fastrand::Rng;
use local::{START, store};
use ready::ready;
use tollgate::{
    EachOf, Quota, RateLimiter, Timestamp,
    algorithm::{KeyLimit, SlidingBuckets, SlidingLog, TokenBucket},
    clock::ManualClock,
    key::Key,
    store::{LocalStore, Store, local::LocalBuckets},
};

const MICRO: Duration = Duration::from_micros(1);
const MINUTE: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;
/// A decision that names two policies is a list of them.
const A_FEW_BYTES: usize = 1_000;

fn charged<A, K>(
    limiter: &RateLimiter<A, LocalStore<A, K, ManualClock>>,
    key: &K,
    cost: u32,
) -> bool
where
    A: LocalBuckets<K>,
    K: Key,
    LocalStore<A, K, ManualClock>: Store<A, K>,
{
    ready(limiter.check_cost(key, cost)).unwrap().is_admitted()
}

/// How many bytes it asks for.
fn bytes_of<T>(run: impl FnOnce() -> T) -> usize {
    let before = ASKED_FOR.get();
    let _kept = run();
    ASKED_FOR.get() - before
}

/// One newcomer after the other, a microsecond apart, to a store that has room for none of them:
/// they share a log, which becomes as long as they are many.
#[test]
fn newcomers_without_a_place_copy_nothing_of_the_log_that_they_share() {
    const NEWCOMERS: u64 = 100_000;
    fn run<A, K>(algorithm: A, key: impl Fn(u64) -> K)
    where
        A: LocalBuckets<K>,
        K: Key,
        LocalStore<A, K, ManualClock>: Store<A, K>,
    {
        let (store, clock) = store(1);
        let limiter = RateLimiter::new(algorithm, store.clone());
        assert!(charged(&limiter, &key(0), 1));
        let before = ASKED_FOR.get();
        for newcomer in 1..=NEWCOMERS {
            clock.advance(MICRO);
            assert!(charged(&limiter, &key(newcomer), 1));
            let bytes = ASKED_FOR.get() - before;
            // Each of two logs grows to two mebibytes, by halves; and a decision about two keys is
            // a list of two.
            let allowed = 10 * MIB + A_FEW_BYTES * usize::try_from(newcomer).unwrap();
            assert!(bytes <= allowed, "{bytes} bytes for {newcomer} newcomers");
        }
        let decisions = store.usage().overflow_decisions;
        assert!(decisions >= NEWCOMERS, "{decisions}");
        // Nor does one who is refused.
        let refused = bytes_of(|| assert!(!charged(&limiter, &key(u64::MAX), u32::MAX)));
        assert!(refused <= A_FEW_BYTES, "{refused} bytes");
    }
    let log = SlidingLog::new(Quota::per_day(1_000_000));
    run(log.clone(), |newcomer| newcomer);
    run(
        (log.clone(), TokenBucket::new(Quota::per_day(1_000_000))),
        |newcomer| newcomer,
    );
    run(EachOf((log.clone(), log)), |newcomer| {
        EachOf((Some(newcomer), Some(newcomer)))
    });
}

/// So many entries are in the log that newcomers share before there is room for them.
const ENTRIES: u64 = 10_000;

#[test]
fn newcomers_who_get_a_place_keep_one_entry_of_what_they_shared() {
    const KEYS: u64 = 2_000;
    fn run<A, K>(algorithm: A, key: impl Fn(u64) -> K)
    where
        A: LocalBuckets<K>,
        K: Key,
        LocalStore<A, K, ManualClock>: Store<A, K>,
    {
        let (store, clock) = store(usize::try_from(KEYS).unwrap());
        let limiter = RateLimiter::new(algorithm, store.clone());
        for known in 0..KEYS {
            assert!(charged(&limiter, &key(known), 1));
        }
        clock.advance(59 * MINUTE);
        for newcomer in 0..ENTRIES {
            clock.advance(MICRO);
            assert!(charged(&limiter, &key(KEYS + newcomer), 1));
        }
        // Those who came first are idle now, and leave.
        clock.advance(MINUTE);
        let (held, decisions) = (HELD.get(), store.usage().overflow_decisions);
        for newcomer in 0..KEYS * 9 / 10 {
            assert!(charged(&limiter, &key(1_000_000 + newcomer), 1));
        }
        assert_eq!(
            store.usage().overflow_decisions,
            decisions,
            "all had a place"
        );
        let bytes = HELD.get().saturating_sub(held);
        assert!(bytes <= MIB, "{bytes} bytes");

        // What was shared is owed, all of it, and until the last unit of it is an hour old.
        let one = key(1_000_000);
        let rest = u32::try_from(ENTRIES - 1).unwrap();
        assert!(!charged(&limiter, &one, rest + 1));
        assert!(charged(&limiter, &one, rest));
        clock.advance(59 * MINUTE - MICRO);
        assert!(!charged(&limiter, &one, 1));
        clock.advance(MICRO);
        assert!(charged(&limiter, &one, u32::try_from(ENTRIES).unwrap()));
        assert!(!charged(&limiter, &one, 1));
    }
    let log = SlidingLog::new(Quota::per_hour(2 * ENTRIES));
    run(log.clone(), |newcomer| newcomer);
    run(EachOf((log.clone(), log)), |newcomer| {
        EachOf((Some(newcomer), Some(newcomer)))
    });
}

#[test]
fn a_look_at_a_log_of_a_million_entries_copies_nothing_of_it() {
    const MILLION: u64 = 1_000_000;
    fn run<A, K>(algorithm: A, key: impl Fn(u64) -> K)
    where
        A: LocalBuckets<K>,
        K: Key,
        LocalStore<A, K, ManualClock>: Store<A, K>,
    {
        let (store, clock) = store(1);
        let limiter = RateLimiter::new(algorithm, store);
        let peeks = |key: &K, remaining: u64| {
            let bytes = bytes_of(|| {
                let seen = ready(limiter.peek(key)).unwrap();
                assert_eq!(seen.remaining(), remaining);
            });
            assert!(bytes <= A_FEW_BYTES, "{bytes} bytes");
        };
        for _ in 0..MILLION {
            clock.advance(MICRO);
            assert!(charged(&limiter, &key(0), 1));
        }
        peeks(&key(0), MILLION);
        // One without an entry, before there is anything that newcomers share and after.
        peeks(&key(1), 2 * MILLION);
        for _ in 0..100_000 {
            clock.advance(MICRO);
            assert!(charged(&limiter, &key(1), 1));
        }
        peeks(&key(1), 2 * MILLION - 100_000);
        peeks(&key(2), 2 * MILLION - 100_000);
        peeks(&key(0), MILLION);
    }
    let log = SlidingLog::new(Quota::per_day(2 * MILLION));
    run(log.clone(), |number| number);
    run(EachOf((log.clone(), log)), |number| {
        EachOf((Some(number), Some(number)))
    });
}

/// What a newcomer is let through that starts from what `shared` owes, a copy of `shared` lets
/// through too; and at first they have the same room.
#[test]
fn what_a_newcomer_starts_from_is_never_looser_than_a_copy() {
    fn run<A: KeyLimit>(algorithm: A) {
        let mut random = Rng::with_seed(1);
        let mut next = |limit| random.u64(..limit);
        let (mut admitted, mut later) = (0, 0);
        for _ in 0..2_000 {
            let mut micros = START.as_micros();
            let mut shared = algorithm.fresh(START);
            for _ in 0..next(30) {
                micros += next(300);
                let cost = u32::try_from(next(4)).unwrap();
                algorithm.step(&mut shared, cost, Timestamp::from_micros(micros));
            }
            // The clock may have stepped back meanwhile.
            let mut now = Timestamp::from_micros(micros + next(1_500) - next(300));
            let (mut heir, mut copy) = (algorithm.inherit(&shared, now), shared.clone());
            for cost in 0..=UNITS {
                let of_both = [&heir, &copy].map(|state| algorithm.judge(state, cost, now));
                assert_eq!(of_both[0], of_both[1], "{cost}");
            }
            for _ in 0..30 {
                let cost = 1 + u32::try_from(next(3)).unwrap();
                let (admits, _) = algorithm.step(&mut heir, cost, now);
                if admits {
                    let (copy_admits, _) = algorithm.step(&mut copy, cost, now);
                    assert!(copy_admits, "{cost} more than a copy");
                    admitted += 1;
                } else {
                    later += usize::from(algorithm.judge(&copy, cost, now));
                }
                now = now.saturating_add(Duration::from_micros(next(400)));
            }
        }
        println!("{admitted} admitted, {later} later than a copy does");
        assert!(admitted > 1_000);
    }
    const UNITS: u32 = 12;
    let quota = Quota::new(UNITS.into(), Duration::from_millis(1));
    let tenth = Duration::from_micros(100);
    run(SlidingLog::new(quota));
    run(SlidingBuckets::new(quota, tenth));
    run(SlidingBuckets::new(quota, tenth).strict());
    run(TokenBucket::new(quota));
    run((SlidingLog::new(quota), TokenBucket::new(quota)));
}
