//! The program takes no more memory for a long log than for a short one.

#![cfg(target_os = "linux")]

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
};

/// What the chapter `limits_from_a_file` says that a replay takes at most, with its own program.
const MAX_BYTES: u64 = 48_000_000;

/// So many lines, with long header fields; a thousand a second, of 20 000 callers.
const LINES: u64 = 250_000;

/// So much of the log is written at once.
const LINES_AT_ONCE: u64 = 1_000;

#[test]
fn a_log_many_times_larger_than_the_memory_is_read_in_it() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample/rules.toml");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate-replay"))
        .args(["--json", rules, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut bytes = 0;
    for begin in (0..LINES).step_by(LINES_AT_ONCE as usize) {
        let log = lines(begin..begin + LINES_AT_ONCE);
        input.write_all(log.as_bytes()).unwrap();
        bytes += log.len() as u64;
    }
    // All but what fits into a pipe is read, and nothing has ended yet.
    let peak = peak_bytes(child.id());
    drop(input);
    let mut report = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut report)
        .unwrap();
    assert!(child.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["requests"]["total"], LINES, "{report:#}");
    assert!(peak <= MAX_BYTES, "{peak} bytes, for a log of {bytes}");
    assert!(bytes >= 5 * MAX_BYTES, "a log of {bytes} is no large one");
}

/// The most memory that a process had at once, as the system tells it.
fn peak_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    kib.unwrap().trim().parse::<u64>().unwrap() * 1024
}

fn lines(numbers: std::ops::Range<u64>) -> String {
    let referer = "/a/page/of/some/length".repeat(40);
    let mut log = String::new();
    for number in numbers {
        let (second, caller) = (number / 1_000, number * 7_919 % 20_000);
        let request = ["POST /login", "GET /search?q=a"][number as usize % 2];
        writeln!(
            log,
            "198.51.{}.{} - - [22/Nov/2026:{:02}:{:02}:{:02} +0000] \"{request} HTTP/1.1\" \
             200 1234 \"https://example.com{referer}\" \"Mozilla/5.0 (X11)\"",
            caller / 250,
            caller % 250,
            second / 3_600 % 24,
            second / 60 % 60,
            second % 60,
        )
        .unwrap();
    }
    log
}
