//! The time that Redis spends on a decision, beside a script that can do with nothing less.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use fred::{clients::Client, prelude::Value};
use tollgate::{Hold, Quota, RateLimiter, algorithm::*, store::RedisStore};
use tollgate_algorithms::every_algorithm;
use tollgate_benches::Names;
use tollgate_redis_tests::Server;

use crate::measure::{
    self, Case, TASKS, Turn, all, alternate, at_most, decisions, key, load, script,
};

/// Calls of each task in a turn.
const TIMES: u32 = 60;
const ROUNDS: u32 = 20;

/// Reads the time and a state, and writes one that is as long as a bucket's.
const FLOOR: &str = "local time = redis.call('TIME')
local state = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return state";

/// What is compared, in pairs: a lavish quota, of which all is admitted, and a mean one, of which
/// nothing is.
struct Cases<'a> {
    client: &'a Client,
    cases: Vec<Case>,
    wanted: Vec<f64>,
}

impl Cases<'_> {
    fn pair<A: Scripted>(
        &mut self,
        name: &str,
        wanted: f64,
        algorithm: impl Fn(Quota, Duration) -> A,
    ) {
        let lavish = algorithm(Quota::per_minute(1_000_000_000), Duration::from_micros(1));
        let mean = algorithm(Quota::per_day(1), Duration::from_secs(86_400));
        let store =
            |kind| measure::store(self.client, &format!("{kind}:{}", self.cases.len())).build();
        let (admitting, refusing) = (store("admitted"), store("refused"));
        let turn = decisions(lavish, admitting, TASKS, (TIMES, true));
        self.cases.push(Case::new(name, turn));
        let turn = after(1, mean, refusing, (TIMES, false));
        self.cases.push(Case::new(name, turn));
        self.wanted.push(wanted);
    }
}

/// A turn, before the first of which each key is charged this cost: that one warms up, and does not
/// count.
fn after<A: Scripted>(
    cost: u32,
    algorithm: A,
    store: RedisStore,
    (times, admitted): (u32, bool),
) -> Turn {
    let first = RateLimiter::new(algorithm.clone(), store.clone());
    let turn = Rc::new(decisions(algorithm, store, TASKS, (times, admitted)));
    let is_first = Cell::new(true);
    Box::new(move || {
        let (first, turn, is_first) = (first.clone(), Rc::clone(&turn), is_first.replace(false));
        Box::pin(async move {
            if is_first {
                // Twice: what waits for its turn is refused when one is waiting already.
                for key in (0..TASKS).chain(0..TASKS) {
                    first.check_cost(&key, cost).await.expect("a decision");
                }
            }
            turn().await;
        })
    })
}

/// A turn that holds, and one that settles what it has held: with nothing, all or more. What holds
/// places gives them back then.
fn holds_and_settlements<A: Scripted>(client: &Client, prefix: &str, rule: A) -> [Turn; 2] {
    let limiter = RateLimiter::new(rule, measure::store(client, prefix).build());
    let held: Arc<Mutex<Vec<Hold>>> = Arc::default();
    let to_settle = Arc::clone(&held);
    let hold: Turn = Box::new(move || {
        let (limiter, held) = (limiter.clone(), Arc::clone(&held));
        Box::pin(all(move |task| {
            let (limiter, held) = (limiter.clone(), Arc::clone(&held));
            async move {
                for _ in 0..TIMES {
                    let hold = limiter.hold(&task, 1).await.expect("a decision");
                    let hold = hold.expect("as much as anyone wants");
                    held.lock().expect("no panic").push(hold);
                }
            }
        }))
    });
    let settle: Turn = Box::new(move || {
        let held = Arc::clone(&to_settle);
        Box::pin(all(move |task| {
            let held = Arc::clone(&held);
            let next = move || held.lock().expect("no panic").pop();
            async move {
                while let Some(hold) = next() {
                    hold.settle(task as u32 % 3).await.expect("a settlement");
                }
            }
        }))
    });
    [hold, settle]
}

/// A turn of holds that are refused: one of each key was admitted before, and lasts.
fn refused_holds<A: Scripted>(client: &Client, prefix: &str, rule: A) -> Turn {
    let limiter = RateLimiter::new(rule, measure::store(client, prefix).build());
    let lasting: Arc<Mutex<Vec<Hold>>> = Arc::default();
    Box::new(move || {
        let (limiter, lasting) = (limiter.clone(), Arc::clone(&lasting));
        Box::pin(all(move |task| {
            let (limiter, lasting) = (limiter.clone(), Arc::clone(&lasting));
            async move {
                for _ in 0..TIMES {
                    // The first turn warms up, and does not count.
                    if let Ok(hold) = limiter.hold(&task, 1).await.expect("a decision") {
                        lasting.lock().expect("no panic").push(hold);
                    }
                }
                let held = lasting.lock().expect("no panic").len();
                assert!(held <= TASKS as usize, "{held} held");
            }
        }))
    })
}

