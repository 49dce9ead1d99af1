//! An hour of recorded traffic to language models, replayed by eight processes over one Redis: one
//! of them is killed while it holds units, and the server dies and is replaced by its replica.
//!
//! Time is that of the recording, turned by hand second by second: in each second all processes
//! hold and settle at once. `data/README.md` says whose the recording is.

use std::{collections::BTreeMap, time::Duration};

use fred::prelude::Config;
use tokio::task::JoinSet;
use tollgate::{
    Hold, Quota, RateLimiter, Timestamp, algorithm::TokenBucket, clock::ManualClock,
    store::RedisStore,
};
use tollgate_redis_tests::{Sentinels, Worker, connect, until};

const RECORDED: &str = include_str!("../../data/language-model-trace.csv");

const PROCESSES: usize = 8;
/// Of each of the two services.
const TENANTS: usize = 10;
const MINUTE: u64 = 60;
/// A tenant's tokens in a minute.
const TOKENS: u64 = 40_000;
/// So many tokens a call is thought to generate.
const ESTIMATE: u32 = 250;
const MILLISECONDS_OF_A_TOKEN: u64 = 20;

/// The second in which the server dies, and for how long nothing replaces it.
const SERVER_DIES: u64 = 1_500;
const WITHOUT_A_SERVER: u64 = 3;
/// The second in which a process is killed.
const PROCESS_DIES: u64 = 2_450;
const KILLED: usize = 5;

const START: u64 = 1_700_000_000_000_000;

/// A call of the recording, in seconds since it began.
#[derive(Debug, Clone, Copy)]
struct Call {
    begins: u64,
    ends: u64,
    tenant: usize,
    estimate: u32,
    spent: u32,
}

fn recorded() -> Vec<Call> {
    let mut of_each = [0; 2];
    let lines = RECORDED.lines().skip(1).map(|line| {
        let (service, numbers) = line.split_once(',').unwrap();
        let service = usize::from(service == "code");
        let numbers: Vec<u64> = numbers.split(',').map(|it| it.parse().unwrap()).collect();
        let [at, prompt, generated] = numbers[..] else {
            panic!("{line}")
        };
        of_each[service] += 1;
        let [prompt, tokens] = [prompt, generated].map(|it| u32::try_from(it).unwrap());
        let call = Call {
            begins: at / 1_000,
            ends: at / 1_000 + 1 + generated * MILLISECONDS_OF_A_TOKEN / 1_000,
            tenant: service * TENANTS + of_each[service] % TENANTS,
            estimate: prompt + ESTIMATE,
            spent: prompt + tokens,
        };
        (at, call)
    });
    let mut calls: Vec<_> = lines.collect();
    calls.sort_by_key(|(at, _)| *at);
    calls.into_iter().map(|(_, call)| call).collect()
}

/// How a call is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    HoldAndSettle,
    ChargeAndRefund,
}

type Limiter<A> = RateLimiter<A, RedisStore>;

/// Both limiters of a process; one is used.
#[derive(Clone)]
struct Limits {
    way: Way,
    held: Limiter<tollgate::algorithm::Settled<TokenBucket>>,
    charged: Limiter<TokenBucket>,
}

/// A call that runs.
struct Running {
    index: usize,
    call: Call,
    hold: Option<Hold>,
}

impl Limits {
    fn new(way: Way, store: &RedisStore) -> Self {
        let tokens = TokenBucket::new(Quota::per_minute(TOKENS));
        Self {
            way,
            held: RateLimiter::new(tokens.clone().settled(), store.clone()),
            charged: RateLimiter::new(tokens, store.clone()),
        }
    }

    /// Whether Redis decides.
    async fn is_ready(&self) -> Option<()> {
        self.held.peek("nobody").await.ok()?;
        self.charged.peek("nobody").await.ok().map(drop)
    }

    /// Reports how the call began; returns it if it runs.
    async fn begin(self, index: usize, call: Call) -> Option<Running> {
        let (tenant, cost) = (call.tenant.to_string(), call.estimate);
        let held = match self.way {
            Way::HoldAndSettle => {
                let held = self.held.hold(&tenant, cost).await;
                held.map(|held| held.ok().map(Some))
            }
            Way::ChargeAndRefund => {
                let charged = self.charged.check_cost(&tenant, cost).await;
                charged.map(|decision| decision.is_admitted().then_some(None))
            }
        };
        match held {
            Ok(Some(hold)) => {
                Worker::say(format!("runs {index}"));
                Some(Running { index, call, hold })
            }
            Ok(None) => {
                Worker::say(format!("refused {index}"));
                None
            }
            Err(_) => {
                Worker::say(format!("undecided {index}"));
                None
            }
        }
    }

