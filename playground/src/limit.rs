//! Any of tollgate's algorithms, as a configuration file has it, and what a program makes of it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tollgate::{
    Quota,
    algorithm::{
        Algorithm, FixedWindow, Gcra, InFlight, LeakyBucket, LeakyBucketQueue, MinInterval,
        SlidingBuckets, SlidingLog, SlidingWindow, TokenBucket, WaitAtMost,
    },
};

use crate::{
    simulate::{Looks, Request, Run, simulate},
    span,
};

/// The fields of a limit, with the name of its algorithm in `algorithm`.
///
/// Two that no file has are the methods that a program calls on what it has read: `settled` and
/// `per-request`, each `true` or `false`.
pub type Fields = Map<String, Value>;

/// A limit that tollgate has read.
#[derive(Debug, Clone)]
pub struct Limit {
    fields: Fields,
}

/// What is done with an algorithm, whichever it is.
pub trait UseRule {
    /// What comes of it.
    type Output;

    /// Is given the algorithm.
    fn with<A: Algorithm>(self, rule: &A) -> Self::Output;
}

impl Limit {
    /// Reads a limit from its fields.
    ///
    /// # Errors
    ///
    /// What tollgate says of a mistake; it names the field.
    pub fn read(fields: Fields) -> Result<Self, String> {
        struct Nothing;
        impl UseRule for Nothing {
            type Output = ();

            fn with<A: Algorithm>(self, _rule: &A) {}
        }
        with_rule(&fields, Nothing)?;
        Ok(Self { fields })
    }

    /// Reads a limit that is known to be right.
    ///
    /// # Panics
    ///
    /// It is not.
    pub fn of(json: &str) -> Self {
        let fields = serde_json::from_str(json).expect("a map of fields");
        Self::read(fields).unwrap_or_else(|error| panic!("{json}: {error}"))
    }

    /// What its algorithm is called in a file.
    pub fn algorithm(&self) -> &str {
        self.text("algorithm").unwrap_or_default()
    }

    /// What it is called beside others: `token-bucket 20/s`.
    pub fn called(&self) -> String {
        let requests = || self.number("requests").map(|requests| requests.to_string());
        let text = self.text("quota").or_else(|| self.text("interval"));
        let number = text.map(str::to_owned).or_else(requests);
        format!("{} {}", self.algorithm(), number.unwrap_or_default())
    }

    /// Its fields, as they were read.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Its quota, where the algorithm has one.
    pub fn quota(&self) -> Option<Quota> {
        self.text("quota")?.parse().ok()
    }

    /// The burst or the capacity: by default the quota's units.
    pub fn burst(&self) -> u64 {
        let own = self.number("burst").or_else(|| self.number("capacity"));
        own.unwrap_or_else(|| self.quota().map_or(0, Quota::units))
    }

    /// The field with this name, as text.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    /// The field with this name, as a number.
    pub fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.as_u64()
    }

    /// The field with this name, as a span of time in microseconds.
    pub fn micros(&self, field: &str) -> Option<u64> {
        span::micros(self.text(field)?).ok()
    }

    /// Whether the field with this name is `true`.
    pub fn is_set(&self, field: &str) -> bool {
        self.fields.get(field).and_then(Value::as_bool) == Some(true)
    }

    /// The same limit with another value in this field.
    ///
    /// # Errors
    ///
    /// What tollgate says of it.
    pub fn with(&self, field: &str, value: Value) -> Result<Self, String> {
        let mut fields = self.fields.clone();
        fields.insert(field.to_owned(), value);
        Self::read(fields)
    }

    /// The name of the field that says how much is let through at once, where there is one.
    pub fn burst_field(&self) -> Option<&'static str> {
        match self.algorithm() {
            "token-bucket" | "gcra" => Some("burst"),
            "leaky-bucket" | "leaky-bucket-queue" => Some("capacity"),
            _ => None,
        }
    }

    /// What the limit does to these requests.
    pub fn run(&self, requests: &[Request], looks: &Looks) -> Run {
        struct Simulate<'a>(&'a [Request], &'a Looks);
        impl UseRule for Simulate<'_> {
            type Output = Run;

            fn with<A: Algorithm>(self, rule: &A) -> Run {
                simulate(rule, self.0, self.1)
            }
        }
        with_rule(&self.fields, Simulate(requests, looks)).expect("it was read before")
    }
}

/// What a request is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charged {
    /// Its cost.
    Cost,
    /// 1, whatever it costs.
    One,
    /// What it has spent when it ends; its cost is held until then.
    Spent,
}

impl Charged {
    /// Takes the two fields out that no file has.
    fn take_from(fields: &mut Fields) -> Result<Self, String> {
        let mut is_set = |field: &str| match fields.remove(field) {
            None | Some(Value::Bool(false)) => Ok(false),
            Some(Value::Bool(true)) => Ok(true),
            Some(other) => Err(format!("`{field}`: {other} is neither true nor false")),
        };
        match (is_set("settled")?, is_set("per-request")?) {
            (true, true) => {
                Err("`settled` and `per-request` are two limits: use both in a tuple".to_owned())
            }
            (true, false) => Ok(Self::Spent),
            (false, true) => Ok(Self::One),
            (false, false) => Ok(Self::Cost),
        }
    }

