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
use tollgate::algorithm::{FixedWindow, KeyLimit, SlidingBuckets, SlidingLog, SlidingWindow};
use tollgate_peers::{
    keys::{NumberedKey, Order, keys, sequence},
    limit::{Answer, Limit, WINDOW},
    own::{Bare, Check, token_bucket},
    peers::{
        AxumGcra, DirectGovernor, Governor, LeakyBucket, Limitador, Limiter, Ratelimit,
        SkpRatelimit, ThrottleKit, ThrottleKitWindow, Throttlecrab, Trypema,
    },
    table,
    turns::{self, SHORT, Series, Turn, Turns, turn_of},
};

/// The most decisions of each thread in a turn.
const DECISIONS: usize = 100_000;

const TEXT: &str = "Nanoseconds of one thread for one decision, and tollgate's time as a multiple of the peer's. Below 1 tollgate is \
    the faster one. Everybody is asked one thing, whether the request is admitted. `check` could tell more, what remains \
    and when it comes back; *layer* is what the layer does for an admitted request without header fields.";

fn main() {
    table::section("One decision in memory", TEXT);
    part(
        "Addresses",
        "tollgate's `TokenBucket` beside limiters with keys of any type.",
        addresses,
    );
    part(
        "Strings",
        "tollgate's `TokenBucket` beside limiters with keys of text, and those with keys of any type.",
        strings,
    );
    part(
        "One bucket",
        "Crates without keys, and governor's limiter without them. tollgate looks its one bucket up as any other.",
        one_bucket,
    );
    part(
        "Other algorithms",
        "The same rule on both sides, where a peer has one of tollgate's other algorithms: strings, one thread.",
        same_algorithm,
    );
}

/// A row: the peer's name, what the keys are, and what is decided about them.
type Rows = turns::Rows<(&'static str, &'static str, Case), 3>;

fn part(title: &str, text: &str, rows: fn(&mut Rows)) {
    table::part(title, text);
    table::head(&[
        "peer", "its ns", "keys", "order", "answer", "threads", "`check`", "layer",
    ]);
    for ((name, keys, case), [peer, check, bare]) in Rows::in_passes(rows) {
        table::row(&[
            &name,
            &format!("{:.0}", peer.median()),
            &format!("{} {keys}", case.keys),
            &case.order.name(),
            &format!("{:?}", case.answer).to_lowercase(),
            &case.threads,
            &check.ratio_to(&peer),
            &bare.ratio_to(&peer),
        ]);
    }
}

/// What the decisions of a row are about.
#[derive(Clone, Copy)]
struct Case {
    keys: u32,
    order: Order,
    answer: Answer,
    threads: usize,
}

impl Case {
    /// Whether its keys take long to build, and more room than the caches have.
    fn is_large(self) -> bool {
        self.keys > 100_000
    }

