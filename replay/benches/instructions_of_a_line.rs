//! Instructions that the program takes for each line of a log, counted by callgrind: they repeat
//! where times don't.
//!
//! `cargo bench -p tollgate-replay --bench instructions_of_a_line` prints a table, and fails if a
//! line takes more than its bound. Those are what was measured and a tenth more, as compilers and
//! libraries differ: so that nobody makes it slower without noticing. If you make it faster, lower
//! them. The program reads logs of two lengths, and the difference counts: not its start, and not
//! the report. `scripts/instructions` installs valgrind first, if it is not there.

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
};

mod log;

use log::{AGENT, Line, RULES, combined, made};
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
    ("combined", combined, &["--no-what-if"], 8_400),
    ("combined, what if", combined, &[], 15_000),
    ("json", json, &["--no-what-if"], 13_000),
];

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

/// As nginx writes it by a format of one's own.
fn json(line: &Line) -> String {
    format!(
        "{{\"time_iso8601\":\"2026-11-22T{}+00:00\",\"remote_addr\":\"{}\",\
         \"request_method\":\"{}\",\"request_uri\":\"{}\",\"status\":\"200\",\
         \"body_bytes_sent\":{},\"host\":\"example.com\",\"http_user_agent\":\"{AGENT}\"}}",
        line.time, line.address, line.method, line.target, line.bytes
    )
}

/// Instructions of one run of the program.
fn instructions(rules: &Path, log: &Path, options: &[&str]) -> u64 {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tollgate-replay"));
    program.args(options).args([rules, log]);
    instructions_of(&program, &[])
}
