//! One decision in memory, through tollgate and through each peer.

use std::{
    hash::Hash,
    hint::black_box,
    net::{IpAddr, Ipv6Addr},
    sync::Barrier,
    thread,
    time::Instant,
};

use skp_ratelimit::{FixedWindow as SkpWindow, SlidingLog as SkpLog, SlidingWindow as SkpSliding};
use tollgate::algorithm::{Algorithm, FixedWindow, SlidingBuckets, SlidingLog, SlidingWindow};
use tollgate_peers::{
    keys::{NumberedKey, Order, keys, sequence},
    limit::{Answer, Limit, WINDOW},
    own::{Bare, Check, token_bucket},
    peers::{
        AxumGcra, DirectGovernor, Governor, LeakyBucket, Limitador, Limiter, Ratelimit,
        SkpRatelimit, ThrottleKit, ThrottleKitWindow, Throttlecrab, Trypema,
    },
    rounds::{Turn, take_turns, turn_of},
    table,
};

/// The most decisions of each thread in a turn.
const DECISIONS: usize = 100_000;

const TEXT: &str = "Nanoseconds of one thread for one decision, and tollgate's time as a multiple of the peer's: the \
    ratio of medians (the range of the rounds' ratios). Below 1 tollgate is the faster one. `check` makes a whole \
    `Decision`, with what remains and when it comes back; *layer* is what the layer does for an admitted request \
    without header fields, and is the nearer to a peer that answers yes or no.";

fn main() {
    table::section("One decision in memory", TEXT);
    addresses();
    strings();
    one_bucket();
    same_algorithm();
}

/// What the decisions of a row are about.
#[derive(Clone, Copy)]
struct Case {
    keys: u32,
    order: Order,
    answer: Answer,
    threads: usize,
}

const fn case(keys: u32, order: Order, answer: Answer, threads: usize) -> Case {
    Case {
        keys,
        order,
        answer,
        threads,
    }
}

use Answer::{Admitted, Refused};
use Order::{Uniform, Zipf};

const COMMON: [Case; 4] = [
    case(1_000, Uniform, Admitted, 1),
    case(1_000, Uniform, Refused, 1),
    case(1_000_000, Uniform, Admitted, 1),
    case(1_000_000, Zipf, Admitted, 1),
];

const CONTENDED: [Case; 2] = [
    case(1, Uniform, Admitted, 2),
    case(1_000, Uniform, Admitted, 2),
];

fn addresses() {
    table::part(
        "Addresses",
        "tollgate's `TokenBucket` beside limiters with keys of any type.",
    );
    head();
    let rest = [
        case(1, Uniform, Admitted, 1),
        case(1, Uniform, Refused, 1),
        case(1, Uniform, Refused, 2),
        case(1_000_000, Uniform, Refused, 1),
        case(1_000_000, Zipf, Admitted, 2),
    ];
    for case in COMMON.iter().chain(&CONTENDED).chain(&rest) {
        token_bucket_row::<IpAddr, _>("governor", *case, Governor::new);
        token_bucket_row::<IpAddr, _>("axum_gcra", *case, AxumGcra::new);
    }
    for case in [COMMON[0], COMMON[2]] {
        token_bucket_row::<Ipv6Addr, _>("governor", case, Governor::new);
        token_bucket_row::<Ipv6Addr, _>("axum_gcra", case, AxumGcra::new);
    }
}

fn strings() {
    table::part(
        "Strings",
        "tollgate's `TokenBucket` beside limiters with keys of text, and those with keys of any type.",
    );
    head();
    for case in COMMON.iter().chain(&CONTENDED) {
        token_bucket_row::<String, _>("governor", *case, Governor::new);
        token_bucket_row::<String, _>("throttle-kit", *case, ThrottleKit::new);
        token_bucket_row::<String, _>("throttlecrab", *case, Throttlecrab::new);
        token_bucket_row::<String, _>("skp-ratelimit", *case, SkpRatelimit::new);
        token_bucket_row::<String, _>("trypema", *case, Trypema::new);
        token_bucket_row::<String, _>("limitador", *case, Limitador::new);
    }
}

fn one_bucket() {
    let text = "Crates without keys, and governor's limiter without them. tollgate looks its one bucket up as any other.";
    table::part("One bucket", text);
    head();
    for (answer, threads) in [(Admitted, 1), (Refused, 1), (Admitted, 2)] {
        let case = case(1, Uniform, answer, threads);
        token_bucket_row::<(), _>("governor, direct", case, DirectGovernor::new);
        token_bucket_row::<(), _>("ratelimit", case, Ratelimit::new);
        token_bucket_row::<(), _>("leaky-bucket", case, LeakyBucket::new);
    }
}

