//! Instructions that the program takes for each line of a log, counted by callgrind: they repeat
//! where times don't.
//!
//! `cargo bench -p tollgate-replay --bench instructions_of_a_line` prints a table, and fails if a
//! line takes more than its bound. Those are the most that was measured and a fiftieth to a
//! thirtieth more, as hashes differ from run to run: so that nobody makes it slower without
//! noticing. If you make it faster, lower them. The program reads logs of two lengths, and the
//! difference counts: not its start, and not the report. `scripts/instructions` installs valgrind
//! first, if it is not there.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use tollgate_benches::callgrind::instructions_of;

/// Lines of the shorter log, and how many more the longer one has. Requests of the first minute
/// are held to be sorted: the shorter log has them all.
const LINES: u64 = 20_000;

/// A form of lines, the options of the program, and the most instructions of a line.
type Bound = (
    &'static str,
    fn(&Line) -> String,
    &'static [&'static str],
    u64,
);

const BOUNDS: [Bound; 3] = [
    ("combined", combined, &["--no-what-if"], 8_950),
    ("combined, what if", combined, &[], 16_400),
    ("json", json, &["--no-what-if"], 13_600),
];

/// A limit of one route, and one of all.
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

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

fn main() -> ExitCode {
    // `cargo test --benches` and the like only see that it is built.
    if !env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let folder = env::temp_dir().join(format!("tollgate-instructions-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let passed = all_within(&folder);
    fs::remove_dir_all(folder).expect("the folder that was made");
    if passed {
        return ExitCode::SUCCESS;
    }
    eprintln!("a line takes more instructions than it may");
    ExitCode::FAILURE
}

fn all_within(folder: &Path) -> bool {
    let rules = folder.join("rules.toml");
    fs::write(&rules, RULES).expect("a file of rules");
    println!("| a line | instructions | at most |");
    println!("|---|---|---|");
    let mut passed = true;
    for (name, line_of, options, at_most) in BOUNDS {
        let of_log = |lines| {
            let log = folder.join("access.log");
            fs::write(&log, made(lines, line_of)).expect("a log");
            instructions(&rules, &log, options)
        };
        let of_a_line = (of_log(2 * LINES) - of_log(LINES)) / LINES;
        let is_less = of_a_line <= at_most;
        let mark = if is_less { "" } else { "**" };
        println!("| {name} | {mark}{of_a_line}{mark} | {at_most} |");
        passed &= is_less;
    }
    passed
}

/// Instructions of one run of the program.
fn instructions(rules: &Path, log: &Path, options: &[&str]) -> u64 {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tollgate-replay"));
    program.args(options).args([rules, log]);
    instructions_of(&program, &[])
}

/// What a line says.
struct Line {
    address: String,
    /// Of the day.
    time: String,
    method: &'static str,
    target: String,
    bytes: u64,
}

/// So many lines of up to 20 000 callers, about three hundred a second; the same on each machine.
fn made(lines: u64, line_of: fn(&Line) -> String) -> String {
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
        let (method, target) = match next() % 10 {
            0 => ("POST", "/login".to_owned()),
            _ => {
                let (item, page) = (next() % 1_000, next() % 9);
                ("GET", format!("/api/items/{item}?page={page}"))
            }
        };
        let line = Line {
            address: format!("198.51.{a}.{b}"),
            time: format!("{hour:02}:{minute:02}:{second:02}"),
            method,
            target,
            bytes: next() % 50_000,
        };
        let _ = writeln!(log, "{}", line_of(&line));
    }
    log
}

/// As nginx and Apache write it.
fn combined(line: &Line) -> String {
    let Line {
        address,
        time,
        method,
        target,
        bytes,
    } = line;
    format!(
        "{address} - - [22/Nov/2026:{time} +0000] \"{method} {target} HTTP/1.1\" 200 {bytes} \
         \"https://example.com/start\" \"{AGENT}\""
    )
}

/// As nginx writes it by a format of one's own.
fn json(line: &Line) -> String {
    format!(
        "{{\"time_iso8601\":\"2026-11-22T{}+00:00\",\"remote_addr\":\"{}\",\
         \"request_method\":\"{}\",\"request_uri\":\"{}\",\"status\":\"200\",\
         \"body_bytes_sent\":{},\"host\":\"example.com\",\"http_user_agent\":\"{AGENT}\"}}",
        line.time, line.address, line.method, line.target, line.bytes
    )
}
