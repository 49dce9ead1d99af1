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
    fs::{self, File},
    io::{BufReader, Read},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

mod log;

use log::{RULES, combined, made};
use tollgate_replay::{
    extensions::ExtensionSources,
    input::Input,
    key_text::HeaderValues,
    replay::replay,
    rules_file::{RulesFile, Scale},
    scenario::{Scenario, Setting},
};

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
    fs::write(&log, made(lines, combined))?;
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
