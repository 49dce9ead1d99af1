//! Every algorithm of tollgate that files can name. What it is called and which fields it has is
//! tollgate's own description; its bound, its reasons and its rows are in the list of all
//! algorithms that the tests read, too.

use std::sync::LazyLock;

use serde_json::{Value, json};
use tollgate::algorithm::{
    InFlight,
    described::{self, Described},
};
use tollgate_algorithms::{Row, SHOWN, Shown};

use crate::{
    any_rule::AnyRule,
    field::{Field, PER_REQUEST, SETTLED},
    limit::{Fields, Limit},
    reading::Reading,
};

/// An algorithm.
#[derive(Debug)]
pub struct Entry {
    /// What a file calls it.
    pub name: &'static str,
    /// Its fields.
    pub fields: Vec<Field>,
    /// What is said of it.
    pub(crate) shown: &'static Shown,
}

/// All of them, in the order of the list.
pub static ALGORITHMS: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let of = |shown: &'static Shown| Entry {
        name: shown.name,
        fields: fields(shown.name),
        shown,
    };
    SHOWN.iter().map(of).collect()
});

/// One of tollgate's types. Two may have the same name: one of them waits.
struct Kind {
    name: &'static str,
    fields: Vec<described::Field>,
    methods: &'static [Field],
    read: fn(&Reading) -> Result<AnyRule, String>,
}

macro_rules! kinds {
    ($($can:ident $Kind:ident: $Rule:ty),+ $(,)?) => {
        vec![$(kinds!(@ $can $Rule)),+]
    };
    (@ additive $Rule:ty) => {
        kinds!(@ $Rule, &[PER_REQUEST, SETTLED], |limit| {
            limit.holdable(<$Rule>::per_request, <$Rule>::settled)
        })
    };
    (@ plain $Rule:ty) => {
        kinds!(@ $Rule, &[PER_REQUEST], |limit| limit.countable(<$Rule>::per_request))
    };
    (@ in_flight $Rule:ty) => {
        kinds!(@ $Rule, &[], |limit| limit.plain::<$Rule>())
    };
    (@ $Rule:ty, $methods:expr, $read:expr) => {
        Kind {
            name: <$Rule>::NAME,
            fields: <$Rule>::fields(),
            methods: $methods,
            read: $read,
        }
    };
}

fn every_kind() -> Vec<Kind> {
    let mut kinds: Vec<Kind> = tollgate::every_rule!(kinds);
    kinds.extend(kinds!(in_flight InFlight: InFlight));
    kinds
}

/// The fields of all kinds of this name, and then the methods.
fn fields(name: &str) -> Vec<Field> {
    let of_name = || every_kind().into_iter().filter(|kind| kind.name == name);
    let fields = of_name().flat_map(|kind| kind.fields);
    let fields = fields.map(|field| match of_name().all(|kind| kind.has(field.name)) {
        true => Field::of(&field),
        false => Field::of(&described::Field {
            default: Some("never"),
            ..field
        }),
    });
    let methods = of_name().flat_map(|kind| kind.methods).cloned();
    let mut all: Vec<Field> = Vec::new();
    for field in fields.chain(methods) {
        if !all.contains(&field) {
            all.push(field);
        }
    }
    all
}

impl Kind {
    fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|own| own.name == field)
    }
}

/// Has tollgate read an algorithm of this name.
pub(crate) fn read(name: &str, limit: &Reading) -> Result<AnyRule, String> {
    let mut kinds = every_kind();
    kinds.retain(|kind| kind.name == name);
    let has_all = |kind: &&Kind| limit.fields().all(|field| kind.has(field));
    let kind = kinds.iter().find(has_all).or(kinds.first());
    let kind = kind.ok_or_else(|| format!("{name:?} is not an algorithm"))?;
    (kind.read)(limit)
}

/// Each name with its fields, as JSON for the form.
pub fn description() -> String {
    let of = |entry: &Entry| {
        let fields: Vec<_> = entry.fields.iter().map(Field::description).collect();
        json!([entry.name, fields])
    };
    Value::from_iter(ALGORITHMS.iter().map(of)).to_string()
}

/// All rows, each with its algorithm.
pub(crate) fn rows() -> impl Iterator<Item = (&'static Entry, &'static Row)> {
    let of = |entry: &'static Entry| entry.shown.rows.iter().map(move |row| (entry, row));
    ALGORITHMS.iter().flat_map(of)
}

/// The fields that a row has by itself.
pub(crate) fn own_fields(row: &Row) -> Fields {
    serde_json::from_str(row.with).expect("a map of fields")
}

impl Entry {
    /// The limit of one of its rows; `value` is that of a field of the algorithm which the row does
    /// not have by itself.
    pub(crate) fn limit(
        &self,
        row: &Row,
        value: impl Fn(&Field) -> Option<Value>,
    ) -> Result<Limit, String> {
        let mut fields = own_fields(row);
        fields.insert("algorithm".to_owned(), self.name.into());
        for field in &self.fields {
            if let Some(value) = value(field) {
                fields.entry(field.name).or_insert(value);
            }
        }
        Limit::read(fields)
    }
}
