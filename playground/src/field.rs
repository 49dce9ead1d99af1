//! The fields of a limit, as the form has them.

use serde::Serialize;
use serde_json::{Value, json};

/// A field of a limit: one that a file has, or a method that a program calls on what it has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// As a file has it.
    pub name: &'static str,
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

/// How many units, in which time.
pub const QUOTA: Field = Field {
    hint: "20/s, 100/min, 3/10s",
    ..needed("quota", Input::Text, "10/s")
};
/// The most at once, of a bucket with tokens.
pub const BURST: Field = filled_in("burst", Input::Number, "as the quota");
/// The most at once, of a bucket that leaks.
pub const CAPACITY: Field = filled_in("capacity", Input::Number, "as the quota");
/// How long a request may be delayed.
pub const WAIT_AT_MOST: Field = filled_in("wait-at-most", Input::Text, "never waits");
/// The length of a sub-counter.
pub const PRECISION: Field = needed("precision", Input::Text, "100ms");
/// One more sub-counter.
pub const STRICT: Field = check("strict");
/// A window opens with a request.
pub const FROM_FIRST_REQUEST: Field = check("from-first-request");
/// The pause after each request.
pub const INTERVAL: Field = Field {
    hint: "500ms",
    ..needed("interval", Input::Text, "100ms")
};
/// How many may run at once.
pub const REQUESTS: Field = needed("requests", Input::Number, "4");
/// In a program alone.
pub const PER_REQUEST: Field = Field {
    called: Some("counts requests, whatever they cost"),
    ..check("per-request")
};
/// In a program alone.
pub const SETTLED: Field = Field {
    called: Some("holds the cost while it runs, charges what it spends"),
    ..check("settled")
};

/// The methods that a program calls on what it has read from a file, which has no fields for them.
pub const METHODS: [(&str, &str); 2] = [
    (PER_REQUEST.name, ".per_request()"),
    (SETTLED.name, ".settled()"),
];

impl Field {
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

const fn filled_in(name: &'static str, input: Input, hint: &'static str) -> Field {
    Field {
        name,
        input,
        needed: None,
        hint,
        called: None,
    }
}

const fn needed(name: &'static str, input: Input, first: &'static str) -> Field {
    Field {
        needed: Some(first),
        ..filled_in(name, input, first)
    }
}

const fn check(name: &'static str) -> Field {
    filled_in(name, Input::Check, "")
}
