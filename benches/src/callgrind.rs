//! Instructions, counted by callgrind.

use std::{env, process::Command};

/// Instructions of a call. This program runs under valgrind once more, with these arguments, and
/// makes so many calls in a function whose name has `measured` in it: only what that does counts.
///
/// # Panics
///
/// Valgrind does not start, or says no number.
pub fn instructions_of_a_call(arguments: &[&str], (measured, calls): (&str, usize)) -> f64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*{measured}*"))
        .arg(env::current_exe().expect("a path"))
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("valgrind, which counts, does not start: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, number) = collected.unwrap_or_else(|| panic!("callgrind says: {text}"));
    number.trim().parse::<f64>().expect("a number") / calls as f64
}
