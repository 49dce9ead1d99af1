//! Lines that are wider than a reader's window: in comments, in texts, and in Lua.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The maximum width of a comment with its indentation. Tables and code may be wider.
const MAX_COLUMNS: usize = 100;

/// `BENCHMARKS.md` is written by a script.
const PLACES: [&str; 11] = [
    ".ci",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "benches",
    "examples",
    "playground",
    "replay",
    "scripts",
    "src",
    "tests",
];

/// Each line of prose that is too wide, with its file and number.
pub(crate) fn wide_prose() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<PathBuf> = PLACES.iter().map(|name| root.join(name)).collect();
    let mut found = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            if !path.ends_with("target") {
                let inside = fs::read_dir(&path).unwrap();
                paths.extend(inside.map(|entry| entry.unwrap().path()));
            }
            continue;
        }
        let prose_of: ProseOf = match path.extension().and_then(|extension| extension.to_str()) {
            Some("c" | "js" | "rs") => slash_comment_of,
            Some("awk" | "py" | "toml" | "tsv") => hash_comment_of,
            None if is_in_scripts(&path) => hash_comment_of,
            // No formatter wraps Lua's code.
            Some("lua" | "md") => all_of,
            _ => continue,
        };
        let text = fs::read_to_string(&path).unwrap();
        let place = path.strip_prefix(root).unwrap().display();
        found.extend(wide_lines(&text, prose_of).map(|number| format!("{place}:{number}")));
    }
    found.sort();
    found
}

fn is_in_scripts(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    folder.is_some_and(|name| name == "scripts" || name == ".ci")
}

/// What a line says, if it is a comment of Rust, C or JavaScript.
fn slash_comment_of(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']))
}

/// The same of a shell, Python, awk, TOML or a table.
fn hash_comment_of(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix('#')
}

/// The same of a text.
fn all_of(line: &str) -> Option<&str> {
    Some(line)
}

type ProseOf = fn(&str) -> Option<&str>;

fn wide_lines(text: &str, prose_of: ProseOf) -> impl Iterator<Item = usize> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let Some(prose) = prose_of(line) else {
            is_code = false;
            return None;
        };
        let prose = prose.trim_start();
        let is_fence = prose.starts_with("```");
        is_code ^= is_fence;
        let is_table = prose.starts_with('|');
        // A picture, or where a link leads to: neither can be wrapped.
        let is_link = prose.starts_with("![") || (prose.starts_with('[') && prose.contains("]: "));
        let is_prose = !is_code && !is_fence && !is_table && !is_link;
        (is_prose && line.chars().count() > MAX_COLUMNS).then_some(index + 1)
    })
}

#[test]
fn prose_is_wide_and_tables_and_code_are_not() {
    let long = "a ".repeat(60);
    let text =
        format!("/// {long}\n/// | {long}\n/// ```\n/// {long}\n/// ```\n//! {long}\n{long}");
    assert_eq!(
        wide_lines(&text, slash_comment_of).collect::<Vec<_>>(),
        [1, 6]
    );
    let text = format!("#!/bin/sh\n  # {long}\n{long}");
    assert_eq!(wide_lines(&text, hash_comment_of).collect::<Vec<_>>(), [2]);
    let text = format!("{long}\n\n```text\n{long}\n```\n| {long}\n![{long}](..)\n- {long}");
    assert_eq!(wide_lines(&text, all_of).collect::<Vec<_>>(), [1, 8]);
}
