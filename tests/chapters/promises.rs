//! `tests/README.md` names every test file, and each command there runs the tests of its row.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, is_name_of_a_test, quoted, read, root};

/// A promise, the tests that hold it, and the commands that run them.
struct Row {
    line: String,
    /// The files of Rust, as paths in the repository.
    files: Vec<String>,
    tests: Vec<String>,
    commands: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = lines.map(|line| line.trim_end_matches(" |").split(" | "));
    let row = |cells: Vec<&str>| {
        let [promise, tests, commands] = cells[..] else {
            return None;
        };
        let names = quoted(tests);
        let paths = names.iter().filter(|name| name.ends_with(".rs"));
        let named = names.iter().filter(|name| is_name_of_a_test(name));
        Some(Row {
            line: promise.to_owned(),
            files: paths.flat_map(|path| alternatives(path)).collect(),
            tests: named.map(|name| (*name).to_owned()).collect(),
            commands: quoted(commands).into_iter().map(str::to_owned).collect(),
        })
    };
    cells.filter_map(|cells| row(cells.collect())).collect()
}

/// `a/{b,c}.rs` is two files. A path is in `tests`, or in the root.
fn alternatives(path: &str) -> Vec<String> {
    let paths = match path.split_once('{').zip(path.split_once('}')) {
        Some(((start, _), (middle, end))) => {
            let names = middle.trim_start_matches(start).trim_start_matches('{');
            names
                .split(',')
                .map(|name| format!("{start}{name}{end}"))
                .collect()
        }
        None => vec![path.to_owned()],
    };
    let in_root = |path: String| match root().join("tests").join(&path).exists() {
        true => format!("tests/{path}"),
        false => path,
    };
    paths.into_iter().map(in_root).collect()
}

/// A file of tests: its package, the binary that it is in, and its module there.
struct TestFile {
    package: String,
    binary: String,
    /// Empty for a binary of its own.
    module: String,
}

/// `None` for other files.
fn test_of(path: &str) -> Option<TestFile> {
    let (folder, name) = path.strip_suffix(".rs")?.rsplit_once('/')?;
    let (folder, outer) = match folder.strip_suffix("/slow") {
        Some(folder) => (folder, "slow::"),
        None => (folder, ""),
    };
    let package = match folder {
        "tests" => "Cargo.toml".to_owned(),
        _ => format!("{}/Cargo.toml", folder.strip_suffix("/tests")?),
    };
    if !root().join(&package).exists() || ["main", "mod"].contains(&name) {
        return None;
    }
    let manifest = read(&package);
    let is_apart = !manifest.contains("path = \"tests/main.rs\"")
        || manifest.contains(&format!("path = \"tests/{name}.rs\""));
    let (binary, module) = match is_apart {
        true => (name.to_owned(), String::new()),
        false => ("all".to_owned(), format!("{outer}{name}::")),
    };
    let package = manifest.split("\nname = \"").nth(1)?.split('"').next()?;
    Some(TestFile {
        package: package.to_owned(),
        binary,
        module,
    })
}

/// The words of `cargo test`.
struct CargoTest<'a> {
    packages: Vec<&'a str>,
    in_workspace: bool,
    has_lib: bool,
    tests: Vec<&'a str>,
    filters: Vec<&'a str>,
}

fn cargo_test(command: &str) -> Option<CargoTest<'_>> {
    let mut words = command.strip_prefix("cargo test")?.split_whitespace();
    let mut read = CargoTest {
        packages: Vec::new(),
        in_workspace: false,
        has_lib: false,
        tests: Vec::new(),
        filters: Vec::new(),
    };
    while let Some(word) = words.next() {
        match word {
            "-p" => read.packages.extend(words.next()),
            "--test" => read.tests.extend(words.next()),
            "--workspace" => read.in_workspace = true,
            "--lib" => read.has_lib = true,
            "--all-features" | "--doc" => {}
            "--" => read.filters = words.by_ref().collect(),
            other => panic!("`{command}`: what is `{other}`?"),
        }
    }
    if read.packages.is_empty() {
        read.packages.push("tollgate");
    }
    Some(read)
}

impl CargoTest<'_> {
    fn runs(&self, file: &str) -> bool {
        if file.starts_with("src/") {
            return self.has_lib && self.packages.contains(&"tollgate");
        }
        let Some(test) = test_of(file) else {
            return false;
        };
        let code = read(file);
        let names = code.lines().filter_map(|line| {
            let function = line.trim_start().split_once("fn ")?.1;
            function.split(['(', '<']).next()
        });
        let mut names = names.map(|name| format!("{}{name}", test.module));
        let is_selected = |name: &str| self.filters.iter().any(|filter| name.contains(filter));
        (self.in_workspace || self.packages.contains(&&*test.package))
            && self.tests.contains(&&*test.binary)
            && (self.filters.is_empty() || names.any(|name| is_selected(&name)))
    }
}

