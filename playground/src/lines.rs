//! A limit as a line of Rust, and as the lines of a file.

use std::fmt::Write;

use serde_json::Value;
use tollgate::Quota;

use crate::{field::METHODS, limit::Limit, span::SECOND, tuple::Tuple};

/// The fields that a file has beside `algorithm` and `name`, in the order in which the docs have
/// them.
fn fields(limit: &Limit) -> Vec<(&str, &Value)> {
    let stand_apart = METHODS.map(|(field, _)| field);
    let stand_apart = [&stand_apart[..], &["algorithm", "name"]].concat();
    let place = |name: &str| {
        let place = limit.entry().fields.iter().position(|it| it.name == name);
        place.unwrap_or(usize::MAX)
    };
    let fields = limit.fields().iter().map(|(name, value)| (&**name, value));
    let mut fields: Vec<_> = fields
        .filter(|(name, _)| !stand_apart.contains(name))
        .collect();
    fields.sort_by_key(|(name, _)| place(name));
    fields
}

/// The lines of a TOML file that tollgate reads as this limit.
pub fn toml(limit: &Limit) -> String {
    let mut lines = String::new();
    let mut line = |field: &str, value: &Value| {
        let _ = writeln!(lines, "{field} = {value}");
    };
    line("algorithm", &limit.entry().name.into());
    for (field, value) in fields(limit) {
        line(field, value);
    }
    if let Some(name) = limit.fields().get("name") {
        line("name", name);
    }
    for (field, method) in METHODS {
        if limit.is_set(field) {
            let _ = writeln!(lines, "# and in the program: {method} on what was read");
        }
    }
    lines
}

/// The lines of a TOML file that tollgate reads as this tuple, in a field of its own.
pub fn tuple_toml(tuple: &Tuple) -> String {
    match tuple.members() {
        [limit] => toml(limit),
        members => {
            let tables = members
                .iter()
                .map(|limit| format!("[[limits]]\n{}", toml(limit)));
            tables.collect::<Vec<_>>().join("\n")
        }
    }
}

/// The Rust that makes this tuple.
pub fn tuple_rust(tuple: &Tuple) -> String {
    match tuple.members() {
        [limit] => rust(limit),
        members => {
            let lines: Vec<_> = members.iter().map(rust).collect();
            format!("(\n    {},\n)", lines.join(",\n    "))
        }
    }
}

/// The Rust that makes this limit.
pub fn rust(limit: &Limit) -> String {
    let is_needed = |name: &str| {
        let mut fields = limit.entry().fields.iter();
        fields.any(|field| field.name == name && field.needed.is_some())
    };
    let (mut needs, mut has) = (Vec::new(), String::new());
    for (name, value) in fields(limit) {
        let argument = in_rust(limit, name, value);
        match is_needed(name) {
            true => needs.push(argument),
            false if *value == false => {}
            false => {
                let _ = write!(has, ".{}({argument})", name.replace('-', "_"));
            }
        }
    }
    let name = limit.entry().name;
    // It is made of a bucket.
    let (made, end) = match name.strip_suffix("-queue") {
        Some(bucket) => (bucket, ".queue()"),
        None => (name, ""),
    };
    let mut line: String = made.split('-').map(capitalized).collect();
    let _ = write!(line, "::new({}){has}{end}", needs.join(", "));
    if let Some(name) = limit.text("name") {
        let _ = write!(line, ".named({})", Value::from(name));
    }
    for (field, method) in METHODS {
        if limit.is_set(field) {
            line.push_str(method);
        }
    }
    line
}

fn capitalized(word: &str) -> String {
    let (first, others) = word.split_at(1);
    first.to_uppercase() + others
}

/// The value of a field, as the argument of a method; none of one that is only called.
fn in_rust(limit: &Limit, name: &str, value: &Value) -> String {
    match value {
        Value::Bool(_) => String::new(),
        Value::String(_) if name == "quota" => limit.quota().map(quota_in_rust).unwrap_or_default(),
        Value::String(_) => limit.micros(name).map(span_in_rust).unwrap_or_default(),
        number => number.to_string(),
    }
}

fn quota_in_rust(quota: Quota) -> String {
    let units = quota.units();
    match quota.period().as_secs_f64() {
        1.0 => format!("Quota::per_second({units})"),
        60.0 => format!("Quota::per_minute({units})"),
        3_600.0 => format!("Quota::per_hour({units})"),
        86_400.0 => format!("Quota::per_day({units})"),
        _ => {
            let micros = quota.period().as_micros() as u64;
            format!("Quota::new({units}, {})", span_in_rust(micros))
        }
    }
}

