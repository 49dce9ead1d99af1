//! The compiler's messages for the likeliest mistakes: each must say what to write instead.
//!
//! The snapshots are of one compiler, since every release words its messages a little differently.
//! With another one, read the differences, and if the messages are still good, write them again
//! with `TRYBUILD=overwrite`.

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn each_mistake_is_answered_with_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}

#[test]
fn each_message_of_a_trait_answers_one_of_the_mistakes() {
    let messages = messages_of_traits();
    assert!(messages.len() >= 15, "only {messages:?} were found");
    // If two traits have the same message, a snapshot may show only one of them.
    let different: BTreeSet<_> = messages.iter().collect();
    assert_eq!(different.len(), messages.len(), "twice in {messages:#?}");
    let snapshots = read_all(here("tests/mistakes"), "stderr");
    let never_seen: Vec<_> = messages
        .iter()
        .filter(|message| !snapshots.lines().any(|line| is_said(message, line)))
        .collect();
    assert!(never_seen.is_empty(), "no mistake shows {never_seen:#?}");
}

/// The first line of what the compiler says where a trait is not implemented.
fn messages_of_traits() -> Vec<String> {
    let source = read_all(here("../../src"), "rs");
    let attributes = source.split("#[diagnostic::on_unimplemented(").skip(1);
    let message = |attribute: &str| {
        let (_, rest) = attribute.split_once("message = \"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let messages = attributes.map(|attribute| message(attribute).expect("it has a message"));
    messages.collect()
}

/// Whether the line is an error with this message, whatever stands for its `{..}`.
fn is_said(message: &str, line: &str) -> bool {
    let mut rest = line;
    let mut parts = message.split(['{', '}']).step_by(2);
    line.starts_with("error[E0277]: ")
        && parts.all(|part| {
            rest.split_once(part).is_some_and(|(_, after)| {
                rest = after;
                true
            })
        })
}

fn here(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// The text of all files in this folder, and in those inside it, whose names end so.
fn read_all(folder: impl AsRef<Path>, extension: &str) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            text += &read_all(&path, extension);
        } else if path.extension().is_some_and(|found| found == extension) {
            text += &fs::read_to_string(&path).expect("it is text");
        }
    }
    text
}