    async fn end(self, Running { index, call, hold }: Running) {
        Worker::say(format!("ends {index}"));
        let tenant = call.tenant.to_string();
        let (estimate, spent) = (call.estimate, call.spent);
        let settled = match hold {
            Some(hold) => hold.settle(spent).await,
            None if spent < estimate => self.charged.refund(&tenant, estimate - spent).await,
            None => self.charged.debit(&tenant, spent - estimate).await,
        };
        if settled.is_ok() {
            Worker::say(format!("settled {index}"));
        }
    }
}

/// Replays each eighth call.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_of_the_processes() {
    let Some(role) = Worker::role() else {
        return;
    };
    let words: Vec<&str> = role.split(' ').collect();
    let [url, number, way] = words[..] else {
        panic!("{role}")
    };
    let way = match way {
        "hold" => Way::HoldAndSettle,
        _ => Way::ChargeAndRefund,
    };
    let (clock, number) = (
        ManualClock::at(Timestamp::from_micros(START)),
        number.parse().unwrap(),
    );
    let store = RedisStore::builder(connect(Config::from_url(url).unwrap()).await)
        .clock(clock.clone())
        .deadline(Duration::from_secs(1))
        .build();
    let limits = Limits::new(way, &store);
    let calls = recorded();
    let mine = calls
        .into_iter()
        .enumerate()
        .skip(number)
        .step_by(PROCESSES);
    let (mut coming, mut running) = (mine.peekable(), Vec::new());
    for order in Worker::orders() {
        if order == "wait" {
            until("a server that decides", async || limits.is_ready().await).await;
            Worker::done();
            continue;
        }
        let second: u64 = order.parse().unwrap();
        clock.set(Timestamp::from_micros(START + second * 1_000_000));
        let (mut all, mut still) = (JoinSet::new(), Vec::new());
        for one in running {
            let one: Running = one;
            match one.call.ends <= second {
                true => {
                    let ends = limits.clone().end(one);
                    all.spawn(async move {
                        ends.await;
                        None
                    });
                }
                false => still.push(one),
            }
        }
        while let Some((index, call)) = coming.next_if(|(_, call)| call.begins <= second) {
            all.spawn(limits.clone().begin(index, call));
        }
        still.extend(all.join_all().await.into_iter().flatten());
        running = still;
        Worker::done();
    }
}

/// How all calls ended.
struct Replayed {
    /// When each call that was let through began and ended; `None` if nobody knows, as its process
    /// was killed.
    calls: Vec<(Call, Option<u64>)>,
    refused: u64,
    /// Calls without a decision, and calls that ended without a server.
    undecided: u64,
    unsettled: u64,
    settled_by: [u64; PROCESSES],
}

async fn replayed(way: &str) -> Replayed {
    let sentinels = Sentinels::start().await;
    let all = recorded();
    let last = all.iter().map(|call| call.ends).max().unwrap();
    let mut workers: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let role = format!("{} {number} {way}", sentinels.url());
            Worker::start("slow::trace::one_of_the_processes", &role)
        })
        .collect();
    let (mut ended, mut seen) = (BTreeMap::new(), BTreeMap::<_, u64>::new());
    let mut settled_by = [0; PROCESSES];
    let wait = |workers: &mut Vec<Worker>| {
        workers.iter_mut().for_each(|worker| worker.tell("wait"));
        for worker in workers {
            assert!(worker.hear().1, "a process has ended");
        }
    };
    wait(&mut workers);
    for second in 0..=last {
        if second == SERVER_DIES {
            // Another test is about what is lost with a server.
            sentinels.wait_until_in_step().await;
            sentinels.kill_primary().await;
        }
        if second == SERVER_DIES + WITHOUT_A_SERVER {
            sentinels.wait_for_failover().await;
            wait(&mut workers);
        }
        let order = second.to_string();
        workers.iter_mut().for_each(|worker| worker.tell(&order));
        if second == PROCESS_DIES {
            workers[KILLED].kill();
        }
        for (number, worker) in workers.iter_mut().enumerate() {
            let (said, is_whole) = worker.hear();
            assert!(is_whole || number == KILLED && second >= PROCESS_DIES);
            for line in said {
                let (what, index) = line.split_once(' ').unwrap();
                let index: usize = index.parse().unwrap();
                match what {
                    "runs" => drop(ended.insert(index, None)),
                    "ends" => drop(ended.insert(index, Some(second))),
                    "settled" => settled_by[number] += 1,
                    _ => {}
                }
                *seen.entry(what.to_owned()).or_default() += 1;
            }
        }
    }
    let number = |what: &str| seen.get(what).copied().unwrap_or(0);
    Replayed {
        calls: ended
            .into_iter()
            .map(|(index, end)| (all[index], end))
            .collect(),
        refused: number("refused"),
        undecided: number("undecided"),
        unsettled: number("ends") - number("settled"),
        settled_by,
    }
}

