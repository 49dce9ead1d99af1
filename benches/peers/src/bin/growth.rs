//! Resident memory while ever new keys come, each of which is as good as fresh soon after.
//!
//! Each subject has a process of its own: this one, with its name as the argument.

use std::{
    env,
    process::Command,
    time::{Duration, Instant},
};

use memory_stats::memory_stats;
use throttlecrab::PeriodicStore;
use tollgate_peers::{
    keys::NumberedKey,
    limit::Limit,
    own::{Bare, token_bucket},
    peers::{
        AxumGcra, Governor, Limitador, Limiter, SkpRatelimit, ThrottleKit, Throttlecrab, Trypema,
    },
    quick, table,
};
use trypema::{RateLimiterBuilder, local::LocalRateLimiterProvider};

/// A key says no more than a fresh one a tenth of a second after its request.
const LIMIT: Limit = Limit {
    interval: Duration::from_millis(100),
    burst: 2,
};

/// The shortest window of those that count in windows, and the time between clean-ups of those that
/// let it be chosen.
const SECOND: Duration = Duration::from_secs(1);

/// New keys in a second, one request each: no limiter here is too slow for it.
const KEYS_PER_SECOND: u32 = 100_000;

const TEXT: &str = "Resident memory while 100 000 new string keys come in each second, each with one request and as \
    good as fresh a tenth of a second later. The slope is that of the second half, by least squares: bytes \
    for each new key. A limiter that forgets is at 0, but for noise. Where the time between clean-ups can be chosen \
    it is a second, the others are as they are by \
    default; limitador was given room for two million keys, and grows until they are there.";

const SUBJECTS: [&str; 9] = [
    "tollgate",
    "governor",
    "governor, `retain_recent` each second",
    "axum_gcra",
    "throttle-kit",
    "throttlecrab",
    "skp-ratelimit",
    "trypema",
    "limitador",
];

fn main() {
    if let Some(name) = env::args().nth(1) {
        return measure(&name);
    }
    table::section("Memory over time", TEXT);
    table::head(&[
        "limiter",
        "seconds",
        "MB at the end",
        "bytes for each new key, in the second half",
    ]);
    let program = env::current_exe().expect("a path");
    for name in SUBJECTS {
        let status = Command::new(&program).arg(name).status();
        assert!(status.expect("it starts").success(), "{name}");
    }
}

fn measure(name: &str) {
    match name {
        "tollgate" => grow(name, Bare::new(token_bucket(LIMIT)), |_| {}),
        "governor" => grow(name, Governor::new(LIMIT), |_| {}),
        "axum_gcra" => grow(name, AxumGcra::new(LIMIT), |_| {}),
        "throttle-kit" => grow(name, ThrottleKit::new(LIMIT), |_| {}),
        "throttlecrab" => {
            let store = PeriodicStore::builder().cleanup_interval(SECOND).build();
            grow(name, Throttlecrab::over(store, LIMIT), |_| {});
        }
        "skp-ratelimit" => grow(name, SkpRatelimit::new(LIMIT), |_| {}),
        // The shortest window of those that count in windows is a second.
        "trypema" => {
            let builder = LocalRateLimiterProvider::builder().cleanup_interval(SECOND);
            let builder = builder.stale_after(SECOND);
            grow(name, Trypema::built_by(builder, 2, SECOND), |_| {});
        }
        "limitador" => grow(name, Limitador::per_window(&[(2, SECOND)]), |_| {}),
        _ => grow(name, Governor::new(LIMIT), |limiter| {
            limiter.0.retain_recent()
        }),
    }
}

fn grow<L: Limiter<String>>(name: &str, limiter: L, each_second: impl Fn(&L)) {
    let seconds = if quick() { 2 } else { 12 };
    let start = Instant::now();
    let (mut number, mut samples) = (0, Vec::new());
    // Ten times a second a tenth of the keys.
    for tick in 1..=seconds * 10 {
        for _ in 0..KEYS_PER_SECOND / 10 {
            number += 1;
            limiter.admits(&String::numbered(number));
        }
        if tick % 10 == 0 {
            each_second(&limiter);
        }
        samples.push((f64::from(number), resident_bytes()));
        let due = start + Duration::from_millis(100) * tick;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let megabytes = resident_bytes() / 1e6;
    let slope = slope(&samples[samples.len() / 2..]);
    table::row(&[
        &name,
        &seconds,
        &format!("{megabytes:.0}"),
        &format!("{slope:.0}"),
    ]);
}

fn resident_bytes() -> f64 {
    memory_stats().expect("the system tells it").physical_mem as f64
}

/// By least squares.
fn slope(samples: &[(f64, f64)]) -> f64 {
    let count = samples.len() as f64;
    let mean_x = samples.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = samples.iter().map(|(_, y)| y).sum::<f64>() / count;
    let of_both: f64 = samples
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    let of_x: f64 = samples.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    of_both / of_x
}
