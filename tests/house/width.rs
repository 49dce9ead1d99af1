//! Comments that are wider than a reader's window.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Columns of a comment, with what stands before it. Tables and code are as wide as they are.
const MAX_COLUMNS: usize = 100;

const FOLDERS: [&str; 6] = [
    "benches",
    "examples",
    "playground",
    "replay",
    "src",
    "tests",
];

/// Each line of prose in a comment that is too wide, with its file and number.
pub(crate) fn wide_comments() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|name| root.join(name)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let place = path.strip_prefix(root).unwrap().display();
                found.extend(wide_lines(&text).map(|number| format!("{place}:{number}")));
            }
        }
    }
    found.sort();
    found
}

fn wide_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            return None;
        };
        let told = comment.trim_start_matches(['/', '!']).trim_start();
        let is_fence = told.starts_with("```");
        is_code ^= is_fence;
        let is_prose = !is_code && !is_fence && !told.starts_with('|');
        (is_prose && line.chars().count() > MAX_COLUMNS).then_some(index + 1)
    })
}

#[test]
fn prose_is_wide_and_tables_and_code_are_not() {
    let long = "a ".repeat(60);
    let text =
        format!("/// {long}\n/// | {long}\n/// ```\n/// {long}\n/// ```\n//! {long}\n{long}");
    assert_eq!(wide_lines(&text).collect::<Vec<_>>(), [1, 6]);
}
