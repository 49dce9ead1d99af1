//! The time that Redis spends on a decision, beside a script that can do with nothing less.

use std::{cell::Cell, rc::Rc, time::Duration};

use fred::{clients::Client, prelude::Value};
use tollgate::{
    Quota, RateLimiter,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, MinInterval, Scripted, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
    store::RedisStore,
};
use tollgate_redis_tests::Server;

use crate::measure::{self, Case, TASKS, Turn, alternate, at_most, decisions, key, load, script};

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
                for key in 0..TASKS {
                    first.check_cost(&key, cost).await.expect("a decision");
                }
            }
            turn().await;
        })
    })
}

pub(crate) async fn compare(server: &Server, client: &Client) {
    let mut all = Cases {
        client,
        cases: Vec::new(),
        wanted: Vec::new(),
    };
    let floor = load(client, FLOOR).await;
    let state = Value::Bytes(bytes::Bytes::from_static(&[7; 33]));
    let floor = script(client, floor, TIMES, move |task| {
        vec![Value::from(1), key("floor", task), state.clone()]
    });
    let floor = Case::new("floor", floor);
    all.pair("TokenBucket", 1.35, |quota, _| TokenBucket::new(quota));
    // Where units are owed, a charge moves the expiry when that is no longer late enough: a
    // sixty-fourth and a second.
    let owing = |units| TokenBucket::new(Quota::per_day(units));
    for (name, owed) in [
        ("  a few units owed", 1),
        ("  thousands of units owed", 10_000),
    ] {
        let prefix = format!("owed:{owed}");
        let store = || measure::store(client, &prefix).build();
        let turn = after(owed, owing(1_000_000), store(), (TIMES, true));
        all.cases.push(Case::new(name, turn));
        let turn = after(1, owing(1), store(), (TIMES, false));
        all.cases.push(Case::new("", turn));
        all.wanted.push(1.35);
    }
    all.pair("Gcra", 1.35, |quota, _| Gcra::new(quota));
    all.pair("LeakyBucket", 1.35, |quota, _| LeakyBucket::new(quota));
    all.pair("LeakyBucket, a queue", 1.35, |quota, _| {
        LeakyBucket::new(quota).queue()
    });
    all.pair("FixedWindow", 1.6, |quota, _| FixedWindow::new(quota));
    all.pair("  from the first request", 1.6, |quota, _| {
        FixedWindow::new(quota).from_first_request()
    });
    all.pair("MinInterval", 1.6, |_, interval| MinInterval::new(interval));
    all.pair("SlidingWindow", 1.6, |quota, _| SlidingWindow::new(quota));
    let buckets = |quota, interval| match interval < Duration::from_secs(1) {
        true => SlidingBuckets::new(quota, Duration::from_secs(1)),
        false => SlidingBuckets::new(quota, Duration::from_secs(3_600)),
    };
    all.pair("SlidingBuckets", 1.6, buckets);
    all.pair("  strict", 1.6, |quota, interval| {
        buckets(quota, interval).strict()
    });
    // What it may cost is told beside a sorted set.
    all.pair("SlidingLog", f64::NAN, |quota, _| SlidingLog::new(quota));
    all.pair("a tuple of three", 2.4, |quota, interval| {
        (
            TokenBucket::new(quota),
            FixedWindow::new(quota),
            MinInterval::new(interval),
        )
    });
    all.cases.push(floor);
    alternate(server, &mut all.cases, ROUNDS).await;

    let floor = all.cases.pop().expect("the floor").best;
    println!("Redis's time for a decision, as a multiple of a script that calls TIME, GET and SET");
    println!(
        "({:.2} µs; {TASKS} tasks on one connection), and the commands that the script calls.\n",
        floor.micros
    );
    println!(
        "{:<26}  admitted          commands  refused            commands  to admitted",
        ""
    );
    for (pair, wanted) in all.cases.chunks(2).zip(all.wanted) {
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
    }
}
