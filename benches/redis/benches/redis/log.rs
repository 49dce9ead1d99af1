//! The exact log of many admissions, beside a sorted set that answers the same.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};
use std::time::Duration;

use fred::{clients::Client, prelude::Value};
use tollgate::{Quota, RateLimiter, Timestamp, algorithm::SlidingLog, clock::Clock};
use tollgate_redis_tests::Server;

use crate::measure::{self, Case, TASKS, alternate, at_most, decisions, key, load, script};

const SIZES: [u64; 4] = [100, 1_000, 10_000, 100_000];
const TIMES: u32 = 40;
const ROUNDS: u32 = 8;
/// So many places are free while admissions come and go: tasks overtake each other.
const FREE: u64 = 2 * TASKS;

/// Admits, or not; and what is left, when more of it comes back, when all of it, and when the cost
/// would fit.
const SORTED_SET: &str =
    "local now, period, units, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), 1
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - period))
local used = redis.call('ZCARD', KEYS[1])
local fits = used + cost <= units
local fits_after = 0
if fits then
  redis.call('ZADD', KEYS[1], ARGV[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(math.ceil(period / 1000), 60000)))
  used = used + cost
else
  local nth = used + cost - units - 1
  fits_after = redis.call('ZRANGE', KEYS[1], nth, nth, 'WITHSCORES')[2]
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
return {fits and 1 or 0, units - used, first, last, fits_after}";

/// A millisecond later each time that it is asked, until it is stopped.
#[derive(Clone)]
struct Ticks {
    micros: Arc<AtomicU64>,
    stands: Arc<AtomicBool>,
}

impl Ticks {
    fn start() -> Self {
        Self {
            micros: Arc::new(AtomicU64::new(1_800_000_000_000_000)),
            stands: Arc::default(),
        }
    }
}

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        let step = if self.stands.load(SeqCst) { 0 } else { 1_000 };
        Timestamp::from_micros(self.micros.fetch_add(step, SeqCst))
    }
}

pub(crate) async fn compare(server: &Server, client: &Client) {
    let sorted_set = load(client, SORTED_SET).await;
    let (mut cases, mut clocks, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for entries in SIZES {
        let (log, clock) = (log(entries), Ticks::start());
        let store = measure::store(client, &format!("log:{entries}"))
            .clock(clock.clone())
            .build();
        let name = |kind| format!("{kind} {entries}");
        let turn = decisions(log.clone(), store.clone(), 1, (TIMES, true));
        cases.push(Case::new(name("log"), turn));
        fill(&RateLimiter::new(log, store), entries).await;
        clocks.push(clock);

        let clock = Ticks::start();
        let ticks = clock.clone();
        let prefix = format!("set:{entries}");
        let filled = script(
            client,
            sorted_set.clone(),
            (TASKS, (entries / TASKS) as u32 + 1),
            {
                let (ticks, prefix) = (ticks.clone(), prefix.clone());
                move |_| set_arguments(&prefix, entries, &ticks)
            },
        );
        filled().await;
        let turn = script(client, sorted_set.clone(), (1, TIMES), {
            move |_| set_arguments(&prefix, entries, &ticks)
        });
        cases.push(Case::new(name("set"), turn));
        clocks.push(clock);
    }
    alternate(server, &mut cases, ROUNDS).await;
    for entries in SIZES {
        memory.push((
            bytes(server, &format!("log:{entries}:")).await,
            bytes(server, &format!("set:{entries}:")).await,
        ));
    }
    let admitted: Vec<f64> = cases.iter().map(|case| case.best.micros).collect();

    // The clocks stand, and the last places are taken: from now on nothing is admitted.
    clocks
        .iter()
        .for_each(|clock| clock.stands.store(true, SeqCst));
    let mut cases = Vec::new();
    for (entries, clocks) in SIZES.into_iter().zip(clocks.chunks(2)) {
        let store = measure::store(client, &format!("log:{entries}"))
            .clock(clocks[0].clone())
            .build();
        let limiter = RateLimiter::new(log(entries), store.clone());
        while limiter
            .check(&0_u64)
            .await
            .expect("a decision")
            .is_admitted()
        {}
        let turn = decisions(log(entries), store, 1, (TIMES, false));
        cases.push(Case::new("log", turn));
        let (ticks, prefix) = (clocks[1].clone(), format!("set:{entries}"));
        let turn = script(client, sorted_set.clone(), (1, TIMES), move |_| {
            set_arguments(&prefix, entries, &ticks)
        });
        for _ in 0..=FREE / TASKS / u64::from(TIMES) {
            turn().await;
        }
        cases.push(Case::new("set", turn));
    }
    alternate(server, &mut cases, ROUNDS).await;
    let refused: Vec<f64> = cases.iter().map(|case| case.best.micros).collect();

    println!(
        "\nThe exact log against a sorted set: Redis's time for a decision, and the bytes of all keys.\n"
    );
    println!(
        "entries  admitted, µs                 refused, µs                  log's refused    bytes: log      set  ratio"
    );
    for (index, (entries, (log_bytes, set_bytes))) in SIZES.into_iter().zip(memory).enumerate() {
        let (log, set) = (2 * index, 2 * index + 1);
        let most = if entries < 1_000 { f64::NAN } else { 1.0 };
        println!(
            "{entries:>7}  {:>5.1} {:>5.1} {}  {:>5.1} {:>5.1} {}  {}  {log_bytes:>10} {set_bytes:>8} {}",
            admitted[log],
            admitted[set],
            at_most(admitted[log] / admitted[set], most),
            refused[log],
            refused[set],
            at_most(refused[log] / refused[set], most),
            at_most(refused[log] / admitted[log], 1.0),
            at_most(log_bytes as f64 / set_bytes as f64, most / 4.0),
        );
    }
    let flat = admitted[6] / admitted[2];
    println!(
        "\nAdmitted at 100 000 entries, to 1 000: {}",
        at_most(flat, 1.1)
    );
}

/// One admission a millisecond leaves as many entries as this.
fn log(entries: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(entries + FREE, Duration::from_millis(entries)))
}

/// As many admissions as the log holds, by all tasks together.
/// One after the other: decisions that are asked together would share calls, and so an instant.
async fn fill(limiter: &RateLimiter<SlidingLog, tollgate::store::RedisStore>, entries: u64) {
    for _ in 0..entries + TASKS {
        limiter.check(&0_u64).await.expect("a decision");
    }
}

fn set_arguments(prefix: &str, entries: u64, ticks: &Ticks) -> Vec<Value> {
    static NEXT: AtomicU64 = AtomicU64::new(1_000_000);
    let text = |number: u64| Value::from(number.to_string());
    vec![
        Value::from(1),
        key(prefix, 0),
        text(ticks.now().as_micros()),
        text(entries * 1_000),
        text(entries + FREE),
        text(NEXT.fetch_add(1, SeqCst)),
    ]
}

async fn bytes(server: &Server, prefix: &str) -> u64 {
    let mut bytes = 0;
    for key in server.keys(prefix).await {
        let key = String::from_utf8(key.to_vec()).expect("a key that is text");
        let used: u64 = server
            .command("MEMORY", &["USAGE", &key, "SAMPLES", "0"])
            .await;
        bytes += used;
    }
    bytes
}
