//! The table of all algorithms in the chapter `limits_from_a_file` is what is read.

use std::{any::type_name, fs, path::Path};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::algorithm::{
    InFlight,
    described::{Described, Field, Kind},
};

const WRITE: &str = "TOLLGATE_WRITE_CHAPTER";

const CHAPTER: &str = "src/docs/limits_from_a_file.md";

const HEAD: &str = "\
| Rust type | `algorithm` | required | optional, besides `name` |
|---|---|---|---|
";

/// The example of a field's value, as a file has it.
fn example(field: &Field) -> Value {
    match field.kind {
        Kind::AtOnce | Kind::Flag => field.example.parse().expect("a number or a flag"),
        _ => field.example.into(),
    }
}

/// Reads the algorithm from examples of these fields.
fn read<R: DeserializeOwned>(fields: &[Field]) -> Result<R, String> {
    let fields = fields.iter().map(|it| (it.name.to_owned(), example(it)));
    serde_json::from_value(Map::from_iter(fields).into()).map_err(|error| error.to_string())
}

/// The row of an algorithm.
fn row<R: Described + DeserializeOwned>() -> String {
    // Without the modules before each name.
    let names = type_name::<R>().split_inclusive('<');
    let names = names.map(|name| name.rsplit("::").next().unwrap_or(name));
    let rust_type: String = names.collect();
    let fields = R::fields();
    let (required, optional): (Vec<_>, Vec<_>) = fields.iter().partition(|it| it.default.is_none());
    for fields in [&fields, &required] {
        read::<R>(fields).unwrap_or_else(|error| panic!("{rust_type} of {fields:?}: {error}"));
    }
    for left_out in &required {
        let others = fields.iter().filter(|it| it.name != left_out.name);
        let error = read::<R>(&others.copied().collect::<Vec<_>>()).err();
        let error = error.unwrap_or_else(|| panic!("{rust_type} without {left_out:?}"));
        let names_it = error.contains(&format!("needs `{}`", left_out.name));
        assert!(names_it, "{error}");
    }
    let shown = |fields: &[Field]| {
        let each = fields
            .iter()
            .map(|it| format!("`{} = {}`", it.name, example(it)));
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
        ($($can:ident $kind:ident: $rule:ty),+ $(,)?) => {
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