    /// The error of a limit that cannot do so.
    fn refused<T>(self) -> Result<T, String> {
        let field = if self == Self::One {
            "per-request"
        } else {
            "settled"
        };
        Err(format!("`{field}` is not for this algorithm"))
    }
}

/// Has tollgate read the algorithm, and gives it to `user`.
///
/// # Errors
///
/// What tollgate says of a mistake.
pub fn with_rule<U: UseRule>(fields: &Fields, user: U) -> Result<U::Output, String> {
    fn read<R: DeserializeOwned>(fields: &Fields) -> Result<R, String> {
        serde_json::from_value(Value::Object(fields.clone())).map_err(|error| error.to_string())
    }
    let mut fields = fields.clone();
    let charged = Charged::take_from(&mut fields)?;
    // The methods are those of each type, not of a trait.
    macro_rules! given {
        ($Rule:ty: $($Other:ident $method:ident),*) => {{
            let rule = read::<$Rule>(&fields)?;
            match charged {
                Charged::Cost => user.with(&rule),
                $(Charged::$Other => user.with(&rule.$method()),)*
                #[allow(unreachable_patterns, reason = "some algorithms can do both")]
                other => return other.refused(),
            }
        }};
    }
    let algorithm = fields.get("algorithm").and_then(Value::as_str);
    let waits = fields.contains_key("wait-at-most");
    Ok(match (algorithm, waits) {
        (Some("token-bucket"), false) => given!(TokenBucket: One per_request, Spent settled),
        (Some("token-bucket"), true) => given!(WaitAtMost<TokenBucket>:),
        (Some("gcra"), false) => given!(Gcra: One per_request, Spent settled),
        (Some("gcra"), true) => given!(WaitAtMost<Gcra>:),
        (Some("leaky-bucket"), false) => given!(LeakyBucket: One per_request, Spent settled),
        (Some("leaky-bucket"), true) => given!(WaitAtMost<LeakyBucket>:),
        (Some("leaky-bucket-queue"), _) => given!(LeakyBucketQueue: One per_request),
        (Some("fixed-window"), _) => given!(FixedWindow: One per_request, Spent settled),
        (Some("sliding-log"), _) => given!(SlidingLog: One per_request, Spent settled),
        (Some("sliding-window"), _) => given!(SlidingWindow: One per_request, Spent settled),
        (Some("sliding-buckets"), _) => given!(SlidingBuckets: One per_request, Spent settled),
        (Some("min-interval"), _) => given!(MinInterval: One per_request),
        (Some("in-flight"), _) => given!(InFlight:),
        (Some(other), _) => return Err(format!("{other:?} is not an algorithm")),
        (None, _) => return Err("`algorithm` is missing".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_as_tollgate_tells_it() {
        let read = |json: &str| Limit::read(serde_json::from_str(json).unwrap()).unwrap_err();
        let error = read(r#"{"algorithm": "sliding-log", "quota": "20/s", "burst": 3}"#);
        assert!(
            error.starts_with("`burst` is not a field of a sliding-log"),
            "{error}"
        );
        let error = read(r#"{"algorithm": "gcra", "quota": "20/fortnight"}"#);
        assert!(error.starts_with("`quota`: \"20/fortnight\""), "{error}");
        assert_eq!(
            read(r#"{"algorithm": "dice"}"#),
            "\"dice\" is not an algorithm"
        );
        assert_eq!(read("{}"), "`algorithm` is missing");
        for (json, expected) in [
            (
                r#"{"algorithm": "min-interval", "interval": "1s", "settled": true}"#,
                "`settled` is not for this algorithm",
            ),
            (
                r#"{"algorithm": "in-flight", "requests": 3, "per-request": true}"#,
                "`per-request` is not for this algorithm",
            ),
            (
                r#"{"algorithm": "gcra", "quota": "1/s", "wait-at-most": "1s", "settled": true}"#,
                "`settled` is not for this algorithm",
            ),
            (
                r#"{"algorithm": "gcra", "quota": "1/s", "settled": "yes"}"#,
                "`settled`: \"yes\" is neither true nor false",
            ),
        ] {
            assert_eq!(read(json), expected);
        }
        let both = r#"{"algorithm": "gcra", "quota": "1/s", "settled": true, "per-request": true}"#;
        assert!(read(both).ends_with("use both in a tuple"));
    }

    #[test]
    fn the_burst_is_the_quotas_units_by_default() {
        let limit = Limit::of(r#"{"algorithm": "token-bucket", "quota": "20/s"}"#);
        assert_eq!(limit.burst(), 20);
        assert_eq!(limit.with("burst", 40.into()).unwrap().burst(), 40);
    }
}
