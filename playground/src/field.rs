//! The fields of a limit, as the form has them.

use serde::Serialize;
use serde_json::{Value, json};
use tollgate::algorithm::described::{self, Kind};

/// A field of a limit: one that a file has, or a method that a program calls on what it has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// As a file has it.
    pub name: &'static str,
    /// What stands in it.
    pub kind: Kind,
    /// How it is filled in.
    pub input: Input,
    /// What it is at first, where the limit is none without it.
    pub needed: Option<&'static str>,
    /// What stands there while it is empty.
    pub hint: &'static str,
    /// What it is called, if not by its name.
    pub called: Option<&'static str>,
}

/// How a field is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// With a text: a quota, or a span of time.
    Text,
    /// With a whole number.
    Number,
    /// With a tick.
    Check,
}

/// In a program alone.
pub const PER_REQUEST: Field = method("per-request", "counts requests, whatever they cost");
/// In a program alone.
pub const SETTLED: Field = method(
    "settled",
    "holds the cost while it runs, charges what it spends",
);

/// The methods that a program calls on what it has read from a file, which has no fields for them.
pub const METHODS: [(&str, &str); 2] = [
    (PER_REQUEST.name, ".per_request()"),
    (SETTLED.name, ".settled()"),
];

impl Field {
    /// A field that a file has.
    pub(crate) fn of(field: &described::Field) -> Self {
        Self {
            name: field.name,
            kind: field.kind,
            input: match field.kind {
                Kind::AtOnce => Input::Number,
                Kind::Flag => Input::Check,
                _ => Input::Text,
            },
            needed: match field.default {
                Some(_) => None,
                None => Some(field.example),
            },
            hint: field.default.unwrap_or(field.example),
            called: None,
        }
    }

    /// What it is at first, as a limit has it.
    pub fn default_value(&self) -> Option<Value> {
        let text = self.needed?;
        Some(match self.input {
            Input::Number => serde_json::from_str(text).expect("a number"),
            _ => text.into(),
        })
    }

    /// What the form is told of it.
    pub(crate) fn description(&self) -> Value {
        json!({
            "name": self.name,
            "input": self.input,
            "needed": self.default_value(),
            "hint": self.hint,
            "called": self.called,
        })
    }
}

const fn method(name: &'static str, called: &'static str) -> Field {
    Field {
        name,
        kind: Kind::Flag,
        input: Input::Check,
        needed: None,
        hint: "",
        called: Some(called),
    }
}
