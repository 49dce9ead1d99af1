//! Replays access logs against a file of rules. `tollgate-replay --help` says how it is called.

#![forbid(unsafe_code)]

mod args;
mod run;

use std::process::ExitCode;

use clap::Parser;

/// What is told of a wrong command line or a wrong file.
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
