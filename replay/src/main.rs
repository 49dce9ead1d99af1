//! Replays access logs against a file of rules. `tollgate-replay --help` shows the usage.

#![forbid(unsafe_code)]

mod args;
mod run;

use std::process::ExitCode;

use clap::Parser;

/// The exit code after an error, of the command line or of a file.
const WRONG: u8 = 2;

fn main() -> ExitCode {
    match run::run(args::Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tollgate-replay: {why}");
            ExitCode::from(WRONG)
        }
    }
}