/// Units of a tenant, second by second.
type Taken = BTreeMap<u64, u64>;

/// By how much these units of all tenants exceed what the quota brings in any span, whatever its
/// length: at most the burst, by the rule.
fn most_beyond_the_rate<'a>(all: impl IntoIterator<Item = &'a Taken>) -> u64 {
    let of_one = |taken: &Taken| {
        // In sixtieths of a unit.
        let (mut owed, mut since, mut most) = (0_u64, 0, 0);
        for (second, units) in taken {
            owed = owed.saturating_sub((second - since) * TOKENS) + units * MINUTE;
            (since, most) = (*second, most.max(owed));
        }
        most.div_ceil(MINUTE)
    };
    all.into_iter().map(of_one).max().unwrap_or(0)
}

/// The most of one tenant in any minute.
fn most_in_a_minute<'a>(all: impl IntoIterator<Item = &'a Taken>) -> u64 {
    let of_one = |taken: &Taken| {
        let minute = |end: &u64| taken.range((end + 1).saturating_sub(MINUTE)..=*end);
        let most = taken
            .keys()
            .map(|end| minute(end).map(|(_, units)| units).sum());
        most.max().unwrap_or(0)
    };
    all.into_iter().map(of_one).max().unwrap_or(0)
}

impl Replayed {
    /// What these calls took, each at one instant, by tenant.
    fn taken(&self, of: impl Fn(&Call, Option<u64>) -> Option<(u64, u32)>) -> Vec<Taken> {
        let mut all = vec![Taken::new(); 2 * TENANTS];
        for (call, end) in &self.calls {
            if let Some((at, units)) = of(call, *end) {
                *all[call.tenant].entry(at).or_default() += u64::from(units);
            }
        }
        all
    }

    /// All that was spent, by when it was spent.
    fn spent(&self) -> Vec<Taken> {
        self.taken(|call, end| Some((end?, call.spent)))
    }

    fn used(&self) -> u64 {
        self.spent().iter().flat_map(BTreeMap::values).sum()
    }
}

/// A minute has 60 instants here, the first and the last 59 seconds apart.
const BOUND: u64 = TOKENS + TOKENS * (MINUTE - 1) / MINUTE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hour_of_calls_stays_within_the_bound_and_uses_what_a_refund_would() {
    let held = replayed("hold").await;
    // What a call spent beyond its hold is owed, whether there is room or not: the bound is about
    // the rest.
    let covered = |call: &Call| call.spent.min(call.estimate);
    let by_settlement = held.taken(|call, end| Some((end?, covered(call))));
    let by_admission = held.taken(|call, end| {
        let units = end.map_or(call.estimate, |_| covered(call));
        Some((call.begins, units))
    });
    for (what, taken) in [("settled", &by_settlement), ("admitted", &by_admission)] {
        let most = most_beyond_the_rate(taken);
        println!("{what}: {most} of {TOKENS} more than the rate brings, at the most");
        assert!(most <= TOKENS, "{what}: {most}");
    }
    let most = most_in_a_minute(&held.spent());
    println!("in any minute: {most} of {BOUND}");
    assert!(most <= BOUND, "{most}");
    assert!(
        held.settled_by.iter().all(|it| *it >= 2_000),
        "{:?}",
        held.settled_by
    );
    // Nothing else has happened to them.
    let open = held.calls.iter().filter(|(_, end)| end.is_none()).count();
    assert!(open > 0 && held.refused > 500, "{open} {}", held.refused);
    assert!(held.undecided > 0 && held.unsettled > 0);

    let refunded = replayed("refund").await;
    let (used, with_refunds) = (held.used(), refunded.used());
    println!("used: {used}, and {with_refunds} by charge and refund");
    assert!(used * 100 >= with_refunds * 95, "{used} of {with_refunds}");
    let by_refund = refunded.taken(|call, end| Some((end?, covered(call))));
    let most = most_beyond_the_rate(&by_refund);
    println!("charged and refunded: {most} of {TOKENS} more than the rate brings");
    assert!(most > TOKENS, "the trace is too tame to tell: {most}");
}