fn span_in_rust(micros: u64) -> String {
    match micros {
        _ if micros.is_multiple_of(SECOND) => {
            format!("Duration::from_secs({})", micros / SECOND)
        }
        _ if micros.is_multiple_of(1_000) => {
            format!("Duration::from_millis({})", micros / 1_000)
        }
        _ => format!("Duration::from_micros({micros})"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::algorithm::{
        FixedWindow, Gcra, InFlight, KeyLimit, LeakyBucket, MinInterval, SlidingBuckets,
        SlidingLog, SlidingWindow, TokenBucket,
    };

    use super::*;
    use crate::limit::Fields;

    /// An algorithm's policy without a name is its algorithm and its numbers.
    fn shown(rule: &impl KeyLimit) -> String {
        format!("{:?}", rule.policy_id())
    }

    fn shown_of(fields: Fields) -> String {
        shown(Limit::read(fields).unwrap().rule())
    }

    /// The line is this code, this code is that limit, and so are the lines of the file.
    macro_rules! is_code {
        ($($json:literal is $code:expr;)+) => {
            $({
                let limit = Limit::of($json);
                let without_spaces = |text: &str| text.replace(char::is_whitespace, "");
                let code = without_spaces(stringify!($code));
                assert_eq!(without_spaces(&rust(&limit)), code);
                assert_eq!(shown(limit.rule()), shown(&$code), "{}", $json);
                let lines = toml(&limit);
                let read: Fields = ::toml::from_str(&lines).unwrap();
                assert_eq!(shown_of(read), shown(&$code), "{lines}");
                assert_eq!(lines.lines().count(), limit.fields().len(), "{lines}");
            })+
        };
    }

    #[test]
    fn what_no_file_has_is_a_method_in_rust_and_a_comment_in_the_file() {
        let held = r#"{"algorithm": "gcra", "quota": "20/s", "name": "api", "settled": true}"#;
        let (limit, code) = (
            Limit::of(held),
            Gcra::new(Quota::per_second(20)).named("api").settled(),
        );
        let line = r#"Gcra::new(Quota::per_second(20)).named("api").settled()"#;
        assert_eq!(rust(&limit), line);
        assert_eq!(shown(limit.rule()), shown(&code));
        let lines = toml(&limit);
        let comment = "# and in the program: .settled() on what was read\n";
        assert!(lines.ends_with(comment), "{lines}");
        let read: Fields = ::toml::from_str(&lines).unwrap();
        let plain = Gcra::new(Quota::per_second(20)).named("api");
        assert_eq!(shown_of(read), shown(&plain));

        let counts = r#"{"algorithm": "sliding-log", "quota": "20/s", "per-request": true}"#;
        let (limit, code) = (
            Limit::of(counts),
            SlidingLog::new(Quota::per_second(20)).per_request(),
        );
        let line = "SlidingLog::new(Quota::per_second(20)).per_request()";
        assert_eq!(rust(&limit), line);
        assert_eq!(shown(limit.rule()), shown(&code));
    }

    #[test]
    fn the_lines_of_a_tuple_make_it() {
        #[derive(serde::Deserialize)]
        struct InAFile {
            limits: (TokenBucket, FixedWindow),
        }

        let fields = r#"[{"algorithm": "token-bucket", "quota": "5/s", "burst": 8},
            {"algorithm": "fixed-window", "quota": "100/day", "per-request": true}]"#;
        let tuple = Tuple::read(serde_json::from_str(fields).unwrap()).unwrap();
        let lines = "(
    TokenBucket::new(Quota::per_second(5)).burst(8),
    FixedWindow::new(Quota::per_day(100)).per_request(),
)";
        let code = (
            TokenBucket::new(Quota::per_second(5)).burst(8),
            FixedWindow::new(Quota::per_day(100)).per_request(),
        );
        assert_eq!(tuple_rust(&tuple), lines);
        let read: InAFile = ::toml::from_str(&tuple_toml(&tuple)).unwrap();
        let (bucket, window) = read.limits;
        assert_eq!(shown(&(bucket, window.per_request())), shown(&code));
        assert_eq!(
            tuple_toml(&tuple),
            "[[limits]]\nalgorithm = \"token-bucket\"\nquota = \"5/s\"\nburst = 8\n\n\
             [[limits]]\nalgorithm = \"fixed-window\"\nquota = \"100/day\"\n\
             # and in the program: .per_request() on what was read\n"
        );
    }

    #[test]
    fn the_line_of_rust_and_the_lines_of_the_file_make_the_limit() {
        is_code! {
            r#"{"algorithm": "token-bucket", "quota": "20/s"}"# is
                TokenBucket::new(Quota::per_second(20));
            r#"{"algorithm": "token-bucket", "quota": "20/min", "burst": 40, "name": "api"}"# is
                TokenBucket::new(Quota::per_minute(20)).burst(40).named("api");
            r#"{"algorithm": "token-bucket", "quota": "7/100ms", "wait-at-most": "1500us"}"# is
                TokenBucket::new(Quota::new(7, Duration::from_millis(100)))
                    .wait_at_most(Duration::from_micros(1500));
            r#"{"algorithm": "gcra", "quota": "20/h", "burst": 1}"# is
                Gcra::new(Quota::per_hour(20)).burst(1);
            r#"{"algorithm": "leaky-bucket", "quota": "20/day", "capacity": 5}"# is
                LeakyBucket::new(Quota::per_day(20)).capacity(5);
            r#"{"algorithm": "leaky-bucket-queue", "quota": "20/s", "capacity": 5}"# is
                LeakyBucket::new(Quota::per_second(20)).capacity(5).queue();
            r#"{"algorithm": "fixed-window", "quota": "3/10s"}"# is
                FixedWindow::new(Quota::new(3, Duration::from_secs(10)));
            r#"{"algorithm": "fixed-window", "quota": "3/s", "from-first-request": true}"# is
                FixedWindow::new(Quota::per_second(3)).from_first_request();
            r#"{"algorithm": "sliding-log", "quota": "3/s"}"# is
                SlidingLog::new(Quota::per_second(3));
            r#"{"algorithm": "sliding-window", "quota": "3/s"}"# is
                SlidingWindow::new(Quota::per_second(3));
            r#"{"algorithm": "sliding-buckets", "quota": "3/s", "precision": "100ms"}"# is
                SlidingBuckets::new(Quota::per_second(3), Duration::from_millis(100));
            r#"{"algorithm": "sliding-buckets", "quota": "3/s", "precision": "1s", "strict": true}"# is
                SlidingBuckets::new(Quota::per_second(3), Duration::from_secs(1)).strict();
            r#"{"algorithm": "min-interval", "interval": "500ms"}"# is
                MinInterval::new(Duration::from_millis(500));
            r#"{"algorithm": "in-flight", "requests": 5, "held-at-most": "10s"}"# is
                InFlight::new(5).held_at_most(Duration::from_secs(10));
        }
    }
}
