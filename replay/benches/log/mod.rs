//! A log that is made, and the rules that it is asked about.

use std::fmt::Write as _;

/// A limit of one route, and one of all.
pub(crate) const RULES: &str = r#"
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

pub(crate) const AGENT: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

/// What a line says.
pub(crate) struct Line {
    pub(crate) address: String,
    /// Of the day.
    pub(crate) time: String,
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) bytes: u64,
}

/// So many lines of up to 20 000 callers, about three hundred a second; the same on each machine.
pub(crate) fn made(lines: u64, line_of: fn(&Line) -> String) -> String {
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
pub(crate) fn combined(line: &Line) -> String {
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
