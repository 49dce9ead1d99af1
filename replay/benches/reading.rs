//! How many lines of a log are read in a second, beside a bare count of the same lines.
//!
//!     cargo bench -p tollgate-replay --bench reading
//!
//! Both take turns on a log of a million lines in memory, and the best turn of each counts.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use tollgate_replay::log::{Format, Options, Reader};

const LINES: u64 = 1_000_000;
const TURNS: usize = 5;

/// The line of an index.
type Line = fn(u64) -> String;

fn main() {
    // `cargo test --benches` and the like only see that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (lines, turns) = if is_bench { (LINES, TURNS) } else { (1000, 1) };
    let logs: [(&str, Format, Line); 4] = [
        ("combined", Format::Combined, combined),
        (
            "combined, durations",
            Format::Combined,
            combined_with_duration,
        ),
        ("json", Format::Json, json),
        ("trace", Format::Trace, trace),
    ];
    println!("log                  bytes/line  lines/s   ns/line  bare count ns/line");
    for (name, format, line) in logs {
        let mut log = String::new();
        for index in 0..lines {
            writeln!(log, "{}", line(index)).unwrap();
        }
        let mut reading = Duration::MAX;
        let mut counting = Duration::MAX;
        for _ in 0..turns {
            counting = counting.min(timed(|| assert_eq!(count(log.as_bytes()), lines)));
            reading = reading.min(timed(|| assert_eq!(read(log.as_bytes(), format), lines)));
        }
        let each = |time: Duration| time.as_nanos() as f64 / lines as f64;
        println!(
            "{name:<20} {:>10} {:>9.0} {:>8.0} {:>8.0}",
            log.len() as u64 / lines,
            1e9 / each(reading),
            each(reading),
            each(counting),
        );
    }
}

fn timed(run: impl FnOnce()) -> Duration {
    let (begin, began_on_cpu) = (Instant::now(), time_on_cpu());
    run();
    let on_cpu = time_on_cpu().zip(began_on_cpu);
    on_cpu.map_or(begin.elapsed(), |(end, begin)| end - begin)
}

/// How long this thread has run, without what other processes took; where the system tells it.
fn time_on_cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = stat.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn count(log: &[u8]) -> u64 {
    let mut input = BufReader::with_capacity(64 * 1024, log);
    let (mut line, mut count) = (Vec::new(), 0);
    while input.read_until(b'\n', &mut line).unwrap() > 0 {
        line.clear();
        count += 1;
    }
    count
}

fn read(log: &[u8], format: Format) -> u64 {
    let input = BufReader::with_capacity(64 * 1024, log);
    let reader = Reader::new(input, Some(format), Options::default()).unwrap();
    reader.inspect(|logged| assert!(logged.is_ok())).count() as u64
}

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

/// A thousand requests a second.
fn second(index: u64) -> u64 {
    (index / 1000) % 60
}

fn minute(index: u64) -> u64 {
    (index / 60_000) % 60
}

fn host(index: u64) -> u64 {
    index * 7919 % 251
}

/// Up to half a second.
fn duration_millis(index: u64) -> u64 {
    index * 104_729 % 499
}

fn combined(index: u64) -> String {
    format!(
        "192.0.2.{} - - [10/Oct/2025:13:{:02}:{:02} +0000] \"GET /api/items/{}?page={} HTTP/1.1\" \
         200 2326 \"https://example.com/shop\" \"{AGENT}\"",
        host(index),
        minute(index),
        second(index),
        index % 9973,
        index % 17,
    )
}

fn combined_with_duration(index: u64) -> String {
    format!("{} 0.{:03}", combined(index), duration_millis(index))
}

fn json(index: u64) -> String {
    format!(
        "{{\"time_iso8601\":\"2025-10-10T13:{:02}:{:02}+00:00\",\"remote_addr\":\"192.0.2.{}\",\
         \"request_method\":\"GET\",\"request_uri\":\"/api/items/{}\",\"status\":\"200\",\
         \"request_time\":\"0.{:03}\",\"host\":\"example.com\",\"http_user_agent\":\"{AGENT}\"}}",
        minute(index),
        second(index),
        host(index),
        index % 9973,
        duration_millis(index),
    )
}

fn trace(index: u64) -> String {
    format!(
        "2025-10-10T13:{:02}:{:02}.{:03}000Z DEBUG request{{method=GET uri=/api/items/{} \
         version=HTTP/1.1}}: tower_http::trace::on_response: finished processing request \
         latency={} ms status=200",
        minute(index),
        second(index),
        index % 1000,
        index % 9973,
        duration_millis(index),
    )
}
