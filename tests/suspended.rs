//! A process that is stopped, and a runtime whose time is turned: by the system's clock nobody gets
//! more than a burst.
#![cfg(unix)]

use std::{
    env,
    io::{BufRead, BufReader, Write, stdin},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::at_one_instant::let_through_at_one_instant;
use tollgate::{Decision, Quota, RateLimiter, algorithm::*, store::LocalStore};
use tollgate_algorithms::for_every_algorithm;

const UNITS: u64 = 5;
const PERIOD: Duration = Duration::from_secs(2);

/// More than any of them takes to be as good as fresh.
const STOPPED: Duration = Duration::from_secs(5);

/// Tells the test's own program that it is the one that is stopped.
const CHILD: &str = "TOLLGATE_IS_STOPPED";

/// One key of a limiter.
struct Limit {
    name: &'static str,
    /// What its algorithm lets through at one instant.
    burst: u64,
    ask: Ask,
}

type Ask = Box<dyn Fn() -> Decision>;

fn limit(name: &'static str, algorithm: impl KeyLimit) -> Limit {
    let burst = let_through_at_one_instant(&algorithm);
    let limiter = RateLimiter::new(algorithm, LocalStore::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let ask = Box::new(move || runtime.block_on(limiter.check("bob")).unwrap());
    Limit { name, burst, ask }
}

fn every_limit() -> Vec<Limit> {
    let (quota, burst) = (Quota::new(UNITS, PERIOD), UNITS - 1);
    let (precision, interval) = (PERIOD / 10, PERIOD);
    let mut limits = Vec::new();
    for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
        limits.push(limit(name, rule))
    });
    limits
}

/// How many are admitted until one is refused, and how long that took.
fn fill(ask: &Ask) -> (u64, Duration) {
    let begin = Instant::now();
    let mut admitted = 0;
    while ask().is_admitted() {
        admitted += 1;
    }
    (admitted, begin.elapsed())
}

#[test]
fn a_process_that_was_stopped_admits_a_burst_and_no_more() {
    if env::var_os(CHILD).is_some() {
        return be_stopped();
    }
    let this_test = "suspended::a_process_that_was_stopped_admits_a_burst_and_no_more";
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", this_test, "--nocapture"]);
    child.env(CHILD, "yes");
    child.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Ended(child.spawn().unwrap());
    let mut says = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut next = |what: &str| {
        let mut lines = says.by_ref().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with(what));
        line.unwrap_or_else(|| panic!("the process did not say: {what}"))
    };
    next("full");
    signal(&child.0, "STOP");
    thread::sleep(STOPPED);
    // It is asked as soon as it goes on.
    let mut stdin = child.0.stdin.take().unwrap();
    writeln!(stdin, "go on").unwrap();
    signal(&child.0, "CONT");
    let admitted = next("admitted");
    assert!(child.0.wait().unwrap().success(), "{admitted}");
}

/// Fills every limit, waits for a word, and fills it again.
fn be_stopped() {
    let limits = every_limit();
    for Limit { name, burst, ask } in &limits {
        assert!(fill(ask).0 >= *burst, "{name}");
    }
    let stopped = Instant::now();
    println!("full");
    stdin().read_line(&mut String::new()).unwrap();
    assert!(stopped.elapsed() >= STOPPED, "it was not stopped");
    let mut all = 0;
    for Limit { name, burst, ask } in &limits {
        let (admitted, took) = fill(ask);
        // On a loaded machine more comes back meanwhile, or a window ends; else it is the burst to
        // the unit.
        let periods = took.as_nanos() / PERIOD.as_nanos() + 1;
        let most = burst + UNITS * u64::try_from(periods).unwrap();
        let most = if took < PERIOD / 10 && *name != "fixed window" {
            *burst
        } else {
            most
        };
        let is_within = (*burst..=most).contains(&admitted);
        assert!(is_within, "{name}: {admitted} in {took:?}");
        all += admitted;
    }
    println!("admitted {all}");
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args(["-s", name, &id]).status();
    assert!(status.unwrap().success(), "no {name} for {id}");
}

/// A process that ends with the test, also if that panics.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_runtime_that_is_turned_refills_nothing() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(UNITS)), LocalStore::new());
    for _ in 0..UNITS {
        assert!(limiter.check("bob").await.unwrap().is_admitted());
    }
    tokio::time::advance(Duration::from_secs(86_400)).await;
    assert!(!limiter.check("bob").await.unwrap().is_admitted());
}
