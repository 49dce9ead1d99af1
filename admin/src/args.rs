//! The command line.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};

/// The end of `--help`.
const EXAMPLE: &str = "\
Who is refused a login from this address, and how many are left:
    tollgate-admin rules.toml look --request 'POST /login' --peer 192.0.2.1

Refuses an account for a day, whatever its limit says; then lets it go on:
    tollgate-admin rules.toml refuse 1day --header 'x-account: ann' --limit accounts
    tollgate-admin rules.toml reset --header 'x-account: ann' --limit accounts

The limits are found as a layer finds them: by a request like one of the caller's. What stands in
Redis is found by the names and the keys of the rules, so it must be the file that the layer reads,
and the same prefix, hash tag and digest key.

The exit code is 0, even if the caller is refused, and 2 after an error.";

/// Looks at the limits of one caller in Redis, resets them, and refuses or lets the caller through.
#[derive(Debug, Parser)]
#[command(name = "tollgate-admin", version, after_long_help = EXAMPLE)]
pub(crate) struct Args {
    /// The file of rules that the layer reads: TOML, or YAML or JSON if its name ends so.
    pub(crate) rules: PathBuf,
    #[command(subcommand)]
    pub(crate) act: Act,
    #[command(flatten)]
    pub(crate) caller: Caller,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Also acts on a key that callers share.
    #[arg(long, global = true)]
    pub(crate) everyone: bool,
}

/// What is done.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Act {
    /// Shows what each limit would say to a request of cost 1; charges nothing.
    Look,
    /// Forgets what was charged, and ends what was said of the caller.
    Reset,
    /// Refuses every request for so long. What was charged is forgotten.
    Refuse {
        /// As in `90s`, `2h` or `1day`.
        #[arg(value_parser = span)]
        span: Duration,
    },
    /// Lets every request through for so long, without charging it. What was charged is forgotten.
    LetThrough {
        /// As in `90s`, `2h` or `1day`.
        #[arg(value_parser = span)]
        span: Duration,
    },
}

/// A request of the caller.
#[derive(Debug, clap::Args)]
pub(crate) struct Caller {
    /// Its method and path; if the layer sees routes, its route, as in `GET /users/{id}`.
    #[arg(long, global = true, value_name = "METHOD PATH", default_value = "GET /", value_parser = request)]
    pub(crate) request: (String, String),
    /// A header field, as in `x-account: ann`. May be given several times.
    #[arg(long = "header", global = true, value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The address of the peer.
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub(crate) peer: Option<IpAddr>,
    /// The value of an extension that the rules name. May be given several times.
    #[arg(long = "extension", global = true, value_name = "NAME=VALUE", value_parser = extension)]
    pub(crate) extensions: Vec<(String, String)>,
    /// Only this limit of those that apply to the request.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) limit: Option<String>,
}

/// Where the buckets are.
#[derive(Debug, clap::Args)]
pub(crate) struct Server {
    /// The URL of Redis. In the variable no other user of the machine sees its password.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub(crate) redis: String,
    /// The prefix of the store.
    #[arg(long, global = true, default_value = "tollgate")]
    pub(crate) prefix: String,
    /// The hash tag of the store, if it has one.
    #[arg(long, global = true, value_name = "TAG")]
    pub(crate) hash_tag: Option<String>,
    /// The digest key of the store, if it has one: 64 hexadecimal digits.
    #[arg(long, global = true, value_name = "KEY", env = "TOLLGATE_DIGEST_KEY",
        hide_env_values = true, value_parser = digest_key)]
    pub(crate) digest_key: Option<[u8; 32]>,
}

fn span(text: &str) -> Result<Duration, String> {
    playground::span::micros(text).map(Duration::from_micros)
}

fn request(text: &str) -> Result<(String, String), String> {
    parts(text, " ", "a method and a path, as in `GET /`")
}

fn header(text: &str) -> Result<(String, String), String> {
    parts(text, ":", "a name and a value, as in `x-account: ann`")
}

fn extension(text: &str) -> Result<(String, String), String> {
    parts(text, "=", "a name and a value, as in `user=ann`")
}

fn parts(text: &str, between: &str, wanted: &str) -> Result<(String, String), String> {
    let (first, second) = text.split_once(between).ok_or(wanted)?;
    Ok((first.trim().to_owned(), second.trim().to_owned()))
}

fn digest_key(text: &str) -> Result<[u8; 32], String> {
    let digits = text.chars().all(|digit| digit.is_ascii_hexdigit());
    let text = if digits { text } else { "" };
    let digit = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    key.ok_or_else(|| "it must be 64 hexadecimal digits".to_owned())
}
