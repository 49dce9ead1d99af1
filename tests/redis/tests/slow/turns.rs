//! Eight processes wait for turns of one key over one Redis: in which order and how fast they are
//! let go, while some requests give up and some processes are killed.
//!
//! Time is turned by hand: all that is asked in one instant is asked by all processes at once.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use fred::prelude::Config;
use futures_util::future::join_all;
use tollgate::{
    Quota, Timestamp,
    algorithm::{Ending, Limit, TokenBucket, WaitAtMost},
    clock::ManualClock,
    store::{Ask, Change, Store},
};
use tollgate_properties::claims::most_in;
use tollgate_redis_tests::{Command, Monitor, Redis, Worker, connect, patient};

const PROCESSES: usize = 8;
const PERIOD_MICROS: u64 = 1_000_000;
const UNITS: u64 = 40;
const BURST: u64 = 6;
const WAIT: Duration = Duration::from_millis(700);
const LARGEST_COST: u32 = 3;

const INSTANTS: u64 = 400;
const APART_MICROS: u64 = 37_003;
/// From these instants on the first two processes are killed, as soon as a request of theirs waits.
const KILLED_FROM: [u64; 2] = [150, 260];

/// Nobody gives up before this, so that the bound is reached at some instant.
const PATIENT_UNTIL: u64 = 60;

const START: u64 = 1_700_000_000_000_000;
const KEY: &str = "tenant";

fn rule() -> WaitAtMost<TokenBucket> {
    TokenBucket::new(Quota::per_second(UNITS))
        .burst(BURST)
        .wait_at_most(WAIT)
}

/// A turn that has not come.
struct Waiting {
    turn: usize,
    cost: u32,
    release: u64,
    admission: <WaitAtMost<TokenBucket> as Limit>::Snapshot,
}

/// Asks for turns in each instant, and gives some of them up.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_who_waits() {
    let Some(role) = Worker::role() else { return };
    let (url, number) = role.split_once(' ').unwrap();
    let clock = ManualClock::at(Timestamp::from_micros(START));
    let client = connect(Config::from_url(url).unwrap()).await;
    let store = patient(client).clock(clock.clone()).build();
    let (rule, mut random) = (rule(), Rng::with_seed(number.parse().unwrap()));
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut asked = 0;
    for order in Worker::orders() {
        let instant: u64 = order.parse().unwrap();
        if instant == 0 {
            // Loads both scripts, of one decision and of several, and says who this is.
            let name = format!("process-{number}");
            let ask = || Store::<_, String>::decide(&store, &rule, &name, Ask::Charge(1)).wait();
            let decided = join_all([ask(), ask(), ask()]).await;
            assert!(decided.into_iter().all(|it| it.unwrap().admitted));
            Worker::done();
            continue;
        }
        let now = START + instant * APART_MICROS;
        clock.set(Timestamp::from_micros(now));
        waiting.retain(|it| it.release > now);
        // Gives up any, or the last.
        for chance in [9, 12] {
            if random.u32(..chance) == 0 && instant > PATIENT_UNTIL && !waiting.is_empty() {
                let last = waiting.len() - 1;
                let which = if chance == 9 {
                    last
                } else {
                    random.usize(..=last)
                };
                let one = waiting.remove(which);
                let Waiting {
                    admission, cost, ..
                } = &one;
                let cost = *cost;
                let withdrawn = Change::End(admission, Ending::Withdrawn { cost });
                drop(Store::<_, String>::change(&store, &rule, KEY, withdrawn));
                Worker::say(format!("gives-up {}", one.turn));
            }
        }
        let costs: Vec<_> = (0..random.u64(..4))
            .map(|_| 1 + random.u32(..LARGEST_COST))
            .collect();
        let calls = costs
            .iter()
            .map(|cost| Store::<_, String>::decide(&store, &rule, KEY, Ask::Charge(*cost)).wait());
        for (decided, cost) in join_all(calls).await.into_iter().zip(costs) {
            let decided = decided.unwrap();
            let turn = asked;
            asked += 1;
            if !decided.admitted {
                Worker::say(format!("refused {turn}"));
                continue;
            }
            let delay = Limit::delay_of(&rule, &decided.snapshot);
            let release = now + u64::try_from(delay.as_micros()).unwrap();
            Worker::say(format!("turn {turn} {cost} {release}"));
            if release > now {
                let admission = decided.snapshot;
                waiting.push(Waiting {
                    turn,
                    cost,
                    release,
                    admission,
                });
            }
        }
        Worker::done();
    }
}

/// What was decided about a request.
#[derive(Debug, Clone, Copy)]
struct Turn {
    cost: u32,
    release: u64,
    gave_up: bool,
}

/// How many decisions share a call, if this is what it says of their costs: four bytes for each, of
/// which the first is at most `\x03`, and the others are `\x00`.
fn several(word: &str) -> Option<usize> {
    let bytes: Vec<_> = word.split(r"\x").skip(1).collect();
    let are_costs = !bytes.is_empty() && bytes.len() % 4 == 0 && word.len() == 4 * bytes.len();
    let mut costs = bytes.chunks(4);
    let are_costs = are_costs
        && costs.all(|cost| ["01", "02", "03"].contains(&cost[0]) && cost[1..] == ["00"; 3]);
    are_costs.then_some(bytes.len() / 4)
}