/// Whether one of the commands of a row runs this file.
fn is_run(row: &Row, file: &str) -> bool {
    let is_of_cargo = file.starts_with("src/") || test_of(file).is_some();
    row.commands
        .iter()
        .any(|command| match cargo_test(command) {
            Some(command) => command.runs(file),
            None => !is_of_cargo || file.starts_with("playground/page/"),
        })
}

/// What is wrong with the rows of such a page.
fn wrong_rows(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in rows(page) {
        let code: String = row.files.iter().map(read).collect();
        let lost = row.files.iter().filter(|file| !is_run(&row, file));
        wrong.extend(lost.map(|file| format!("{}: no command runs {file}", row.line)));
        let commands = row
            .commands
            .iter()
            .filter_map(|command| cargo_test(command));
        for command in commands {
            let tests: Vec<_> = row.files.iter().filter_map(|file| test_of(file)).collect();
            let of_row = |name: &str| tests.iter().any(|test| test.binary == name);
            let foreign = command.tests.iter().filter(|name| !of_row(name));
            wrong.extend(
                foreign.map(|name| format!("{}: none of its tests is in {name}", row.line)),
            );
            let mut filters = command.filters.iter();
            let is_named = |filter: &&str| {
                row.tests.iter().any(|test| test.contains(filter))
                    || tests.iter().any(|test| test.module == *filter)
            };
            if !command.has_lib && !filters.all(is_named) {
                wrong.push(format!(
                    "{}: {:?} select no test",
                    row.line, command.filters
                ));
            }
        }
        let lost = row
            .tests
            .iter()
            .filter(|test| !code.contains(&format!("fn {test}(")));
        wrong.extend(lost.map(|test| format!("{}: its files have no {test}", row.line)));
    }
    wrong
}

#[test]
fn each_command_of_the_index_of_tests_runs_the_tests_of_its_row() {
    let page = read("tests/README.md");
    let wrong = wrong_rows(&page);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        rows(&page).len() >= 60,
        "only {} rows were found",
        rows(&page).len()
    );
}

#[test]
fn each_test_file_stands_in_the_index_of_tests_and_no_promise_stands_there_twice() {
    let page = read("tests/README.md");
    let named: BTreeSet<_> = rows(&page).into_iter().flat_map(|row| row.files).collect();
    let all = files(&["tests", "playground", "replay", "benches", "examples"]);
    let all = all.iter().map(|path| path.strip_prefix(root()).unwrap());
    let paths = all.map(|path| path.to_str().unwrap().to_owned());
    let missing: Vec<_> = paths
        .filter(|path| test_of(path).is_some() && !named.contains(path))
        .collect();
    assert!(missing.is_empty(), "tests/README.md lacks {missing:#?}");
    let is_built = |path: &String| {
        let (folder, name) = path.strip_suffix(".rs").unwrap().rsplit_once('/').unwrap();
        let list = ["main.rs", "mod.rs"].map(|list| format!("{folder}/{list}"));
        let mut lists = list.iter().filter(|list| root().join(list).exists());
        test_of(path).unwrap().module.is_empty()
            || lists.any(|list| read(list).contains(&format!("\nmod {name};\n")))
    };
    let lost: Vec<_> = (named.iter())
        .filter(|path| test_of(path).is_some() && !is_built(path))
        .collect();
    assert!(lost.is_empty(), "no main.rs has {lost:#?}");
    let mut counts = BTreeMap::new();
    for row in rows(&page) {
        *counts.entry(row.line).or_insert(0) += 1;
    }
    counts.retain(|_, count| *count > 1);
    counts.remove("promise");
    assert!(counts.is_empty(), "{counts:#?}");
}

#[test]
fn a_command_that_leaves_out_a_test_is_found() {
    for (tests, command) in [
        (
            "`threads.rs`, `suspended.rs`",
            "cargo test --all-features --test all -- threads::",
        ),
        (
            "`properties/tests/model.rs`",
            "cargo test --all-features --test all -- model::",
        ),
        (
            "`threads.rs`",
            "cargo test --workspace --test all -- threads:: model::",
        ),
        (
            "`threads.rs`",
            "cargo test --test all --test flood -- threads::",
        ),
        ("`flood.rs`", "cargo test --test all"),
        (
            "`threads.rs` and `src/key/tuple.rs`",
            "cargo test --test all -- threads::",
        ),
        (
            "`no_test_has_this_name` in `threads.rs`",
            "cargo test --test all -- threads::",
        ),
        (
            "`properties/tests/{model,drift}.rs`",
            "cargo test -p tollgate-properties --test all -- drift::",
        ),
        (
            "`redis/tests/slow/turns.rs`",
            "cargo test -p tollgate-redis-tests --test all -- fast::turns::",
        ),
    ] {
        let wrong = wrong_rows(&format!("| a promise | {tests} | `{command}` |"));
        assert!(!wrong.is_empty(), "{tests} | {command}");
    }
}