/// What a decision may cost at most. That of a log is told beside a sorted set.
fn wanted(algorithm: &str) -> f64 {
    match algorithm {
        "SlidingLog" | "sliding log per request" => f64::NAN,
        "FixedWindow"
        | "window from first request"
        | "MinInterval"
        | "SlidingWindow"
        | "SlidingBuckets"
        | "strict buckets" => 2.0,
        _ => 1.65,
    }
}

pub(crate) async fn compare(server: &Server, client: &Client) {
    let mut all = Cases {
        client,
        cases: Vec::new(),
        wanted: Vec::new(),
    };
    let floor = load(client, FLOOR).await;
    let state = Value::Bytes(bytes::Bytes::from_static(&[7; 33]));
    let floor = script(client, floor, (TASKS, TIMES), move |task| {
        vec![Value::from(1), key("floor", task), state.clone()]
    });
    let floor = Case::new("floor", floor);
    let mut names = Names::default();
    macro_rules! pair_of_each {
        (
            ($quota:ident, $burst:ident, $precision:ident, $interval:ident)
            $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+
        ) => {
            $({
                let algorithm = |$quota: Quota, $interval: Duration| {
                    let ($burst, $precision) = ($quota.units(), $quota.period() / 60);
                    let _ = ($burst, $precision, $interval);
                    $algorithm
                };
                let name = names.name_of(&algorithm(Quota::per_day(1), Duration::from_secs(1)), $name);
                all.pair(name, wanted(name), algorithm);
            })+
        };
    }
    every_algorithm!(pair_of_each, quota, burst, precision, interval);
    // Where units are owed, a charge moves the expiry when that is no longer late enough: a
    // sixty-fourth and a second.
    let owing = |units| TokenBucket::new(Quota::per_day(units));
    for (name, owed) in [("TokenBucket, a few owed", 1), ("  thousands owed", 10_000)] {
        let prefix = format!("owed:{owed}");
        let store = || measure::store(client, &prefix).build();
        let turn = after(owed, owing(1_000_000), store(), (TIMES, true));
        all.cases.push(Case::new(name, turn));
        let turn = after(1, owing(1), store(), (TIMES, false));
        all.cases.push(Case::new("", turn));
        all.wanted.push(1.65);
    }
    all.pair("a tuple of three", 2.6, |quota, interval| {
        (
            TokenBucket::new(quota),
            FixedWindow::new(quota),
            MinInterval::new(interval),
        )
    });
    // What is held and what is refused beside it; it is settled when all others have had their
    // turns.
    let tokens = |quota| TokenBucket::new(quota).settled();
    let lavish = tokens(Quota::per_minute(1_000_000_000));
    // Nothing is renewed meanwhile.
    let places = |n| InFlight::new(n).held_at_most(Duration::from_secs(3_600));
    let mut ends = Vec::new();
    for (name, [hold, end], refused) in [
        (
            ["Held: TokenBucket", "  settled"],
            holds_and_settlements(client, "held", lavish),
            refused_holds(client, "refused:held", tokens(Quota::per_day(1))),
        ),
        (
            ["Held: InFlight", "  given back"],
            holds_and_settlements(client, "place", places(1_000_000)),
            refused_holds(client, "refused:place", places(1)),
        ),
    ] {
        all.cases.push(Case::new(name[0], hold));
        all.cases.push(Case::new("", refused));
        all.wanted.push(2.0);
        ends.push(Case::new(name[1], end));
    }
    all.cases.extend(ends);
    all.cases.push(floor);
    alternate(server, &mut all.cases, ROUNDS).await;

    let floor = all.cases.pop().expect("the floor").best;
    let ends = all.cases.split_off(all.cases.len() - 2);
    println!("Redis's time for a decision, as a multiple of a script that calls TIME, GET and SET");
    println!(
        "({:.2} µs; {TASKS} tasks on one connection), and the commands that the script calls.\n",
        floor.micros
    );
    println!(
        "{:<26}  admitted          commands  refused            commands  to admitted",
        ""
    );
    let pairs = all.cases.len() / 2;
    for (at, (pair, wanted)) in all.cases.chunks(2).zip(all.wanted).enumerate() {
        let [admitted, refused] = [0, 1].map(|index: usize| pair[index].best);
        println!(
            "{:<26}  {}  {:>8.2}  {}  {:>8.2}  {}",
            pair[0].name,
            at_most(admitted.micros / floor.micros, wanted),
            admitted.commands,
            at_most(refused.micros / floor.micros, wanted),
            refused.commands,
            at_most(refused.micros / admitted.micros, 1.0),
        );
        // The last pairs are held: what ends them stands below them.
        if let Some(end) = (at + ends.len()).checked_sub(pairs) {
            println!(
                "{:<26}  {}  {:>8.2}",
                ends[end].name,
                at_most(ends[end].best.micros / floor.micros, 2.0),
                ends[end].best.commands,
            );
        }
    }
}
