//! Minutes of traffic, while Redis hangs, dies and comes back empty, fails over and has its clock
//! stepped back, and the limit is reloaded all the while. It ends with an error as soon as a
//! decision is over its bound, and at the end if one was late, an outage was not told, or memory
//! has grown.
//!
//! `scripts/cargo-test soak` runs it by itself. Its argument says for how many seconds: it does
//! whole cycles, and two at least.

#[path = "../tests/events/mod.rs"]
mod events;
#[path = "../../support/listener.rs"]
mod listener;

use std::{
    env, fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};
use tollgate::{
    Decision, Quota, RateLimiter, StoreError, StoreErrorKind, algorithm::TokenBucket,
    choice::Reloadable, store::RedisStore,
};
use tollgate_redis_tests::{Sentinels, SteppedServer, unconnected, until};

use events::{beginning, listen, logged_by};

const DEADLINE: Duration = Duration::from_millis(250);
/// How much later than a timer of that length a decision may be. One in a hundred of those that
/// wait for the deadline may be as late as the machine makes it.
const SLACK: Duration = Duration::from_millis(10);
/// A cycle has one fault of each kind.
const CYCLE: Duration = Duration::from_secs(150);
/// An outage is over a second after the last failure.
const CALM: Duration = Duration::from_secs(8);
/// How many keys are asked for in turn, each three times at once.
const MANY: u64 = 200_000;
const WALKERS: u64 = 4;
/// How many keys are asked for all the time, of each deployment.
const HOT: u64 = 16;

/// The two plans of a hot key: how many units a second, and the burst.
const PLANS: [(u64, u64); 2] = [(30, 20), (60, 10)];

fn plan((units, burst): (u64, u64)) -> TokenBucket {
    let quota = TokenBucket::new(Quota::per_second(units));
    quota.burst(burst).named("hot")
}

/// Servers, and two clients that ask them.
struct Deployment {
    name: &'static str,
    /// The second one leases, and remembers refusals.
    stores: [RedisStore; 2],
    /// Odd while what Redis has may be lost.
    losses: AtomicU64,
    /// How many calls of each store have failed since the last fault began.
    failed: [AtomicU64; 2],
    /// How many calls have waited for the deadline, and how many were late.
    waited: AtomicU64,
    late: AtomicU64,
}

/// What all of them share.
struct Soak {
    begin: Instant,
    limit: Reloadable<TokenBucket>,
    is_over: AtomicBool,
    decisions: AtomicU64,
    /// How often one of the many keys was asked for.
    walked: AtomicU64,
}

impl Deployment {
    fn new(name: &'static str, connection: impl Fn() -> fred::clients::Client) -> Arc<Self> {
        let store = || {
            let store = RedisStore::builder(connection()).prefix(name);
            store.deadline(DEADLINE)
        };
        let remembers = store().remember_refusals(Duration::from_secs(1)).build();
        Arc::new(Self {
            name,
            stores: [store().build(), remembers.leased(Duration::from_millis(50))],
            losses: AtomicU64::new(0),
            failed: Default::default(),
            waited: AtomicU64::new(0),
            late: AtomicU64::new(0),
        })
    }

    /// Decides, in time.
    async fn ask(
        &self,
        store: usize,
        decision: impl Future<Output = Result<Decision, StoreError>>,
    ) -> Option<Decision> {
        let mut decision = Box::pin(decision);
        let decided = match timeout_at(Instant::now() + DEADLINE, &mut decision).await {
            Ok(decided) => decided,
            Err(_) => {
                let since = Instant::now();
                let decided = timeout_at(since + DEADLINE * 4, decision).await;
                let decided = decided.expect("an answer");
                self.waited.fetch_add(1, Relaxed);
                if since.elapsed() > SLACK {
                    self.late.fetch_add(1, Relaxed);
                }
                decided
            }
        };
        if let Err(error) = &decided {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
            self.failed[store].fetch_add(1, Relaxed);
        }
        decided.ok()
    }

    /// How often its stores have told that they have recovered.
    fn recovered(&self) -> usize {
        beginning(&logged_by(self.name), "the store has recovered").len()
    }

