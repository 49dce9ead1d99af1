//! How tollgate reads an algorithm from its fields, and what a program makes of it.

use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate::algorithm::KeyLimit;

use crate::{
    any_rule::AnyRule,
    field::{PER_REQUEST, SETTLED},
    limit::Fields,
};

/// The fields of a limit, while it is read.
#[derive(Debug)]
pub(crate) struct Reading {
    fields: Fields,
    charged: Charged,
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

impl Reading {
    /// Takes the two fields out that no file has.
    pub(crate) fn new(mut fields: Fields) -> Result<Self, String> {
        let mut is_set = |field: &str| match fields.remove(field) {
            None | Some(Value::Bool(false)) => Ok(false),
            Some(Value::Bool(true)) => Ok(true),
            Some(other) => Err(format!("`{field}`: {other} is neither true nor false")),
        };
        let charged = match (is_set(SETTLED.name)?, is_set(PER_REQUEST.name)?) {
            (true, true) => {
                let both = "`settled` and `per-request` are two limits here: use a tuple of both";
                return Err(both.to_owned());
            }
            (true, false) => Charged::Spent,
            (false, true) => Charged::One,
            (false, false) => Charged::Cost,
        };
        Ok(Self { fields, charged })
    }

    /// The names of the fields that a file has, beside `algorithm` and `name`.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        let names = self.fields.keys().map(String::as_str);
        names.filter(|name| !["algorithm", "name"].contains(name))
    }

    /// An algorithm that charges each request its cost.
    pub(crate) fn plain<R: KeyLimit + DeserializeOwned>(&self) -> Result<AnyRule, String> {
        match self.charged {
            Charged::Cost => Ok(AnyRule::of(&self.read::<R>()?)),
            Charged::One => Err(not_for_this(PER_REQUEST.name)),
            Charged::Spent => Err(not_for_this(SETTLED.name)),
        }
    }

    /// One that may count requests, too.
    pub(crate) fn countable<R>(&self, per_request: fn(R) -> R) -> Result<AnyRule, String>
    where
        R: KeyLimit + DeserializeOwned,
    {
        match self.charged {
            Charged::One => Ok(AnyRule::of(&per_request(self.read()?))),
            _ => self.plain::<R>(),
        }
    }

    /// One that may count requests, or hold, too.
    pub(crate) fn holdable<R, S>(
        &self,
        per_request: fn(R) -> R,
        settled: fn(R) -> S,
    ) -> Result<AnyRule, String>
    where
        R: KeyLimit + DeserializeOwned,
        S: KeyLimit,
    {
        match self.charged {
            Charged::Spent => Ok(AnyRule::of(&settled(self.read()?))),
            _ => self.countable(per_request),
        }
    }

    fn read<R: DeserializeOwned>(&self) -> Result<R, String> {
        let fields = Value::Object(self.fields.clone());
        serde_json::from_value(fields).map_err(|error| error.to_string())
    }
}

fn not_for_this(field: &str) -> String {
    format!("`{field}` is not for this algorithm")
}
