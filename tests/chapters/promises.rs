//! `tests/README.md` names every test file, and its commands select the tests of their rows.

use std::collections::BTreeSet;

use super::{is_name_of_a_test, quoted};
use crate::files::{files, read, root};

/// A promise, the tests that hold it, and the commands that run them.
struct Row {
    promise: String,
    /// The files of Rust, as paths in the repository.
    files: Vec<String>,
    tests: Vec<String>,
    commands: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("| "));
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_end_matches(" |").split(" | ").collect();
        let [promise, tests, commands] = cells[..] else {
            return None;
        };
        let names = quoted(tests);
        let paths = names.iter().filter(|name| name.ends_with(".rs"));
        let named = names.iter().filter(|name| is_name_of_a_test(name));
        Some(Row {
            promise: promise.to_owned(),
            files: paths.flat_map(|path| alternatives(path)).collect(),
            tests: named.map(|name| (*name).to_owned()).collect(),
            commands: quoted(commands).into_iter().map(str::to_owned).collect(),
        })
    };
    lines.filter_map(row).collect()
}

/// `a/{b,c}.rs` is two files. A path is in `tests`, or in the root.
fn alternatives(path: &str) -> Vec<String> {
    let (start, rest) = path.split_once('{').unwrap_or(("", path));
    let (names, end) = rest.split_once('}').unwrap_or((rest, ""));
    let paths = names.split(',').map(|name| format!("{start}{name}{end}"));
    let in_root = |path: String| match root().join("tests").join(&path).exists() {
        true => format!("tests/{path}"),
        false => path,
    };
    paths.map(in_root).collect()
}

/// How a command selects a test file: `slow::turns`; `None` for other files.
fn module_of(path: &str) -> Option<String> {
    let (folder, name) = path.strip_suffix(".rs")?.rsplit_once('/')?;
    let (folder, outer) = match folder.strip_suffix("/slow") {
        Some(folder) => (folder, "slow::"),
        None => (folder, ""),
    };
    let is_of_tests = folder.split('/').next_back() == Some("tests") && !folder.contains("src/");
    let is_list = ["main", "mod"].contains(&name);
    (is_of_tests && !is_list).then(|| format!("{outer}{name}"))
}

/// Whether a command of the row names the module, one of its tests, or its binary.
fn is_selected(row: &Row, path: &str, module: &str) -> bool {
    let code = read(path);
    let is_here = |test: &&String| code.contains(&format!("fn {test}("));
    let tests: Vec<_> = row.tests.iter().filter(is_here).collect();
    let selects = |word: &str| {
        word == format!("{module}::") || word == module || tests.iter().any(|it| it.contains(word))
    };
    let mut commands = row.commands.iter();
    commands.any(|it| it.starts_with("scripts/") || it.split(' ').any(selects))
}

#[test]
fn each_row_of_the_index_of_tests_names_tests_that_are_there_and_that_its_commands_select() {
    let rows = rows(&read("tests/README.md"));
    assert!(rows.len() >= 60, "only {} rows were found", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let code: String = row.files.iter().map(read).collect();
        for test in &row.tests {
            if !code.contains(&format!("fn {test}(")) {
                wrong.push(format!("{}: its files have no {test}", row.promise));
            }
        }
        for path in &row.files {
            if module_of(path).is_some_and(|module| !is_selected(row, path, &module)) {
                wrong.push(format!("{}: no command runs {path}", row.promise));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_test_file_stands_in_the_index_of_tests() {
    let rows = rows(&read("tests/README.md"));
    let named: BTreeSet<_> = rows.into_iter().flat_map(|row| row.files).collect();
    let all = files(&["tests", "playground", "replay"]);
    let all = all.iter().map(|path| path.strip_prefix(root()).unwrap());
    let mut lost: Vec<_> = all.map(|path| path.to_str().unwrap().to_owned()).collect();
    lost.retain(|path| module_of(path).is_some() && !named.contains(path));
    assert!(lost.is_empty(), "tests/README.md lacks {lost:#?}");
}
