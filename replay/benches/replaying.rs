//! How many lines of a log are replayed in a second of a processor, beside a bare count of the same
//! lines.
//!
//! ```text
//! cargo bench -p tollgate-replay --bench replaying
//! ```
//!
//! The log is made here: a million combined lines of up to 20 000 callers, some of whom come far
//! more often than others. All take turns, and the best turn of each counts. Where the system tells
//! it, time is that of the processors together, so that *what if*, whose runs have threads of their
//! own, is told as one core would do it.

use std::{
    fmt::Write,
    fs::{self, File},
    io::{BufReader, Read},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tollgate_replay::{
    extensions::ExtensionSources,
    input::Input,
    key_text::HeaderValues,
    replay::replay,
    rules_file::{RulesFile, Scale},
    scenario::{Scenario, Setting},
};

const RULES: &str = r#"
[[rules]]
name = "login"
routes = ["POST /login"]
key = "address"
limit = { algorithm = "fixed-window", quota = "10/min" }

[[rules]]
name = "api"
key = "address"
limit = { algorithm = "token-bucket", quota = "1/s", burst = 10 }
"#;

const LINES: u64 = 1_000_000;
const TURNS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo test --benches` and the like only see that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (lines, turns) = if is_bench {
        (LINES, TURNS)
    } else {
        (20_000, 1)
    };
    let folder = std::env::temp_dir().join(format!("tollgate-replay-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (log, rules) = (folder.join("access.log"), folder.join("rules.toml"));
    fs::write(&log, made(lines))?;
    fs::write(&rules, RULES)?;
    let file = RulesFile::read(&rules)?;
    let mut table = [("count of lines", Duration::MAX); 4];
    for _ in 0..turns {
        let counted = timed(|| count(&log))?;
        let read = timed(|| {
            Ok(Input::open(std::slice::from_ref(&log), None, None)?
                .0
                .count() as u64)
        })?;
        let without = timed(|| replayed(&file, &log, &[Scale::Same]))?;
        let with = timed(|| replayed(&file, &log, &[Scale::Same, Scale::Half, Scale::Double]))?;
        let rows = [
            ("count of lines", counted),
            ("reading only", read),
            ("without what-if", without),
            ("with what-if", with),
        ];
        for (best, (name, (took, found))) in table.iter_mut().zip(rows) {
            assert_eq!(found, lines, "{name}");
            *best = (name, best.1.min(took));
        }
    }
    fs::remove_dir_all(folder)?;
    let bare = table[0].1;
    for (name, took) in table {
        let a_second = lines as f64 / took.as_secs_f64();
        let ratio = took.as_secs_f64() / bare.as_secs_f64();
        println!("{name:<16} {a_second:>12.0} lines/s, {ratio:>6.1} times the time of the count");
    }
    Ok(())
}

fn timed(
    run: impl FnOnce() -> Result<u64, Box<dyn std::error::Error>>,
) -> Result<(Duration, u64), Box<dyn std::error::Error>> {
    let (start, began_on_cpu) = (Instant::now(), time_on_cpus());
    let found = run()?;
    let on_cpus = time_on_cpus().zip(began_on_cpu);
    Ok((
        on_cpus.map_or(start.elapsed(), |(end, begin)| end - begin),
        found,
    ))
}

/// How long all threads of this process have run, those that have ended included; without what
/// other processes took.
fn time_on_cpus() -> Option<Duration> {
    const TICKS_A_SECOND: u64 = 100;

    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let ticks = ticks(11)? + ticks(12)?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS_A_SECOND))
}

fn count(log: &PathBuf) -> Result<u64, Box<dyn std::error::Error>> {
    let mut input = BufReader::new(File::open(log)?);
    let (mut buffer, mut lines) = (vec![0; 256 * 1024], 0);
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok(lines),
            read => lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
}

fn replayed(
    file: &RulesFile,
    log: &PathBuf,
    scales: &[Scale],
) -> Result<u64, Box<dyn std::error::Error>> {
    let extensions = ExtensionSources::default();
    let setting = Arc::new(Setting {
        limits: file.limits(),
        extensions: extensions.clone(),
        header_values: HeaderValues::Cut,
        max_keys: 1_000_000,
    });
    let mut scenarios = Vec::new();
    for scale in scales {
        let rules = file.scaled(*scale, &extensions)?;
        scenarios.push(Scenario::new(
            &setting,
            rules,
            *scale,
            *scale == Scale::Same,
        )?);
    }
    let names = file.header_names(&extensions);
    let (input, _) = Input::open(std::slice::from_ref(log), None, Some(&names))?;
    let decided = replay(input, &extensions, scenarios)?;
    assert!(decided[0].counts.refused > 0);
    Ok(decided[0].counts.requests)
}

/// So many lines, about three hundred a second; the same on each machine.
fn made(lines: u64) -> String {
    let (mut log, mut random) = (String::new(), 88_172_645_463_325_252_u64);
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for line in 0..lines {
        let second = line / 300;
        let (hour, minute, second) = (second / 3_600 % 24, second / 60 % 60, second % 60);
        // The lower the number, the more often it comes.
        let part = |random: u64| (random % 20_000) as f64 / 20_000.0;
        let caller = (20_000.0 * part(next()) * part(next()) * part(next()) * part(next())) as u64;
        let (a, b) = (caller / 250, caller % 250);
        let request = match next() % 10 {
            0 => "POST /login".to_owned(),
            _ => format!("GET /api/items/{}?page={}", next() % 1_000, next() % 9),
        };
        let _ = writeln!(
            log,
            "198.51.{a}.{b} - - [22/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] \
             \"{request} HTTP/1.1\" 200 {} \"https://example.com/start\" \"Mozilla/5.0 (X11; Linux \
             x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\"",
            next() % 50_000
        );
    }
    log
}