    /// A fault, and some time after it: each store for which calls have failed tells that they do
    /// no more.
    async fn meets(&self, what: &str, loses: bool, fault: impl Future<Output = ()>) {
        let take = || self.failed.each_ref().map(|failed| failed.swap(0, Relaxed));
        let (recovered, before) = (self.recovered(), take());
        if loses {
            self.losses.fetch_add(1, Relaxed);
        }
        fault.await;
        if loses {
            // What was leased before is spent.
            sleep(Duration::from_secs(1)).await;
            self.losses.fetch_add(1, Relaxed);
        }
        sleep(CALM).await;
        let failed = take();
        let name = self.name;
        println!(
            "{name} {what}: {failed:?} calls have failed, and {before:?} since the fault before it"
        );
        let outages = failed.iter().filter(|&&failed| failed > 0).count();
        assert!(self.recovered() >= recovered + outages, "{name} {what}");
    }

    /// After the last fault: no call is late or left behind, and no outage was told twice.
    fn ends(&self, told_before: usize) {
        let (name, waited, late) = (self.name, &self.waited, &self.late);
        println!("{name}: {waited:?} calls have waited for the deadline, {late:?} longer");
        assert!(late.load(Relaxed) * 100 <= waited.load(Relaxed), "{name}");
        let told = logged_by(name).split_off(told_before);
        let recovered = beginning(&told, "the store has recovered");
        let unavailable = beginning(&told, "the store is unavailable");
        // Each second of an outage is told at most once, and each outage ends once.
        assert!(recovered.len() <= unavailable.len(), "{told:?}");
        assert!(
            beginning(&told, "the store is set up wrongly").is_empty(),
            "{told:?}"
        );
        for store in &self.stores {
            assert_eq!(store.usage().in_flight, 0, "{name}");
        }
    }
}

