//! The tests, files, events and metrics that the chapters of the docs name exist. And each chapter
//! is linked in the docs and from the README.

#[path = "chapters/promises.rs"]
mod promises;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::files::{files, read, root};

/// The text of each chapter, by its name.
fn chapters() -> BTreeMap<String, String> {
    let folder = fs::read_dir(root().join("src/docs")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let named = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, read(path))
    };
    texts.map(named).collect()
}

/// The texts between backticks, outside of code blocks.
fn quoted(text: &str) -> Vec<&str> {
    let mut quoted = Vec::new();
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 0 {
            quoted.extend(part.split('`').skip(1).step_by(2));
        }
    }
    quoted
}

/// Whether it looks like the name of a test.
fn is_name_of_a_test(text: &str) -> bool {
    let is_snake = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.bytes().all(is_snake) && text.matches('_').count() >= 4
}

#[test]
fn each_type_of_another_crate_that_is_public_is_in_the_docs() {
    let (items, docs) = (
        read(root().join("tests/public-items.txt")),
        read(root().join("src/lib.rs")),
    );
    let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let paths = items.split(|character| !is_path(character));
    // The last one writes a bound on a type that it hides, which nobody can name.
    let own = ["alloc", "core", "std", "tollgate", "pin_project_lite"];
    let public: BTreeSet<_> = paths
        .filter_map(|path| {
            let mut words = path.split("::");
            let (of, name) = (
                words.next()?,
                words.find(|it| it.starts_with(char::is_uppercase)),
            );
            let is_foreign = of.starts_with(char::is_lowercase) && !own.contains(&of);
            Some((of, name?)).filter(|_| is_foreign)
        })
        .collect();
    let (_, table) = docs
        .split_once("# Whose types are in the signatures")
        .unwrap();
    let rows = table
        .lines()
        .skip_while(|line| !line.starts_with("//! | `"));
    let rows = rows.map_while(|line| line.strip_prefix("//! | "));
    let named = rows
        .flat_map(|row| {
            let names = quoted(row.rsplit_once('|').unwrap().0.rsplit_once('|').unwrap().0);
            names[1..]
                .iter()
                .map(|name| (names[0], *name))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(public, named);
}

#[test]
fn each_test_and_each_file_that_a_chapter_names_is_there() {
    let sources = files(&["src", "tests", "playground", "replay", "scripts"]);
    let of_rust = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "rs");
    let code: String = sources.iter().filter(of_rust).map(read).collect();
    let mut missing = Vec::new();
    let mut tests = 0;
    for (chapter, text) in chapters() {
        for name in quoted(&text) {
            let is_there = match name.split_once(".rs") {
                Some((_, "")) => sources.iter().any(|path| path.ends_with(name)),
                _ if is_name_of_a_test(name) => {
                    tests += 1;
                    code.contains(&format!("fn {name}("))
                }
                _ if name.starts_with("scripts/") || name.starts_with("tests/") => {
                    let path = name.split(' ').next().unwrap_or(name);
                    root().join(path).exists()
                }
                _ => true,
            };
            if !is_there {
                missing.push(format!("{chapter}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(tests >= 40, "only {tests} tests were found");
}

/// The level and the message of each event that this code logs.
fn events(code: &str) -> Vec<(String, String)> {
    let mut events = Vec::new();
    for call in code.split("tracing::").skip(1) {
        let Some((level, call)) = call.split_once("!(") else {
            continue;
        };
        // No message has a parenthesis.
        let arguments = call.split(')').next().unwrap_or("");
        let texts: Vec<_> = arguments.split('"').skip(1).step_by(2).collect();
        if let ["tollgate::store", .., message] = texts[..] {
            events.push((level.to_owned(), message.to_owned()));
        }
    }
    events
}

#[test]
fn what_the_store_in_redis_logs_is_what_the_chapter_lists() {
    let logged = files(&["src/store/redis"]);
    let logged: BTreeSet<_> = logged.iter().flat_map(|path| events(&read(path))).collect();
    let chapter = read("src/docs/operating_redis.md");
    let listed = chapter.lines().filter_map(|line| {
        let (level, rest) = line.strip_prefix("| ")?.split_once(" | `")?;
        let is_level = ["info", "warn", "error"].contains(&level);
        is_level.then(|| (level.to_owned(), rest.split('`').next().unwrap().to_owned()))
    });
    assert_eq!(logged, listed.collect());
    assert!(logged.len() >= 8, "{logged:?}");
}

#[test]
fn each_error_that_the_chapter_explains_is_one_of_the_store_s() {
    let code: String = files(&["src/store/redis"]).iter().map(read).collect();
    let chapter = read("src/docs/operating_redis.md");
    let (_, table) = chapter.split_once("| `error` has |").unwrap();
    let table = table.split("\n\n").next().unwrap();
    let mut explained = 0;
    for line in table.lines().skip(2) {
        let column = line.strip_prefix("| ").unwrap().split(" | ").next();
        for error in quoted(column.unwrap()) {
            // The chapter's text has the length of the deadline, too.
            let error = error.trim_end_matches("100ms");
            assert!(code.contains(error), "{error}");
            explained += 1;
        }
    }
    assert!(explained >= 20, "{explained}");
}

#[test]
fn each_metric_that_a_chapter_names_is_recorded() {
    let code: String = files(&["src/observe"]).iter().map(read).collect();
    let mut names = BTreeSet::new();
    for text in chapters().values() {
        let metrics = quoted(text)
            .into_iter()
            .filter(|name| name.starts_with("tollgate."));
        names.extend(metrics.map(str::to_owned));
    }
    assert!(names.len() >= 6, "{names:?}");
    for name in names {
        assert!(code.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn each_chapter_stands_in_the_table_of_the_docs_and_in_the_readme() {
    let (table, readme) = (read("src/docs/mod.rs"), read("README.md"));
    for chapter in chapters().keys() {
        let is_listed = table.contains(&format!("//! | [`{chapter}`] | "));
        assert!(is_listed, "{chapter}");
        let link = format!("](src/docs/{chapter}.md)");
        assert!(readme.contains(&link), "the README has no {link}");
    }
}

#[test]
fn the_websocket_of_the_chapter_is_the_one_that_is_tested() {
    let tested = read("tests/wire/tests/websocket.rs");
    let (_, handler) = tested.split_once("async fn keeps_its_hold(").unwrap();
    let handler = handler.split_inclusive("\n}\n").next().unwrap();
    assert!(read("src/docs/costs_known_afterwards.md").contains(handler));
}

/// The links of a text, except for URLs, items and anchors in itself.
fn linked(text: &str) -> Vec<&str> {
    let mut linked = Vec::new();
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 0 {
            let inline = part.split("](").skip(1).map(|rest| rest.split(')').next());
            let defined = part.lines().filter(|line| line.starts_with('['));
            let defined = defined.map(|line| line.split_once("]: ").map(|(_, target)| target));
            linked.extend(inline.chain(defined).flatten());
        }
    }
    let is_file = |target: &&str| {
        !["http", "#", "crate::"]
            .iter()
            .any(|it| target.starts_with(it))
    };
    linked.retain(is_file);
    linked
}

/// The anchors of a text.
fn places(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let place = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(place).collect()
}

#[test]
fn each_file_and_place_that_the_readme_and_the_chapters_link_to_is_there() {
    let chapters = chapters()
        .into_keys()
        .map(|name| format!("src/docs/{name}.md"));
    let readmes = [
        "README.md",
        "CONTRIBUTING.md",
        "tests/README.md",
        "tests/compile_fail/tests/mistakes/README.md",
    ]
    .map(str::to_owned);
    let (mut missing, mut links) = (Vec::new(), 0);
    for page in readmes.into_iter().chain(chapters) {
        let text = read(&page);
        let folder = Path::new(&page).parent().unwrap();
        for link in linked(&text) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let path = folder.join(file);
            let is_there = root().join(&path).exists()
                && (place.is_empty() || places(&read(&path)).contains(place));
            links += 1;
            if !is_there {
                missing.push(format!("{page}: {link}"));
            }
        }
        let own = text
            .split("](#")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let lost = own.filter(|place| !places(&text).contains(*place));
        missing.extend(lost.map(|place| format!("{page}: #{place}")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(links >= 30, "only {links} links were found");
}
