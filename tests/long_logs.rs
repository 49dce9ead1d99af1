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
use local::{MINUTE, START, store};
use ready::ready;
use tollgate::{
    Decision, EachOf, Quota, RateLimiter, Timestamp,
    algorithm::{KeyLimit, SlidingBuckets, SlidingLog, TokenBucket},
    clock::ManualClock,
    key::Key,
    store::{LocalBuckets, LocalStore, Store},
};

const MICRO: Duration = Duration::from_micros(1);
const MIB: usize = 1 << 20;
/// A decision that names two policies is a list of them.
const A_FEW_BYTES: usize = 1_000;

/// A limiter of callers who have numbers: of one key each, or of two at once.
struct Limited {
    clock: ManualClock,
    /// Charges this caller, or only looks.
    ask: Box<dyn Fn(u64, Option<u32>) -> Decision>,
    overflow_decisions: Box<dyn Fn() -> u64>,
}

impl Limited {
    fn of<A, K>(algorithm: A, max_keys: u64, key: impl Fn(u64) -> K + 'static) -> Self
    where
        A: LocalBuckets<K> + 'static,
        K: Key + 'static,
        LocalStore<A, K, ManualClock>: Store<A, K>,
    {
        let (store, clock) = store(usize::try_from(max_keys).unwrap());
        let limiter = RateLimiter::new(algorithm, store.clone());
        let ask = move |caller, cost: Option<u32>| match cost {
            Some(cost) => ready(limiter.check_cost(&key(caller), cost)).unwrap(),
            None => ready(limiter.peek(&key(caller))).unwrap(),
        };
        Self {
            clock,
            ask: Box::new(ask),
            overflow_decisions: Box::new(move || store.usage().overflow_decisions),
        }
    }

    fn charged(&self, caller: u64, cost: u32) -> bool {
        (self.ask)(caller, Some(cost)).is_admitted()
    }
}

/// Of this log alone, and of two of them with a key each.
fn one_and_two(quota: Quota, max_keys: u64) -> [Limited; 2] {
    let log = SlidingLog::new(quota);
    let both = |caller| EachOf((Some(caller), Some(caller)));
    [
        Limited::of(log.clone(), max_keys, |caller| caller),
        Limited::of(EachOf((log.clone(), log)), max_keys, both),
    ]
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
    let quota = Quota::per_day(1_000_000);
    let tuple = (SlidingLog::new(quota), TokenBucket::new(quota));
    let tuple = Limited::of(tuple, 1, |caller| caller);
    for limiter in one_and_two(quota, 1).into_iter().chain([tuple]) {
        assert!(limiter.charged(0, 1));
        let before = ASKED_FOR.get();
        for newcomer in 1..=NEWCOMERS {
            limiter.clock.advance(MICRO);
            assert!(limiter.charged(newcomer, 1));
            let bytes = ASKED_FOR.get() - before;
            // Each of two logs grows to two mebibytes, by halves; and a decision about two keys is
            // a list of two.
            let allowed = 10 * MIB + A_FEW_BYTES * usize::try_from(newcomer).unwrap();
            assert!(bytes <= allowed, "{bytes} bytes for {newcomer} newcomers");
        }
        let decisions = (limiter.overflow_decisions)();
        assert!(decisions >= NEWCOMERS, "{decisions}");
        // Nor does one who is refused.
        let refused = bytes_of(|| assert!(!limiter.charged(u64::MAX, u32::MAX)));
        assert!(refused <= A_FEW_BYTES, "{refused} bytes");
    }
}

/// So many entries are in the log that newcomers share before there is room for them.
const ENTRIES: u64 = 10_000;

#[test]
fn newcomers_who_get_a_place_keep_one_entry_of_what_they_shared() {
    const KEYS: u64 = 2_000;
    for limiter in one_and_two(Quota::per_hour(2 * ENTRIES), KEYS) {
        for known in 0..KEYS {
            assert!(limiter.charged(known, 1));
        }
        limiter.clock.advance(59 * MINUTE);
        for newcomer in 0..ENTRIES {
            limiter.clock.advance(MICRO);
            assert!(limiter.charged(KEYS + newcomer, 1));
        }
        // Those who came first are idle now, and leave.
        limiter.clock.advance(MINUTE);
        let (held, decisions) = (HELD.get(), (limiter.overflow_decisions)());
        for newcomer in 0..KEYS * 9 / 10 {
            assert!(limiter.charged(1_000_000 + newcomer, 1));
        }
        assert_eq!((limiter.overflow_decisions)(), decisions, "all had a place");
        let bytes = HELD.get().saturating_sub(held);
        assert!(bytes <= MIB, "{bytes} bytes");

        // What was shared is owed, all of it, and until the last unit of it is an hour old.
        let one = 1_000_000;
        let rest = u32::try_from(ENTRIES - 1).unwrap();
        assert!(!limiter.charged(one, rest + 1));
        assert!(limiter.charged(one, rest));
        limiter.clock.advance(59 * MINUTE - MICRO);
        assert!(!limiter.charged(one, 1));
        limiter.clock.advance(MICRO);
        assert!(limiter.charged(one, u32::try_from(ENTRIES).unwrap()));
        assert!(!limiter.charged(one, 1));
    }
}

#[test]
fn a_look_at_a_log_of_a_million_entries_copies_nothing_of_it() {
    const MILLION: u64 = 1_000_000;
    for limiter in one_and_two(Quota::per_day(2 * MILLION), 1) {
        let peeks = |caller: u64, remaining: u64| {
            let bytes = bytes_of(|| assert_eq!((limiter.ask)(caller, None).remaining(), remaining));
            assert!(bytes <= A_FEW_BYTES, "{bytes} bytes");
        };
        for _ in 0..MILLION {
            limiter.clock.advance(MICRO);
            assert!(limiter.charged(0, 1));
        }
        peeks(0, MILLION);
        // One without an entry, before there is anything that newcomers share and after.
        peeks(1, 2 * MILLION);
        for _ in 0..100_000 {
            limiter.clock.advance(MICRO);
            assert!(limiter.charged(1, 1));
        }
        peeks(1, 2 * MILLION - 100_000);
        peeks(2, 2 * MILLION - 100_000);
        peeks(0, MILLION);
    }
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