/// Asks for one key again and again, by both stores in turn: neither plan admits more than it may.
async fn ask_hot(soak: Arc<Soak>, deployment: Arc<Deployment>, key: u64) {
    let limiters = deployment
        .stores
        .each_ref()
        .map(|store| RateLimiter::new(soak.limit.clone(), store.clone()));
    // Of each plan: how many it has admitted, and the least of that before an admission, less what
    // had come back until it was asked for.
    let nothing = ([0.0; 2], [f64::INFINITY; 2]);
    let ((mut admitted, mut least), mut counted_since) = (nothing, 0);
    for turn in 0.. {
        if soak.is_over.load(Relaxed) {
            return;
        }
        let (store, losses) = (turn % 2, deployment.losses.load(Relaxed));
        let asked = soak.begin.elapsed().as_secs_f64();
        let decision = deployment.ask(store, limiters[store].check(&key)).await;
        let answered = soak.begin.elapsed().as_secs_f64();
        soak.decisions.fetch_add(1, Relaxed);
        if losses % 2 == 1 || losses != deployment.losses.load(Relaxed) || losses != counted_since {
            ((admitted, least), counted_since) = (nothing, losses);
        } else if let Some(decision) = decision
            && decision.is_admitted()
        {
            let is_of_it = |plan: &(u64, u64)| plan.1 == decision.limit();
            let plan = PLANS.iter().position(is_of_it).expect("one of the plans");
            let (rate, burst) = (PLANS[plan].0 as f64, PLANS[plan].1 as f64);
            least[plan] = least[plan].min(admitted[plan] - rate * asked);
            admitted[plan] += 1.0;
            let most = admitted[plan] - rate * answered - least[plan];
            assert!(
                most < burst + 1e-6,
                "{} {key}: {most} of {burst}",
                deployment.name
            );
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Asks for many keys in turn, each three times: one unit an hour is admitted once.
async fn ask_many(soak: Arc<Soak>, deployment: Arc<Deployment>, first: u64) {
    let limit = TokenBucket::new(Quota::per_hour(1)).named("many");
    let limiters = deployment
        .stores
        .each_ref()
        .map(|store| RateLimiter::new(limit.clone(), store.clone()));
    for turn in 0.. {
        if soak.is_over.load(Relaxed) {
            return;
        }
        let (key, losses) = (
            (first + turn * WALKERS) % MANY,
            deployment.losses.load(Relaxed),
        );
        let mut admitted = 0;
        for store in [0, 1, 0] {
            let decision = deployment.ask(store, limiters[store].check(&key)).await;
            admitted += u32::from(decision.is_some_and(|decision| decision.is_admitted()));
            soak.decisions.fetch_add(1, Relaxed);
        }
        soak.walked.fetch_add(1, Relaxed);
        let is_kept = losses % 2 == 0 && losses == deployment.losses.load(Relaxed);
        assert!(!is_kept || admitted <= 1, "{key}: {admitted}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// The limit has one plan, then the other.
async fn reload(soak: Arc<Soak>) {
    for turn in 0.. {
        if soak.is_over.load(Relaxed) {
            return;
        }
        soak.limit
            .replace(plan(PLANS[turn % 2]))
            .expect("the same name");
        sleep(Duration::from_millis(700)).await;
    }
}

/// How many bytes of memory this process has, where the system tells.
fn resident_bytes() -> u64 {
    let told = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = told.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * 4_096
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    listen();
    let seconds = env::args()
        .nth(1)
        .map_or(600, |it| it.parse().expect("a number of seconds"));
    let (stepped, sentinels) = (SteppedServer::start().await, Sentinels::start().await);
    let alone = Deployment::new("soak-alone", || unconnected(stepped.server().config()));
    let pair = Deployment::new("soak-pair", || unconnected(sentinels.config()));
    let soak = Arc::new(Soak {
        begin: Instant::now(),
        limit: Reloadable::new(plan(PLANS[0])),
        is_over: AtomicBool::new(false),
        decisions: AtomicU64::new(0),
        walked: AtomicU64::new(0),
    });
    for store in alone.stores.iter().chain(&pair.stores) {
        let limiter = RateLimiter::new(plan(PLANS[0]), store.clone());
        until("a connection", async || limiter.peek(&HOT).await.ok()).await;
    }
    // They may have told that they had not connected yet.
    let before = [&alone, &pair].map(|it| logged_by(it.name).len());
    let mut tasks = JoinSet::new();
    tasks.spawn(reload(Arc::clone(&soak)));
    for key in 0..HOT {
        for deployment in [&alone, &pair] {
            tasks.spawn(ask_hot(Arc::clone(&soak), Arc::clone(deployment), key));
        }
    }
    for first in 0..WALKERS {
        tasks.spawn(ask_many(Arc::clone(&soak), Arc::clone(&alone), first));
    }
    let faults = faults(&soak, (&alone, &stepped), (&pair, &sentinels), seconds);
    tokio::select! {
        () = faults => {}
        Some(ended) = tasks.join_next() => panic!("{ended:?}"),
    }
    soak.is_over.store(true, Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("nothing is wrong");
    }
    alone.ends(before[0]);
    pair.ends(before[1]);
}

/// One cycle after the other. Memory is compared with what it was when all keys had been asked for.
async fn faults(
    soak: &Soak,
    (alone, stepped): (&Deployment, &SteppedServer),
    (pair, sentinels): (&Deployment, &Sentinels),
    seconds: u64,
) {
    let (server, mut memory) = (stepped.server(), Vec::new());
    loop {
        let end = Instant::now() + CYCLE;
        let hang = async {
            server.stop_process();
            sleep(Duration::from_secs(3)).await;
            server.continue_process();
        };
        alone.meets("hangs", false, hang).await;
        let step_back = async { stepped.step(-3_000_000) };
        alone
            .meets("has its clock stepped back", false, step_back)
            .await;
        let fail_over = async {
            let dead = sentinels.kill_primary().await;
            sentinels.wait_for_failover().await;
            dead.restart().await;
            sentinels.replica_is_in_step().await;
        };
        pair.meets("fails over", true, fail_over).await;
        while Instant::now() < end || soak.walked.load(Relaxed) < MANY {
            sleep(Duration::from_secs(1)).await;
        }
        let keys: u64 = server.command("DBSIZE", &[]).await;
        memory.push(resident_bytes());
        let (elapsed, decisions) = (soak.begin.elapsed(), &soak.decisions);
        println!("{elapsed:?}: {decisions:?} decisions, {keys} keys, {memory:?} bytes");
        assert!(memory[memory.len() - 1] <= memory[0] + memory[0] / 10 + (4 << 20));
        if memory.len() > 1 && elapsed.as_secs() >= seconds {
            return;
        }
        let die = async {
            server.kill();
            sleep(Duration::from_millis(500)).await;
            server.restart().await;
        };
        alone.meets("dies", true, die).await;
    }
}
