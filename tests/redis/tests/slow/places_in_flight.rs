//! Requests in flight over Redis: as memory counts them, renewed while their process lives, and
//! free soon after it has died.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use fred::prelude::Config;
use proptest::prelude::*;
use tokio::{task::spawn_blocking, time::sleep};
use tollgate::{
    EachOf, Hold, Quota, RateLimiter, StoreErrorKind,
    algorithm::{InFlight, SlidingLog, TokenBucket},
    store::RedisStore,
};
use tollgate_properties::{
    alike,
    call::Ending,
    history::{Cost, Op, any_history_with_debits},
    model::sliding_log,
    subject::Subject,
};
use tollgate_redis_tests::{Redis, Worker, comes, connect, patient};

use super::holds_over_redis::is_the_pure_rules;

const HISTORIES: u32 = 1_500;

/// For how long the processes of these tests keep their places.
const TIME: Duration = Duration::from_millis(800);
/// How late a busy machine may notice something.
const LATE: Duration = Duration::from_secs(2);

type Limiter = RateLimiter<InFlight, RedisStore>;

fn limiter(redis: &Redis, places: u64) -> Limiter {
    let rule = InFlight::new(places).held_at_most(TIME);
    RateLimiter::new(rule, redis.store_with_prefix("t"))
}

fn hold(redis: &Redis, limiter: &Limiter, key: &str) -> Option<Hold> {
    redis.wait(limiter.hold(key, 1)).unwrap().ok()
}

fn free(redis: &Redis, limiter: &Limiter, key: &str) -> u64 {
    redis.wait(limiter.peek(key)).unwrap().remaining()
}

/// Waits until so many places are free, and tells how long that took.
fn until_free(redis: &Redis, limiter: &Limiter, key: &str, places: u64) -> Duration {
    let since = Instant::now();
    while free(redis, limiter, key) != places {
        let is_soon = since.elapsed() < Duration::from_secs(60);
        assert!(is_soon, "never {places} free");
        thread::sleep(Duration::from_millis(5));
    }
    since.elapsed()
}

/// For so long so many places are free.
fn stay_free(redis: &Redis, limiter: &Limiter, key: &str, (places, lasting): (u64, Duration)) {
    let since = Instant::now();
    while since.elapsed() < lasting {
        assert_eq!(free(redis, limiter, key), places);
        thread::sleep(Duration::from_millis(10));
    }
}