/// The number of each decision about the key in its process, in the order of Redis.
fn order(told: &[Command]) -> Vec<(usize, usize)> {
    let of_script = |told: &&Command| told.words[0].eq_ignore_ascii_case("evalsha");
    let mut processes = BTreeMap::new();
    for told in told.iter().filter(of_script) {
        for number in 0..PROCESSES {
            if told.words[3].contains(&format!("process-{number}")) {
                processes.insert(told.port, number);
            }
        }
    }
    assert_eq!(processes.len(), PROCESSES, "{processes:?}");
    let mut of_each = [0; PROCESSES];
    let several = |told: &Command| several(told.words.last().unwrap());
    // One decision is the operation 0 of the script.
    let is_decision =
        |told: &&Command| told.words[4].starts_with(&r"\x00".repeat(8)) || several(told).is_some();
    let about_the_key = |told: &&Command| is_decision(told) && told.words[3].contains(KEY);
    let decisions = told
        .iter()
        .filter(of_script)
        .filter(about_the_key)
        .flat_map(|told| {
            let count = several(told).unwrap_or(1);
            let process = processes[&told.port];
            let first = of_each[process];
            of_each[process] += count;
            (first..first + count).map(move |turn| (process, turn))
        });
    decisions.collect()
}

#[test]
fn eight_processes_are_let_go_in_the_order_of_redis_and_within_the_bound() {
    let redis = Redis::start();
    let mut monitor = Monitor::of(redis.server());
    let mut workers: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let role = format!("{} {number}", redis.server().url());
            Worker::start("slow::turns::one_who_waits", &role)
        })
        .collect();
    let (mut turns, mut refused) = (BTreeMap::new(), 0_u64);
    let mut killed_in = KILLED_FROM.map(|_| None);
    for instant in 0..=INSTANTS {
        let order = instant.to_string();
        workers.iter_mut().for_each(|worker| worker.tell(&order));
        for (number, killed_from) in KILLED_FROM.iter().enumerate() {
            let waits = |((process, _), turn): (&(usize, usize), &Turn)| {
                let is_to_come = turn.release > START + instant * APART_MICROS;
                *process == number && !turn.gave_up && is_to_come
            };
            let is_due = killed_in[number].is_none() && instant >= *killed_from;
            if is_due && turns.iter().any(waits) {
                workers[number].kill();
                killed_in[number] = Some(instant);
            }
        }
        for (number, worker) in workers.iter_mut().enumerate() {
            let (said, is_whole) = worker.hear();
            let was_killed = killed_in.get(number).is_some_and(Option::is_some);
            assert!(is_whole || was_killed, "process {number} has ended");
            for line in said {
                let words: Vec<&str> = line.split(' ').collect();
                let turn = (number, words[1].parse::<usize>().unwrap());
                match words[0] {
                    "turn" => {
                        let (cost, release) =
                            (words[2].parse().unwrap(), words[3].parse().unwrap());
                        turns.insert(
                            turn,
                            Turn {
                                cost,
                                release,
                                gave_up: false,
                            },
                        );
                    }
                    "gives-up" => turns.get_mut(&turn).unwrap().gave_up = true,
                    _ => refused += 1,
                }
            }
        }
    }
    redis.ask::<String>("ECHO", &[b"the-end"]);
    let order = order(&monitor.up_to("the-end"));
    let admitted: Vec<Turn> = (order.iter())
        .filter_map(|turn| turns.get(turn).copied())
        .collect();
    assert_eq!(admitted.len(), turns.len(), "all of them are in the order");
    let let_go: Vec<Turn> = admitted.iter().filter(|it| !it.gave_up).copied().collect();
    for (earlier, later) in let_go.iter().zip(&let_go[1..]) {
        let is_in_order = earlier.release <= later.release;
        assert!(is_in_order, "{earlier:?} before {later:?}");
    }
    let bound = BURST.max(LARGEST_COST.into()) + UNITS - 1;
    let released: Vec<_> = (let_go.iter())
        .map(|it| (i128::from(it.release), i128::from(it.cost)))
        .collect();
    let most = most_in(&released, PERIOD_MICROS.into());
    let bound = i128::from(bound);
    assert!(most <= bound, "{most} of {bound}");
    assert!(most + 2 >= bound, "{most} of {bound}: not at its worst");

    // All the time Redis was asked for more than it gave, and gave what it had.
    let units: u64 = admitted.iter().map(|it| u64::from(it.cost)).sum();
    let brought = INSTANTS * APART_MICROS * UNITS / PERIOD_MICROS;
    let gave_up = admitted.len() - let_go.len();
    println!(
        "{units} units of {brought}, {} turns, {gave_up} given up, {refused} refused",
        admitted.len()
    );
    assert!(units * 100 >= brought * 98 && refused > 300 && gave_up > 50);
    let all_waited = killed_in.iter().all(Option::is_some);
    assert!(all_waited, "killed while they waited: {killed_in:?}");
    for number in 0..PROCESSES {
        let its = turns
            .keys()
            .filter(|(process, _)| *process == number)
            .count();
        assert!(its >= 10, "process {number}: {its}");
    }
}
