//! One keyed decision in memory, against governor's `check_key`.
//!
//! `cargo bench -p tollgate-benches --bench decision` prints a table of ratios, see `turns`.
//! `TOLLGATE_BENCH_QUICK=1` makes few turns, `TOLLGATE_BENCH_ONLY="1000 Token"` those of the rows
//! that begin so.

use std::{
    future::Future,
    hint::black_box,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use governor::DefaultKeyedRateLimiter;
use tollgate::{
    Decision, Quota, RateLimiter,
    algorithm::*,
    store::{Answer, Ask, EitherStore, LocalStore, Store},
};
use tollgate_algorithms::every_algorithm;
use tollgate_benches::{
    Names,
    turns::{self, SHORT, Turn, Turns, turn_of},
};

#[path = "../../tests/support/mod.rs"]
mod support;
use support::Remote;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{TEXT}");
    for ((keys, case, name), [governor, check, kept, bare]) in Rows::in_passes(all_rows) {
        println!(
            "| {keys} | {case:?} | {name} | {:.1} | {} | {} | {} |",
            governor.median(),
            check.ratio_to(&governor),
            kept.ratio_to(&governor),
            bare.ratio_to(&governor)
        );
    }
}

/// What is done with each algorithm.
trait ForEachAlgorithm {
    fn run<A: KeyLimit>(&mut self, name: &'static str, algorithm: &A);
}

/// Runs it with every algorithm of the list, in the given case.
fn for_each_algorithm(case: Case, run: &mut impl ForEachAlgorithm) {
    let mut names = Names::default();
    macro_rules! run_each {
        (
            ($quota:ident, $burst:ident, $precision:ident, $interval:ident)
            $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+
        ) => {
            $({
                let $quota = case.quota_of($name);
                let ($burst, $precision) = ($quota.units(), $quota.period() / 10);
                let $interval = case.interval();
                let _ = ($burst, $precision, $interval);
                let algorithm = $algorithm;
                run.run(names.name_of(&algorithm, $name), &algorithm);
            })+
        };
    }
    every_algorithm!(run_each, quota, burst, precision, interval);
}

/// What is decided, about so many keys.
#[derive(Clone, Copy)]
struct Case {
    answer: Answered,
    keys: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    Admitted,
    Refused,
}

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

impl Case {
    fn all(keys: u32) -> [Self; 2] {
        [Answered::Admitted, Answered::Refused].map(|answer| Self { answer, keys })
    }

    /// So large that it is never used up, and so slow that no key becomes idle between two visits.
    fn admitting_units(self) -> u32 {
        match self.keys {
            1 => 2_000_000,
            1_000_000 => 1_000,
            _ => 1_000_000,
        }
    }

    /// Whether its keys take long to build, and more room than the caches have.
    fn is_large(self) -> bool {
        self.keys > 100_000
    }

    /// In nanoseconds: not so long that the units are used up, and longer where the caches hold
    /// what another one was asked for.
    fn length_of_a_turn(self) -> f64 {
        if self.is_large() {
            10.0 * SHORT
        } else {
            0.3 * SHORT
        }
    }

    fn quota(self) -> Quota {
        match self.answer {
            Answered::Admitted => Quota::per_hour(self.admitting_units().into()),
            Answered::Refused => Quota::per_day(1),
        }
    }

    /// The quota of the algorithm of this name. A log keeps what it admitted for a period: a short
    /// one where there are few keys, so that it keeps a few entries for each.
    fn quota_of(self, name: &str) -> Quota {
        match self.answer {
            Answered::Admitted if name.starts_with("sliding log") && self.keys < 1_000_000 => {
                Quota::new(1_000_000, Duration::from_millis(1))
            }
            _ => self.quota(),
        }
    }

    /// The shortest there is. A single key in a tight loop is still refused most of the time.
    fn interval(self) -> Duration {
        match self.answer {
            Answered::Admitted => Duration::from_micros(1),
            Answered::Refused => DAY,
        }
    }

    fn governor(self) -> DefaultKeyedRateLimiter<IpAddr> {
        let most = NonZeroU32::new(self.admitting_units()).expect("not zero");
        let quota = match self.answer {
            Answered::Admitted => {
                governor::Quota::with_period(HOUR / most.get()).map(|quota| quota.allow_burst(most))
            }
            Answered::Refused => governor::Quota::with_period(DAY),
        };
        governor::RateLimiter::keyed(quota.expect("not zero"))
    }
}

/// Keys in an order that no prefetcher knows from their hashes.
fn ip_keys(count: u32) -> Arc<[IpAddr]> {
    let scattered = |n: u32| n.wrapping_mul(0x9E37_79B1);
    (0..count)
        .map(|n| IpAddr::V4(Ipv4Addr::from(scattered(n))))
        .collect()
}

/// Polls where it is called, as `.await` does.
#[inline(always)]
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a store in memory is never pending"),
    }
}

#[inline(always)]
fn check<A: KeyLimit, S: Store<A, IpAddr>>(limiter: &RateLimiter<A, S>, key: &IpAddr) -> Decision {
    ready(limiter.check(key)).expect("a store in memory does not fail")
}

/// Asks for nothing else than governor does.
#[inline(always)]
fn asked<A: KeyLimit, S: Store<A, IpAddr>>(limiter: &RateLimiter<A, S>, key: &IpAddr) -> bool {
    check(limiter, key).is_admitted()
}