fn same_algorithm() {
    let text = "The same rule on both sides, where a peer has one of tollgate's other algorithms: strings, one thread.";
    table::part("Other algorithms", text);
    head();
    for answer in [Admitted, Refused] {
        let case = case(1_000, Uniform, answer, 1);
        let limit = Limit::that_is(answer, case.keys as usize);
        let quota = tollgate::Quota::new(limit.burst.into(), WINDOW);
        let skp = skp_ratelimit::Quota::new(limit.burst.into(), WINDOW);
        let window = FixedWindow::new(quota);
        row::<String, _, _>("limitador", case, &window, || Limitador::new(limit));
        row::<String, _, _>("skp-ratelimit `FixedWindow`", case, &window, || {
            SkpRatelimit::by(SkpWindow::new(), skp.clone())
        });
        row::<String, _, _>(
            "skp-ratelimit `SlidingWindow`",
            case,
            &SlidingWindow::new(quota),
            || SkpRatelimit::by(SkpSliding::new(), skp.clone()),
        );
        let buckets = SlidingBuckets::new(quota, WINDOW / 1_000);
        row::<String, _, _>("trypema", case, &buckets, || Trypema::new(limit));
    }
    // A log of a hundred entries, that is full: it keeps them for an hour.
    let case = case(1_000, Uniform, Refused, 1);
    let limit = Limit {
        interval: WINDOW / 100,
        burst: 100,
    };
    let log = SlidingLog::new(tollgate::Quota::new(100, WINDOW));
    let skp = skp_ratelimit::Quota::new(100, WINDOW);
    row::<String, _, _>("throttle-kit `SlidingWindowBackend`", case, &log, || {
        ThrottleKitWindow::new(limit)
    });
    row::<String, _, _>("skp-ratelimit `SlidingLog`", case, &log, || {
        SkpRatelimit::by(SkpLog::new(), skp.clone())
    });
}

fn head() {
    table::head(&[
        "peer", "its ns", "keys", "order", "answer", "threads", "`check`", "layer",
    ]);
}

/// The key of those who have one bucket is `()`.
trait RowKey: Clone + Hash + Eq + Send + Sync + 'static {
    const NAME: &'static str;

    fn all(count: u32) -> Vec<Self>;
}

impl RowKey for () {
    const NAME: &'static str = "none";

    fn all(_count: u32) -> Vec<()> {
        vec![()]
    }
}

macro_rules! numbered {
    ($($key:ty),+) => {
        $(impl RowKey for $key {
            const NAME: &'static str = <$key as NumberedKey>::NAME;

            fn all(count: u32) -> Vec<Self> {
                keys(count)
            }
        })+
    };
}

numbered!(IpAddr, Ipv6Addr, String);

fn token_bucket_row<K: RowKey, P: Limiter<K>>(name: &str, case: Case, peer: impl Fn(Limit) -> P) {
    let limit = Limit::that_is(case.answer, case.keys as usize);
    row::<K, _, _>(name, case, &token_bucket(limit), || peer(limit));
}

fn row<K: RowKey, P: Limiter<K>, A: Algorithm>(
    name: &str,
    case: Case,
    algorithm: &A,
    peer: impl Fn() -> P,
) {
    let keys = K::all(case.keys);
    let sequence = sequence(&keys, case.order);
    let peer = peer();
    let check = Check::new(algorithm.clone());
    let bare = Bare::new(algorithm.clone());
    exhaust(case, &keys, [&peer, &check, &bare]);
    let [peer, check, bare] = take_turns([
        turn(&peer, &sequence, case.threads),
        turn(&check, &sequence, case.threads),
        turn(&bare, &sequence, case.threads),
    ]);
    table::row(&[
        &name,
        &format!("{:.0}", peer.median()),
        &format!("{} {}", case.keys, K::NAME),
        &case.order.name(),
        &format!("{:?}", case.answer).to_lowercase(),
        &case.threads,
        &check.ratio_to(&peer),
        &bare.ratio_to(&peer),
    ]);
}

/// Brings every key in, and to where the next answer is the one of the row.
fn exhaust<K>(case: Case, keys: &[K], limiters: [&dyn Limiter<K>; 3]) {
    for limiter in limiters {
        for key in keys {
            let most = if case.answer == Refused { 1_000 } else { 1 };
            let admitted = (0..most).take_while(|_| limiter.admits(key)).count();
            assert!(
                admitted < most || case.answer == Admitted,
                "nothing is refused"
            );
        }
    }
}

fn turn<'a, K: Sync>(limiter: &'a impl Limiter<K>, sequence: &'a [K], threads: usize) -> Turn<'a> {
    let mut next = 0;
    turn_of(DECISIONS, move |count| {
        next += count;
        if threads == 1 {
            return nanos(limiter, sequence, next, count);
        }
        let barrier = Barrier::new(threads);
        thread::scope(|scope| {
            let of_thread = |thread: usize| {
                let from = next + thread * (sequence.len() / threads);
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    nanos(limiter, sequence, from, count)
                })
            };
            let all: Vec<_> = (0..threads).map(of_thread).collect();
            let nanos = all
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            nanos.fold(0.0, f64::max)
        })
    })
}

/// Nanoseconds of a decision, for so many from this place of the sequence on.
fn nanos<K>(limiter: &impl Limiter<K>, sequence: &[K], from: usize, count: usize) -> f64 {
    let mut rest = sequence.iter().cycle();
    let from = from % sequence.len();
    if from > 0 {
        rest.nth(from - 1);
    }
    let start = Instant::now();
    for key in rest.take(count) {
        black_box(limiter.admits(key));
    }
    start.elapsed().as_nanos() as f64 / count as f64
}