    /// In nanoseconds: longer where the first decisions of a turn are not like the others.
    fn length_of_a_turn(self) -> f64 {
        match self.threads {
            // The caches hold what another one was asked for.
            _ if self.is_large() => 10.0 * SHORT,
            1 => SHORT,
            // Not all threads have begun.
            _ => 3.0 * SHORT,
        }
    }
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

fn addresses(rows: &mut Rows) {
    let rest = [
        case(1, Uniform, Admitted, 1),
        case(1, Uniform, Refused, 1),
        case(1, Uniform, Refused, 2),
        case(1_000_000, Uniform, Refused, 1),
        case(1_000_000, Zipf, Admitted, 2),
    ];
    for case in COMMON.iter().chain(&CONTENDED).chain(&rest) {
        token_bucket_row::<IpAddr, _>(rows, "governor", *case, Governor::new);
        token_bucket_row::<IpAddr, _>(rows, "axum_gcra", *case, AxumGcra::new);
    }
    for case in [COMMON[0], COMMON[2]] {
        token_bucket_row::<Ipv6Addr, _>(rows, "governor", case, Governor::new);
        token_bucket_row::<Ipv6Addr, _>(rows, "axum_gcra", case, AxumGcra::new);
    }
}

fn strings(rows: &mut Rows) {
    for case in COMMON.iter().chain(&CONTENDED) {
        token_bucket_row::<String, _>(rows, "governor", *case, Governor::new);
        token_bucket_row::<String, _>(rows, "throttle-kit", *case, ThrottleKit::new);
        token_bucket_row::<String, _>(rows, "throttlecrab", *case, Throttlecrab::new);
        token_bucket_row::<String, _>(rows, "skp-ratelimit", *case, SkpRatelimit::new);
        token_bucket_row::<String, _>(rows, "trypema", *case, Trypema::new);
        token_bucket_row::<String, _>(rows, "limitador", *case, Limitador::new);
    }
}

fn one_bucket(rows: &mut Rows) {
    for (answer, threads) in [(Admitted, 1), (Refused, 1), (Admitted, 2)] {
        let case = case(1, Uniform, answer, threads);
        token_bucket_row::<(), _>(rows, "governor, direct", case, DirectGovernor::new);
        token_bucket_row::<(), _>(rows, "ratelimit", case, Ratelimit::new);
        token_bucket_row::<(), _>(rows, "leaky-bucket", case, LeakyBucket::new);
    }
}

fn same_algorithm(rows: &mut Rows) {
    for answer in [Admitted, Refused] {
        let case = case(1_000, Uniform, answer, 1);
        let limit = Limit::that_is(answer, case.keys as usize);
        let quota = tollgate::Quota::new(limit.burst.into(), WINDOW);
        let skp = skp_ratelimit::Quota::new(limit.burst.into(), WINDOW);
        let window = FixedWindow::new(quota);
        row::<String, _, _>(rows, "limitador", case, &window, || Limitador::new(limit));
        row::<String, _, _>(rows, "skp-ratelimit `FixedWindow`", case, &window, || {
            SkpRatelimit::by(SkpWindow::new(), skp.clone())
        });
        row::<String, _, _>(
            rows,
            "skp-ratelimit `SlidingWindow`",
            case,
            &SlidingWindow::new(quota),
            || SkpRatelimit::by(SkpSliding::new(), skp.clone()),
        );
        let buckets = SlidingBuckets::new(quota, WINDOW / 1_000);
        row::<String, _, _>(rows, "trypema", case, &buckets, || Trypema::new(limit));
    }
    // A log of a hundred entries, that is full: it keeps them for an hour.
    let case = case(1_000, Uniform, Refused, 1);
    let limit = Limit {
        interval: WINDOW / 100,
        burst: 100,
    };
    let log = SlidingLog::new(tollgate::Quota::new(100, WINDOW));
    let skp = skp_ratelimit::Quota::new(100, WINDOW);
    row::<String, _, _>(
        rows,
        "throttle-kit `SlidingWindowBackend`",
        case,
        &log,
        || ThrottleKitWindow::new(limit),
    );
    row::<String, _, _>(rows, "skp-ratelimit `SlidingLog`", case, &log, || {
        SkpRatelimit::by(SkpLog::new(), skp.clone())
    });
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

fn token_bucket_row<K: RowKey, P: Limiter<K>>(
    rows: &mut Rows,
    name: &'static str,
    case: Case,
    peer: impl Fn(Limit) -> P,
) {
    let limit = Limit::that_is(case.answer, case.keys as usize);
    row::<K, _, _>(rows, name, case, &token_bucket(limit), || peer(limit));
}

fn row<K: RowKey, P: Limiter<K>, A: KeyLimit>(
    rows: &mut Rows,
    name: &'static str,
    case: Case,
    algorithm: &A,
    peer: impl Fn() -> P,
) {
    let row = (name, K::NAME, case);
    match case.is_large() {
        true => rows.add_once(row, || measure(case, algorithm, peer(), Turns::new(15, 5))),
        false => rows.add(row, || measure(case, algorithm, peer(), Turns::new(5, 9))),
    }
}

fn measure<K: RowKey, A: KeyLimit>(
    case: Case,
    algorithm: &A,
    peer: impl Limiter<K>,
    turns: Turns,
) -> [Series; 3] {
    let keys = K::all(case.keys);
    let sequence = sequence(&keys, case.order);
    let check = Check::new(algorithm.clone());
    let bare = Bare::new(algorithm.clone());
    exhaust(case, &keys, [&peer, &check, &bare]);
    turns.take([
        turn(&peer, &sequence, case),
        turn(&check, &sequence, case),
        turn(&bare, &sequence, case),
    ])
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

fn turn<'a, K: Sync>(limiter: &'a impl Limiter<K>, sequence: &'a [K], case: Case) -> Turn<'a> {
    let threads = case.threads;
    let mut next = 0;
    turn_of(case.length_of_a_turn(), DECISIONS, move |count| {
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