/// Keeps the whole `Decision`.
#[inline(always)]
fn kept<A: KeyLimit, S: Store<A, IpAddr>>(limiter: &RateLimiter<A, S>, key: &IpAddr) -> bool {
    black_box(&check(limiter, key)).is_admitted()
}

/// What the layer does for an admitted request without header fields.
#[inline]
fn bare<A: KeyLimit, S: Store<A, IpAddr>>(store: &S, algorithm: &A, key: &IpAddr) -> bool {
    match store.decide(algorithm, key, Ask::Charge(1)) {
        Answer::Now(Ok(verdict)) => verdict.admitted,
        _ => unreachable!("a store in memory answers now"),
    }
}

/// Makes decisions about one key after the other.
fn turn<'a>(
    case: Case,
    keys: &'a [IpAddr],
    mut decide: impl FnMut(&IpAddr) -> bool + 'a,
) -> Turn<'a> {
    // Twice: what waits for its turn is refused when one waits already.
    for key in keys.iter().chain(keys) {
        decide(key);
    }
    let mut next = 0;
    turn_of(case.length_of_a_turn(), 100_000, move |count| {
        let start = Instant::now();
        for _ in 0..count {
            black_box(decide(&keys[next]));
            next += 1;
            if next == keys.len() {
                next = 0;
            }
        }
        let nanos = start.elapsed().as_nanos() as f64 / count as f64;
        assert_eq!(decide(&keys[next]), case.answer == Answered::Admitted);
        nanos
    })
}

const TEXT: &str = "\
One keyed decision, as a multiple of governor's `check_key`. `check` is asked whether it admits, \
as governor is; of *kept* the whole `Decision` is written down; `bare` is what the layer does \
without header fields. An admitted key of `MinInterval` is always as good as fresh, so that it \
leaves the store and comes back as a new one. One key alone is never admitted twice within its microsecond, so that there \
is no such row.

| keys | case | algorithm | governor ns | check | kept | bare |
|---|---|---|---|---|---|---|";

type Rows = turns::Rows<(String, Answered, &'static str), 4>;

fn all_rows(rows: &mut Rows) {
    for count in [1, 1_000, 1_000_000] {
        for case in Case::all(count) {
            let keys = ip_keys(count);
            let keys = &keys;
            for_each_algorithm(case, &mut AddRow { rows, case, keys });
        }
    }
    for count in [1, 1_000, 1_000_000] {
        for case in Case::all(count) {
            let (keys, name) = (ip_keys(count), "TokenBucket, either store");
            let algorithm = TokenBucket::new(case.quota());
            row(rows, case, name, &keys, &algorithm, either_store);
        }
    }
}

struct AddRow<'a> {
    rows: &'a mut Rows,
    case: Case,
    keys: &'a [IpAddr],
}

impl ForEachAlgorithm for AddRow<'_> {
    fn run<A: KeyLimit>(&mut self, name: &'static str, algorithm: &A) {
        let name = match name {
            "MinInterval" if self.case.answer == Answered::Admitted => {
                "MinInterval, keys that leave"
            }
            _ => name,
        };
        if self.keys.len() > 1 || name != "MinInterval, keys that leave" {
            let (case, keys) = (self.case, self.keys);
            let rows = &mut *self.rows;
            row(rows, case, name, keys, algorithm, LocalStore::new);
        }
    }
}

/// Whether this row is to be measured: with `TOLLGATE_BENCH_ONLY="1000 Token"` only those are that
/// begin so, by their number of keys and their algorithm.
fn is_asked_for(case: Case, name: &str) -> bool {
    let only = std::env::var("TOLLGATE_BENCH_ONLY").unwrap_or_default();
    format!("{} {name}", case.keys).starts_with(&only)
}

/// A store that is one in memory, in a program where it could be another.
fn either_store<A: KeyLimit>() -> EitherStore<LocalStore<A, IpAddr>, Remote<LocalStore<A, IpAddr>>>
{
    black_box(EitherStore::Left(LocalStore::new()))
}

fn row<A: KeyLimit, S: Store<A, IpAddr>>(
    rows: &mut Rows,
    case: Case,
    name: &'static str,
    keys: &[IpAddr],
    algorithm: &A,
    new_store: impl Fn() -> S,
) {
    if !is_asked_for(case, name) {
        return;
    }
    let measure = |turns: Turns| {
        let governor = case.governor();
        let store = || {
            let store = new_store();
            bare(&store, algorithm, &keys[0]);
            store
        };
        let limiter = || RateLimiter::new(algorithm.clone(), store());
        let (asked_one, kept_one, store) = (limiter(), limiter(), store());
        turns.take([
            turn(case, keys, |key| governor.check_key(key).is_ok()),
            turn(case, keys, |key| asked(&asked_one, key)),
            turn(case, keys, |key| kept(&kept_one, key)),
            turn(case, keys, |key| bare(&store, algorithm, key)),
        ])
    };
    let row = (format!("{} IpAddr", case.keys), case.answer, name);
    match case.is_large() {
        true => rows.add_once(row, || measure(Turns::new(15, 5))),
        false => rows.add(row, || measure(Turns::new(5, 9))),
    }
}
