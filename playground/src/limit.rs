//! Any of tollgate's algorithms, as a configuration file has it, and what a program makes of it.

use serde_json::{Map, Value};
use tollgate::{Quota, algorithm::described::Kind};
use tollgate_algorithms::Numbers;

use crate::{
    algorithms::{self, ALGORITHMS, Entry},
    any_rule::AnyRule,
    reading::Reading,
    simulate::{Looks, Request, Run},
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
    entry: &'static Entry,
    rule: AnyRule,
}

impl Limit {
    /// Reads a limit from its fields.
    ///
    /// # Errors
    ///
    /// What tollgate says of a mistake; it names the field.
    pub fn read(fields: Fields) -> Result<Self, String> {
        let algorithm = fields.get("algorithm").and_then(Value::as_str);
        let algorithm = algorithm.ok_or("`algorithm` is missing")?;
        let entry = ALGORITHMS.iter().find(|entry| entry.name == algorithm);
        let entry = entry.ok_or_else(|| format!("{algorithm:?} is not an algorithm"))?;
        let rule = algorithms::read(algorithm, &Reading::new(fields.clone())?)?;
        Ok(Self {
            fields,
            entry,
            rule,
        })
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

    /// What the playground knows of its algorithm.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The algorithm.
    pub fn rule(&self) -> &AnyRule {
        &self.rule
    }

    /// What it is called beside others: `token-bucket 20/s`.
    pub fn called(&self) -> String {
        let mut called = self.entry.name.to_owned();
        let needed = self
            .entry
            .fields
            .iter()
            .find(|field| field.needed.is_some());
        match needed.and_then(|field| self.fields.get(field.name)) {
            Some(Value::String(text)) => called += &format!(" {text}"),
            Some(number) => called += &format!(" {number}"),
            None => {}
        }
        called
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
        let own = self.burst_field().and_then(|field| self.number(field));
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

    /// The field with this name as a number: a span in microseconds, 1 for `true`.
    pub(crate) fn in_numbers(&self, field: &str) -> Option<i128> {
        match self.fields.get(field)? {
            Value::Bool(set) => set.then_some(1),
            Value::String(_) => self.micros(field).map(i128::from),
            number => number.as_u64().map(i128::from),
        }
    }

    /// What the formulas are asked with.
    pub(crate) fn numbers<'a>(
        &self,
        largest_cost: u32,
        field: &'a dyn Fn(&str) -> Option<i128>,
    ) -> Numbers<'a> {
        let quota = self.quota();
        Numbers {
            n: quota.map_or(0, |quota| quota.units().into()),
            period: quota.map_or(0, |quota| quota.period().as_micros() as i128),
            burst: self.burst().into(),
            cost: largest_cost.into(),
            field,
        }
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
        let mut fields = self.entry.fields.iter();
        let burst = fields.find(|field| field.kind == Kind::AtOnce && field.needed.is_none());
        burst.map(|field| field.name)
    }

    /// What the limit does to these requests.
    pub fn run(&self, requests: &[Request], looks: &Looks) -> Run {
        self.rule.run(requests, looks)
    }
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
        assert!(read(both).ends_with("use a tuple of both"));
    }

    #[test]
    fn the_burst_is_the_quotas_units_by_default() {
        let limit = Limit::of(r#"{"algorithm": "token-bucket", "quota": "20/s"}"#);
        assert_eq!(limit.burst(), 20);
        assert_eq!(limit.with("burst", 40.into()).unwrap().burst(), 40);
    }
}
