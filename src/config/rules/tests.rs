//! The table of all algorithms in the chapter `limits_from_a_file` is what is read.

use std::{any::type_name, fs, path::Path};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{
    algorithm::{self, InFlight},
    config::algorithm::FromFields,
};

const WRITE: &str = "TOLLGATE_WRITE_CHAPTER";

const CHAPTER: &str = "src/docs/limits_from_a_file.md";

const HEAD: &str = "\
| Rust type | `algorithm` | required | optional, besides `name` |
|---|---|---|---|
";

/// A value of this field, whatever the algorithm: the chapter shows it.
fn example(field: &str) -> Value {
    match field {
        "quota" => json!("20/s"),
        "burst" | "capacity" => json!(40),
        "precision" => json!("100ms"),
        "interval" => json!("500ms"),
        "wait-at-most" => json!("5s"),
        "requests" => json!(5),
        "held-at-most" => json!("60s"),
        "from-first-request" | "strict" => json!(true),
        other => panic!("the chapter has no example of `{other}`"),
    }
}

/// Reads the algorithm from examples of these fields.
fn read<R: DeserializeOwned>(fields: &[&str]) -> Result<R, String> {
    let fields: Map<_, _> = fields
        .iter()
        .map(|field| ((*field).to_owned(), example(field)))
        .collect();
    serde_json::from_value(fields.into()).map_err(|error| error.to_string())
}

/// The row of an algorithm. A field is required if nothing is read without it.
fn row<R: FromFields + DeserializeOwned>() -> String {
    // Without the modules before each name.
    let names = type_name::<R>().split_inclusive('<');
    let names = names.map(|name| name.rsplit("::").next().unwrap_or(name));
    let rust_type: String = names.collect();
    let fields = &R::FIELDS[1..R::FIELDS.len() - 1];
    let is_required = |field: &&str| {
        let others: Vec<_> = fields.iter().copied().filter(|it| it != field).collect();
        let Err(error) = read::<R>(&others) else {
            return false;
        };
        assert!(error.contains(&format!("needs `{field}`")), "{error}");
        true
    };
    let (required, optional): (Vec<_>, Vec<_>) = fields.iter().copied().partition(is_required);
    for fields in [fields, &required] {
        read::<R>(fields).unwrap_or_else(|error| panic!("{rust_type} of {fields:?}: {error}"));
    }
    let shown = |fields: &[&str]| {
        let each = fields
            .iter()
            .map(|field| format!("`{field} = {}`", example(field)));
        each.collect::<Vec<_>>().join(", ")
    };
    let cells = [
        format!("`{rust_type}`"),
        format!("`{:?}`", R::NAME),
        shown(&required),
        shown(&optional),
    ];
    format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |")
}

/// Every algorithm that a file can choose, and the one that only a type can.
fn table() -> String {
    let mut table = HEAD.to_owned();
    macro_rules! rows {
        ($($kind:ident: $rule:ty),+ $(,)?) => {
            $(table += &row::<$rule>();)+
        };
    }
    every_rule!(rows);
    table + &row::<InFlight>()
}

#[test]
fn the_table_of_the_chapter_has_each_algorithm_with_its_fields() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CHAPTER);
    let chapter = fs::read_to_string(&path).expect("the chapter");
    let start = chapter.find(HEAD).expect("the head of the table");
    let length = chapter[start..].find("\n\n").expect("its end") + 1;
    let (found, table) = (&chapter[start..start + length], table());
    if std::env::var_os(WRITE).is_some() {
        let written = chapter.replace(found, &table);
        fs::write(path, written).expect("the chapter, written");
        return;
    }
    assert!(
        found == table,
        "{CHAPTER} has\n{found}\nbut what is read is\n{table}\nrun this test with {WRITE}=1"
    );
}