/// A generation lasts for longer than any of these histories.
const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn redis_counts_what_is_in_flight_as_memory_does_in_every_field() {
    let redis = Redis::start();
    let endings = || alike::endings(Just(Ending::Over));
    let turns = || prop::collection::vec(any::<u8>(), 80);
    let values = || {
        let happened = (any_history_with_debits(), turns(), endings());
        ((0..=4_u64, 0..=4_u64), happened)
    };
    let places = |n| InFlight::new(n).held_at_most(LONG);
    // Of the models nothing matters but the spans.
    let spans = |n| [sliding_log(n, 900_000)];
    redis.for_all(HISTORIES, values, |((n, m), mut happened)| {
        // What a reset has forgotten is counted again with the next message; and nobody waits for
        // longer than places are kept.
        let is_told = |op| !matches!(op, Op::Reset | Op::Debit(Cost::Huge));
        happened.0.steps.retain(|step| is_told(step.op));
        let alone = |n| {
            let named = places(n).named("places");
            Subject::over_redis("places", named, spans(n))
        };
        is_the_pure_rules(&redis, &[alone(n), alone(m)], &happened)?;
        let quota = |units| Quota::new(units, Duration::from_secs(2));
        let bucket = TokenBucket::new(quota(6)).settled().held_at_most(LONG);
        let pair = (places(n), bucket);
        let pair = Subject::over_redis("(places, bucket)", pair, spans(n));
        is_the_pure_rules(&redis, &[pair], &happened)?;
        let log = SlidingLog::new(quota(4)).settled().held_at_most(LONG);
        let pair = Subject::over_redis("(log, places)", (log, places(n)), spans(n));
        is_the_pure_rules(&redis, &[pair], &happened)
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

/// The next renewal would have been due long after what Redis keeps for the shorter time.
#[test]
fn places_are_renewed_by_the_shorter_time_as_soon_as_a_plan_with_one_asks() {
    let redis = Redis::start();
    let store = redis.store_with_prefix("t");
    let of = |time| {
        let rule = InFlight::new(9).named("places").held_at_most(time);
        RateLimiter::new(rule, store.clone())
    };
    let (long, short) = (of(LONG), of(TIME));
    let _long = hold(&redis, &long, "bob").unwrap();
    redis.ask::<()>("FLUSHALL", &[]);
    let _short = hold(&redis, &short, "bob").unwrap();
    stay_free(&redis, &short, "bob", (7, TIME * 4));
}

#[test]
fn every_key_is_renewed_while_it_has_a_place_and_none_when_all_have_ended() {
    let redis = Redis::start();
    let limiter = limiter(&redis, 1);
    let keys: Vec<_> = (0..150).map(|key| format!("key {key}")).collect();
    let holds: Vec<_> = keys
        .iter()
        .map(|key| hold(&redis, &limiter, key).unwrap())
        .collect();
    thread::sleep(TIME * 4);
    for key in &keys {
        assert_eq!(free(&redis, &limiter, key), 0);
    }
    redis.wait(async { drop(holds) });
    for key in &keys {
        until_free(&redis, &limiter, key, 1);
    }
    redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
    thread::sleep(TIME * 2);
    assert_eq!(redis.scripts_run(), 0, "the task has ended");

    // Then it begins again.
    let held = hold(&redis, &limiter, "key 7").unwrap();
    thread::sleep(TIME * 3);
    assert_eq!(free(&redis, &limiter, "key 7"), 0);
    drop(held);
}

#[test]
fn a_place_that_is_dropped_without_a_runtime_is_given_back_with_the_next_renewal() {
    let redis = Redis::start();
    let limiter = limiter(&redis, 1);
    let held = hold(&redis, &limiter, "bob").unwrap();
    drop(held);
    let after = until_free(&redis, &limiter, "bob", 1);
    assert!(after < TIME, "after {after:?}: it was not given back");
}

/// Requests that take a place for a moment, over and over: how many have one now, and how many had
/// one at once at most, as the test counts them.
#[derive(Debug, Default)]
struct Newcomers {
    may_come: AtomicBool,
    running: AtomicU64,
    most: AtomicU64,
}

impl Newcomers {
    async fn come(&self, limiter: &Limiter) {
        loop {
            if self.may_come.load(SeqCst)
                && let Ok(Ok(hold)) = limiter.hold("ann", 1).await
            {
                let running = self.running.fetch_add(1, SeqCst) + 1;
                self.most.fetch_max(running, SeqCst);
                sleep(Duration::from_millis(20)).await;
                self.running.fetch_sub(1, SeqCst);
                drop(hold);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The stores give up what they have sent to a server that hangs, and send it anew; when the server
/// goes on, it runs all of that, and late.
#[test]
fn a_server_that_hangs_counts_each_place_once_and_frees_none_for_less_than_the_time() {
    const HELD: Duration = Duration::from_secs(2);
    let redis = Redis::start();
    let looker = limiter(&redis, 20);
    let newcomers = Arc::new(Newcomers::default());
    let holds: Vec<Hold> = [(); 2]
        .iter()
        .flat_map(|()| {
            let store = RedisStore::builder(redis.client().clone()).prefix("t");
            let store = store.deadline(Duration::from_millis(100)).build();
            let rule = InFlight::new(20).held_at_most(HELD);
            let limiter = Arc::new(RateLimiter::new(rule, store));
            for _ in 0..8 {
                let (newcomers, limiter) = (Arc::clone(&newcomers), Arc::clone(&limiter));
                let come = async move { newcomers.come(&limiter).await };
                redis.wait(async { drop(tokio::spawn(come)) });
            }
            let holds = iter::repeat_with(|| redis.wait(limiter.hold("ann", 1)).ok()?.ok());
            holds.take(1_000).flatten().take(5).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(holds.len(), 10);
    for hangs in [800, 1_500, 800, 1_500, 5_000].map(Duration::from_millis) {
        newcomers.may_come.store(true, SeqCst);
        redis.wait(comes("all places", async || {
            newcomers.most.load(SeqCst) >= 10
        }));
        redis.server().stop_process();
        let since = Instant::now();
        thread::sleep(hangs);
        redis.server().continue_process();
        let is_shorter = since.elapsed() < HELD * 7 / 8;
        thread::sleep(HELD / 2);
        newcomers.may_come.store(false, SeqCst);
        let after = until_free(&redis, &looker, "ann", 10);
        assert!(after < HELD, "after {hangs:?}: {after:?}");
        stay_free(&redis, &looker, "ann", (10, HELD));
        // After a longer time others may have taken places that were held.
        let most = newcomers.most.swap(0, SeqCst);
        assert!(most == 10 || !is_shorter, "after {hangs:?}: {most}");
    }
    redis.server().stop_process();
    drop(holds);
    thread::sleep(HELD / 4);
    redis.server().continue_process();
    until_free(&redis, &looker, "ann", 20);
}

#[test]
fn what_a_stranger_has_put_under_one_key_costs_no_other_key_its_place() {
    let redis = Redis::start();
    let limiter = limiter(&redis, 1);
    let holds = ["ann", "bob", "cat"].map(|key| {
        let before = redis.keys("t");
        let hold = hold(&redis, &limiter, key).unwrap();
        let of_key = redis
            .keys("t")
            .into_iter()
            .find(|key| !before.contains(key));
        (hold, of_key.unwrap())
    });
    // One value is a list, and another one a text that is no
    // state.
    redis.ask::<i64>("DEL", &[&holds[0].1]);
    redis.ask::<i64>("RPUSH", &[&holds[0].1, b"not a state"]);
    redis.ask::<()>("SET", &[&holds[1].1, b"not a state"]);
    thread::sleep(TIME * 4);
    assert_eq!(free(&redis, &limiter, "cat"), 0, "it is in flight still");
    drop(holds);
    until_free(&redis, &limiter, "cat", 1);
}

#[test]
fn leases_that_no_script_wrote_are_an_error() {
    let redis = Redis::start();
    let limiter = limiter(&redis, 2);
    let _place = hold(&redis, &limiter, "ann").unwrap();
    let key = redis.keys("t").remove(0);
    let state: bytes::Bytes = redis.ask("GET", &[&key]);
    // The numbers, and the lease of one process.
    assert_eq!(state.len(), 36 + 42);
    let mut shorter = state[..77].to_vec();
    shorter[29] = 41;
    let longer = [&state[..], b"x"].concat();
    // As long as a state beside which units are held: those in flight hold none.
    let mut without_leases = state.to_vec();
    without_leases[29] = 0;
    for other in [
        &state[..35],
        &state[..36],
        &state[..77],
        &shorter,
        &longer,
        &without_leases,
    ] {
        redis.ask::<()>("SET", &[&key, other]);
        let error = redis.wait(limiter.peek("ann")).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn places_and_holds_of_several_keys_are_taken_renewed_and_given_back_together() {
    let redis = Redis::start();
    let tokens = TokenBucket::new(Quota::per_day(9)).named("tokens");
    let limits = EachOf((
        InFlight::new(2).named("user").held_at_most(TIME),
        InFlight::new(3).named("tenant").held_at_most(TIME),
        tokens.settled(),
    ));
    let limiter = RateLimiter::new(limits, redis.store_with_prefix("t"));
    let caller = |name: &str| EachOf((Some(name.to_owned()), Some(7_u64), Some(7_u64)));
    let hold = |name, cost| redis.wait(limiter.hold(&caller(name), cost)).unwrap();
    let settle = |hold: Hold, spent| redis.wait(async { hold.settle(spent).await }).unwrap();
    let left = |name| {
        let peeked = redis.wait(limiter.peek(&caller(name))).unwrap();
        [0, 1, 2].map(|place| peeked.policies()[place].remaining())
    };
    let [first, second, third] = ["ann", "ann", "bob"].map(|name| hold(name, 2).unwrap());
    assert_eq!(hold("bob", 1).unwrap_err().policy(), "tenant");
    thread::sleep(TIME * 3);
    // One of cost 0 has no place to give back.
    settle(hold("ann", 0).unwrap(), 0);
    assert_eq!((left("ann"), left("bob")), ([0, 0, 3], [1, 0, 3]));
    settle(first, 0);
    assert_eq!((left("ann"), left("bob")), ([1, 1, 5], [1, 1, 5]));
    settle(second, 1);
    settle(third, 3);
    assert_eq!((left("ann"), left("bob")), ([2, 3, 5], [2, 3, 5]));
}

/// A process that has two places of `bob`, as long as it lives.
fn other(redis: &Redis) -> Worker {
    let name = "slow::places_in_flight::a_process_with_two_places";
    let mut worker = Worker::start(name, &redis.server().url());
    worker.ask("hold");
    worker
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_with_two_places() {
    let Some(url) = Worker::role() else { return };
    let client = connect(Config::from_url(&url).unwrap()).await;
    let rule = InFlight::new(3).held_at_most(TIME);
    let limiter = RateLimiter::new(rule, patient(client).prefix("t").build());
    let mut holds = Vec::new();
    let mut orders = spawn_blocking(|| Worker::orders().next()).await;
    while let Ok(Some(_)) = orders {
        for _ in 0..2 {
            holds.push(limiter.hold("bob", 1).await.unwrap().unwrap());
        }
        Worker::done();
        orders = spawn_blocking(|| Worker::orders().next()).await;
    }
}

#[test]
fn the_places_of_a_killed_process_come_free_in_time_and_none_before() {
    let redis = Redis::start();
    let limiter = limiter(&redis, 3);
    let mut other = other(&redis);
    stay_free(&redis, &limiter, "bob", (1, TIME * 3));
    // Stopped for less than the time, it loses none.
    other.suspend();
    thread::sleep(TIME / 2);
    other.go_on();
    stay_free(&redis, &limiter, "bob", (1, TIME * 3));
    other.kill();
    let free_after = until_free(&redis, &limiter, "bob", 3);
    assert!(free_after >= TIME / 2, "after {free_after:?}");
    assert!(free_after <= TIME + LATE, "after {free_after:?}");
}

#[test]
fn what_redis_has_forgotten_is_counted_again_with_the_next_message() {
    let redis = Redis::start();
    let limiter = limiter(&redis, 3);
    let [first, second] = [(); 2].map(|()| hold(&redis, &limiter, "bob").unwrap());
    redis.ask::<()>("FLUSHALL", &[]);
    let third = hold(&redis, &limiter, "bob").unwrap();
    assert_eq!(free(&redis, &limiter, "bob"), 0);
    redis.ask::<()>("FLUSHALL", &[]);
    redis.wait(async { first.settle(0).await }).unwrap();
    assert_eq!(free(&redis, &limiter, "bob"), 1);
    redis.ask::<()>("FLUSHALL", &[]);
    assert!(until_free(&redis, &limiter, "bob", 1) < TIME, "renewed");
    redis.wait(async { drop((second, third)) });
    until_free(&redis, &limiter, "bob", 3);
}

/// What happens in a run of the protocol of `in_flight.lua`.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A process asks for a place.
    Ask(usize),
    /// One of its requests ends, if one is known to be in flight.
    End(usize),
    Renew(usize),
    /// One of the messages that are on their way reaches Redis.
    Arrives(usize),
    /// One of the replies reaches its process.
    IsHeard(usize),
    /// Redis loses all leases.
    Forgets,
}

/// A message about a place, or its reply.
#[derive(Debug, Clone, Copy)]
struct Message {
    process: usize,
    cost: f64,
    number: f64,
    running: f64,
    admitted: bool,
}

/// What a process knows: its requests in flight with those that are asked for, and those that have
/// a place for sure.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    running: u32,
    sure: u32,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        50 => (0..3_usize).prop_map(Event::Ask),
        40 => (0..3_usize).prop_map(Event::End),
        12 => (0..3_usize).prop_map(Event::Renew),
        90 => any::<usize>().prop_map(Event::Arrives),
        70 => any::<usize>().prop_map(Event::IsHeard),
        1 => Just(Event::Forgets),
    ];
    prop::collection::vec(event, 1..120)
}

/// Three processes, whose messages and replies come in any order.
struct Protocol<'a> {
    redis: &'a Redis,
    sha: &'a str,
    key: String,
    places: f64,
    now: f64,
    number: f64,
    processes: [Process; 3],
    sent: Vec<Message>,
    replied: Vec<Message>,
    /// The requests that have a place, and have not ended.
    in_flight: u32,
}

impl Protocol<'_> {
    fn send(&mut self, process: usize, cost: f64, running: u32) {
        self.number += 1.0;
        self.sent.push(Message {
            process,
            cost,
            number: self.number,
            running: running.into(),
            admitted: false,
        });
    }

    /// Runs the script: the first byte of its reply, and how many are in flight.
    fn run(&self, op: f64, message: Message) -> (u8, u64) {
        let (an_hour, process) = (3_600_000_000.0, message.process as f64 + 1.0);
        let about = [op, self.now, message.cost, self.places, an_hour, process];
        let numbers = about.into_iter().chain([message.number, message.running]);
        let argument: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
        let words = [self.sha.as_bytes(), b"1", self.key.as_bytes(), &argument];
        let reply: bytes::Bytes = self.redis.ask("EVALSHA", &words);
        let at = if reply[0] == 1 { 22 } else { 8 };
        let mut taken = [0; 8];
        taken[..7].copy_from_slice(&reply[at..at + 7]);
        (reply[0], u64::from_le_bytes(taken))
    }

    fn arrives(&mut self, at: usize) {
        let mut message = self.sent.swap_remove(at);
        self.now += 1.0;
        let is_decided = message.cost > 0.0;
        let (first, _) = self.run(if is_decided { 0.0 } else { 2.0 }, message);
        if is_decided {
            message.admitted = first == 1;
            self.in_flight += u32::from(message.admitted);
            self.replied.push(message);
        }
    }

    fn is_heard(&mut self, at: usize) {
        let reply = self.replied.swap_remove(at);
        let process = &mut self.processes[reply.process];
        match reply.admitted {
            true => process.sure += 1,
            false => process.running -= 1,
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Ask(process) => {
                let sure = self.processes[process].sure;
                self.processes[process].running += 1;
                self.send(process, 1.0, sure);
            }
            Event::End(process) if self.processes[process].sure > 0 => {
                self.in_flight -= 1;
                self.processes[process].running -= 1;
                self.processes[process].sure -= 1;
                self.send(process, -1.0, self.processes[process].sure);
            }
            Event::Renew(process) => self.send(process, 0.0, self.processes[process].running),
            Event::Arrives(which) if !self.sent.is_empty() => self.arrives(which % self.sent.len()),
            Event::IsHeard(which) if !self.replied.is_empty() => {
                self.is_heard(which % self.replied.len());
            }
            Event::Forgets => {
                self.redis.ask::<i64>("DEL", &[self.key.as_bytes()]);
            }
            Event::End(_) | Event::Arrives(_) | Event::IsHeard(_) => {}
        }
    }

    fn taken(&self) -> u64 {
        let look = Message {
            process: 9,
            cost: 0.0,
            number: 9e15,
            running: -1.0,
            admitted: false,
        };
        self.run(1.0, look).1
    }
}

/// In whichever order messages arrive, no more than n requests are in flight. Where Redis has lost
/// what it knew, this holds again once each process was heard.
#[test]
fn messages_in_any_order_never_let_more_in_flight_than_there_are_places() {
    let redis = Redis::start();
    let script = include_str!("../../../../src/store/redis/sent/in_flight.lua");
    let sha: String = redis.ask("SCRIPT", &[b"LOAD", script.as_bytes()]);
    redis.for_all(
        HISTORIES,
        || (1..=4_u32, events()),
        |(places, events)| {
            let mut protocol = Protocol {
                redis: &redis,
                sha: &sha,
                key: redis.new_key(),
                places: places.into(),
                now: 1e15,
                number: 0.0,
                processes: Default::default(),
                sent: Vec::new(),
                replied: Vec::new(),
                in_flight: 0,
            };
            let mut has_forgotten = false;
            for event in events {
                has_forgotten |= matches!(event, Event::Forgets);
                protocol.step(event);
                if !has_forgotten {
                    prop_assert!(protocol.in_flight <= places, "{:?}", protocol.processes);
                    prop_assert!(u64::from(protocol.in_flight) <= protocol.taken());
                }
            }
            // All that is on its way arrives, and a renewal of each.
            for _ in 0..2 {
                while !protocol.sent.is_empty() {
                    protocol.arrives(0);
                }
                while !protocol.replied.is_empty() {
                    protocol.is_heard(0);
                }
                (0..3).for_each(|process| protocol.step(Event::Renew(process)));
            }
            while !protocol.sent.is_empty() {
                protocol.arrives(0);
            }
            prop_assert_eq!(protocol.taken(), u64::from(protocol.in_flight));
            Ok(())
        },
    );
}
