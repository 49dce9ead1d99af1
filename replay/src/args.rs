//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tollgate_replay::log::Format;

/// The end of `--help`.
const EXAMPLE: &str = "\
A file of rules, rules.toml:
    [[rules]]
    name = \"login\"
    routes = [\"POST /login\"]
    key = \"address\"
    limit = { algorithm = \"token-bucket\", quota = \"5/min\" }

What it would have done to nginx's requests of today and of the days before:
    tollgate-replay rules.toml access.log access.log.1 <(zcat access.log.2.gz)
    zcat access.log.2.gz | tollgate-replay rules.toml - --html report.html

nginx writes a line when a request ends. With rt=$request_time at the end of its log_format, the
replay uses the time at which the request began. Behind proxies use the key \"client\": the log
then needs $http_x_forwarded_for, which nginx's format `main` has.

The exit code is 0, even if requests would be refused, and 2 after an error.";

/// Replays access logs against a file of rules: who would have been refused, when, and for how
/// long.
///
/// The rules decide as they would have in a layer at the time of each request, over buckets in
/// memory. Several logs are merged by time.
#[derive(Debug, Parser)]
#[command(name = "tollgate-replay", version, after_long_help = EXAMPLE)]
pub(crate) struct Args {
    /// The file of rules that the layer reads: TOML, or YAML or JSON if its name ends so.
    pub(crate) rules: PathBuf,
    /// The logs; `-` is standard input.
    #[arg(required = true)]
    pub(crate) logs: Vec<PathBuf>,
    /// The format of the logs; by default it is detected.
    #[arg(long, value_enum)]
    pub(crate) format: Option<LogForm>,
    /// Where an extension that the rules name is found: `NAME=remote_user`, or
    /// `NAME=header:FIELD`. May be given several times.
    #[arg(long = "extension", value_name = "NAME=SOURCE")]
    pub(crate) extensions: Vec<String>,
    /// The maximum of keys with a bucket of their own, for each limit.
    #[arg(long, value_name = "KEYS", default_value_t = 1_000_000)]
    pub(crate) max_keys: usize,
    /// How many of the most refused keys to show for each limit.
    #[arg(long, value_name = "KEYS", default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) top: u16,
    /// Shows header values whole, and not only their first few bytes.
    #[arg(long)]
    pub(crate) show_headers: bool,
    /// Prints JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the report as an HTML page to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Skips the runs with half and double of all quotas, bursts and capacities.
    #[arg(long)]
    pub(crate) no_what_if: bool,
}

/// The format of a log.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogForm {
    /// nginx's and Apache's `combined` or `common`.
    Combined,
    /// One JSON object a line.
    Json,
    /// What `tower-http`'s `TraceLayer` prints.
    Trace,
}

impl From<LogForm> for Format {
    fn from(form: LogForm) -> Self {
        match form {
            LogForm::Combined => Self::Combined,
            LogForm::Json => Self::Json,
            LogForm::Trace => Self::Trace,
        }
    }
}
