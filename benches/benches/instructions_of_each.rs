//! Instructions of a check of every algorithm, beside governor's, counted by callgrind as in
//! `instructions`: in a program of its own, since what is inlined where, and so what is counted,
//! hangs on what else is in a program.
//!
//! `cargo bench -p tollgate-benches --bench instructions_of_each` prints a table, and fails if a
//! ratio is more than its bound: what was measured and 0.03 to 0.05 more. A new algorithm may take
//! as many as governor.

use std::{
    env,
    future::Future,
    hint::black_box,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    pin::pin,
    process::ExitCode,
    task::{Context, Poll, Waker},
    time::Duration,
};

use governor::DefaultKeyedRateLimiter;
use tollgate::{
    Quota, RateLimiter,
    algorithm::*,
    store::{EitherStore, LocalStore, Store},
};
use tollgate_algorithms::every_algorithm;
use tollgate_benches::callgrind::instructions_of_a_call;

#[path = "../../tests/support/mod.rs"]
mod support;
use support::Remote;

const KEYS: u32 = 1_000;
const CALLS: usize = 20_000;

/// A token bucket over an [`EitherStore`] that is one in memory. Of the time over that one it takes
/// no more than 1.05 (bench `decision`).
const EITHER: &str = "token bucket, either store";

/// What a check of each algorithm may take of governor's, by its name in the list.
fn at_most(algorithm: &str) -> f64 {
    match algorithm {
        // Each key is as good as fresh at its next visit, so that it leaves and comes back.
        "min interval" => 1.97,
        // A log works its status out at once.
        "sliding log" | "sliding log per request" => 1.27,
        "sliding buckets" | "strict buckets" => 0.96,
        "fixed window" | "window from first request" => 0.64,
        "sliding window" => 0.70,
        "token bucket"
        | "token bucket with burst"
        | "leaky bucket"
        | "leaky bucket queue"
        | "leaky bucket that waits"
        | "token bucket that waits"
        | "gcra"
        | "token bucket per request" => 0.67,
        EITHER => 0.74,
        _ => 1.0,
    }
}

macro_rules! names {
    (
        ($quota:ident, $burst:ident, $precision:ident, $interval:ident)
        $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+
    ) => {
        [$($name),+]
    };
}
fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, flag, name] = &arguments[..]
        && flag == "--subject"
    {
        subject(name);
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let governor = count("governor");
    println!("| algorithm | instructions | of governor's {governor:.0} | at most |");
    println!("|---|---|---|---|");
    let mut passed = true;
    let names = every_algorithm!(names, quota, burst, precision, interval);
    for name in names.into_iter().chain([EITHER]) {
        let (counted, at_most) = (count(name), at_most(name));
        let ratio = counted / governor;
        let is_less = ratio <= at_most;
        let mark = if is_less { "" } else { "**" };
        println!("| {name} | {counted:.0} | {mark}{ratio:.2}{mark} | {at_most:.2} |");
        passed &= is_less;
    }
    if passed {
        return ExitCode::SUCCESS;
    }
    eprintln!("a decision takes more instructions than it may");
    ExitCode::FAILURE
}

/// All that every algorithm is made of: units that are never used up, which come so slowly that no
/// key is as good as fresh; but one that is asked again after its interval.
const QUOTA: Quota = Quota::per_hour(3_600);
const INTERVAL: Duration = Duration::from_micros(1);

fn subject(wanted: &str) {
    macro_rules! check_it {
        (
            ($quota:ident, $burst:ident, $precision:ident, $interval:ident)
            $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+
        ) => {
            match wanted {
                $($name => check(RateLimiter::new($algorithm, LocalStore::new())),)+
                EITHER => {
                    type Local = LocalStore<TokenBucket, IpAddr>;
                    let store = EitherStore::<Local, Remote<Local>>::Left(LocalStore::new());
                    check(RateLimiter::new(TokenBucket::new(QUOTA), black_box(store)));
                }
                "governor" => governor(),
                _ => panic!("there is no subject {wanted}"),
            }
        };
    }
    let (quota, interval) = (QUOTA, INTERVAL);
    let (burst, precision) = (quota.units(), quota.period() / 10);
    every_algorithm!(check_it, quota, burst, precision, interval);
}

fn check<A: KeyLimit, S: Store<A, IpAddr>>(limiter: RateLimiter<A, S>) {
    // As in a task, it is there before the check is.
    let mut cx = Context::from_waker(Waker::noop());
    run(|key| {
        let decision = match pin!(limiter.check(key)).poll(&mut cx) {
            Poll::Ready(decision) => decision,
            Poll::Pending => unreachable!("a store in memory is never pending"),
        };
        decision.expect("nor does it fail").is_admitted()
    });
}

fn governor() {
    let quota = governor::Quota::with_period(Duration::from_secs(1)).expect("not zero");
    let quota = quota.allow_burst(NonZeroU32::new(1_000_000_000).expect("not zero"));
    let limiter: DefaultKeyedRateLimiter<IpAddr> = governor::RateLimiter::keyed(quota);
    run(|key| limiter.check_key(key).is_ok());
}

/// Instructions of one call, of a process of its own.
fn count(name: &str) -> f64 {
    instructions_of_a_call(&["--subject", name], ("measured_calls", CALLS))
}

/// Keys are known before calls are counted, and in an order that says nothing about their hashes.
fn run(mut call: impl FnMut(&IpAddr) -> bool) {
    let scattered = |number: u32| number.wrapping_mul(0x9E37_79B1);
    let address = |number| Ipv4Addr::from(scattered(number)).into();
    let keys: Vec<IpAddr> = (0..KEYS).map(address).collect();
    for _ in 0..3 {
        for key in &keys {
            call(key);
        }
    }
    measured_calls(&keys, |key| black_box(call(key)));
}

#[inline(never)]
fn measured_calls(keys: &[IpAddr], mut call: impl FnMut(&IpAddr) -> bool) {
    for key in keys.iter().cycle().take(CALLS) {
        call(key);
    }
}
