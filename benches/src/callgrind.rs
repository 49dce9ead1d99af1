//! Instructions, counted by callgrind.

use std::{env, process::Command};

/// Instructions of a call. This program runs under valgrind once more, with these arguments, and
/// makes so many calls in a function whose name has `measured` in it: only what that does counts.
///
/// # Panics
///
/// Valgrind does not start, or says no number.
pub fn instructions_of_a_call(arguments: &[&str], (measured, calls): (&str, usize)) -> f64 {
    let mut program = Command::new(env::current_exe().expect("a path"));
    program.args(arguments);
    let only_measured = format!("--toggle-collect=*{measured}*");
    instructions_of(&program, &[&only_measured]) as f64 / calls as f64
}

/// Instructions of a run of this program under valgrind with these options.
///
/// # Panics
///
/// Valgrind does not start, or says no number; the program fails.
pub fn instructions_of(program: &Command, options: &[&str]) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(options)
        .arg(program.get_program())
        .args(program.get_args())
        .output()
        .unwrap_or_else(|error| panic!("valgrind, which counts, does not start: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let collected = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, number) = collected.unwrap_or_else(|| panic!("callgrind says: {text}"));
    number.trim().parse().expect("a number")
}
