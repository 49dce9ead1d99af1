//! Checks the layout of the source: which module may import which, where each external crate is
//! used, and what the docs of an algorithm must have. `CONTRIBUTING.md` has the same in prose.

use std::{collections::BTreeSet, path::Path};

use crate::files::{files, read, root};

/// Each module with the modules that it may import, all of which are listed before it: so there is
/// no cycle.
///
/// Add an import here only on purpose.
const MODULES: &[(&str, &str)] = &[
    ("timestamp", ""),
    ("clock", "timestamp"),
    ("docs", ""),
    ("error", ""),
    ("logged_once", ""),
    ("quota", "error"),
    ("policy", "error quota"),
    ("decision", "policy"),
    ("key", "error logged_once"),
    ("store_error", "error"),
    ("cost", "key"),
    ("algorithm", "clock decision error policy quota"),
    ("each_of", "algorithm clock decision"),
    ("keyed", "algorithm each_of key"),
    ("config", "algorithm clock decision each_of error quota"),
    ("choice", "algorithm error"),
    (
        "rules",
        "algorithm choice clock config decision error key keyed logged_once",
    ),
    ("store", "algorithm clock config each_of error key rules"),
    ("hold", "algorithm decision key store"),
    ("observe", "algorithm decision error key store"),
    ("response", "clock decision error hold"),
    (
        "limiter",
        "algorithm choice clock decision error hold key observe store",
    ),
];

/// `layer` is the only tower code. It and the front page may import everything.
const TOP: [&str; 2] = ["layer", "lib"];

/// Each dependency with the files and folders that may use it.
const OUTSIDE: &[(&str, &str)] = &[
    ("ahash", "rules/routes.rs store/local/"),
    ("arc_swap", "choice/reloadable.rs rules/mod.rs"),
    ("arrayvec", "policy/name.rs store/local/"),
    ("axum", "key/ response/"),
    ("base64", "key/portable/ response/ store/redis/"),
    ("bytes", "key/ response/ store/redis/"),
    ("fred", "store/redis/"),
    ("hashbrown", "store/local/"),
    ("hmac", "key/portable/"),
    ("http", "cost.rs key/ layer/ response/ rules/"),
    ("http_body", "response/body.rs response/body_end.rs"),
    ("http_body_util", "response/"),
    ("ipnet", "key/client_ip/"),
    ("itoa", "response/"),
    ("metrics", "observe/"),
    ("parking_lot", "store/local/"),
    ("pin_project_lite", "layer/ limiter/call.rs store/either.rs"),
    ("quanta", "clock/system.rs"),
    ("serde", "config/ rules/"),
    ("sha1", "store/redis/"),
    ("sha2", "key/"),
    ("siphasher", "key/percentile.rs policy.rs"),
    (
        "tokio",
        "layer/mod.rs layer/waiting.rs limiter/until_ready.rs limiter/waiting_lines.rs store/redis/",
    ),
    ("tonic", "key/ response/"),
    ("tower_layer", "layer/"),
    ("tower_service", "layer/"),
    (
        "tracing",
        "cost.rs key/ observe/trace.rs rules/matched.rs store/",
    ),
];

/// The words of locks, clocks, `cfg` and waiting, which a pure algorithm must not have.
const IMPURE: &str = "async await cfg Instant Mutex OnceLock RwLock SystemTime thread";

/// What several algorithms are made of.
const PARTS_OF_RULES: [&str; 3] = [
    "algorithm/debt_bucket.rs",
    "algorithm/log.rs",
    "algorithm/same_rule.rs",
];

const MAX_LINES: usize = 450;

/// Longer files: a rule and how its numbers are chosen or its bound is proved, and all that is sent
/// in gRPC's form.
const LONG_FILES: [&str; 3] = [
    "algorithm/debt_bucket.rs",
    "algorithm/settled.rs",
    "response/grpc.rs",
];

/// The maximum width of a comment with its indentation. Tables, links and code may be wider.
const MAX_COLUMNS: usize = 100;

/// A file under `src` that is compiled outside of tests.
struct Source {
    /// Relative to `src`.
    path: String,
    text: String,
    /// Without comments and test code.
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: code_and_tests(text).0,
        }
    }

    /// The top-level module that the file belongs to.
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// The paths that lead to a module which this one may not import, or out of it by `super`.
    fn paths_that_point_up(&self) -> Vec<String> {
        let module = self.module();
        let Some((_, may_name)) = MODULES.iter().find(|(name, _)| *name == module) else {
            let wrong = format!("{}: `{module}` is not in the list of modules", self.path);
            return if TOP.contains(&module) {
                Vec::new()
            } else {
                vec![wrong]
            };
        };
        let mut wrong = modules_named(&self.code);
        wrong.retain(|named| named != module && !may_name.split(' ').any(|may| may == named));
        let depth = self.path.split('/').count() - usize::from(self.path.ends_with("/mod.rs"));
        // What is indented may be in a module of the file.
        let out = "super::".repeat(depth);
        let mut lines = self.code.lines().filter(|line| !line.starts_with(' '));
        if lines.any(|line| line.contains(&out)) {
            wrong.push("super".to_owned());
        }
        let of_file = |named| format!("{}: `{module}` may not import `{named}`", self.path);
        wrong.into_iter().map(of_file).collect()
    }

    fn crates_out_of_place(&self) -> Vec<String> {
        let is_here = |place: &str| {
            self.path == place || (place.ends_with('/') && self.path.starts_with(place))
        };
        let not_here = OUTSIDE
            .iter()
            .filter(|(_, places)| !places.split(' ').any(is_here));
        let named = not_here.filter(|(name, _)| {
            let mut found = self.code.match_indices(name);
            found.any(|(at, _)| {
                let (before, after) = (&self.code[..at], &self.code[at + name.len()..]);
                let is_first = !before.ends_with(|it: char| is_of_word(it) || it == ':');
                let is_alone = before.ends_with("use ") && after.starts_with([' ', ';']);
                is_first && (after.starts_with("::") || is_alone)
            })
        });
        named
            .map(|(name, places)| format!("{}: `{name}` belongs into {places}", self.path))
            .collect()
    }

    fn impure_words(&self) -> Vec<String> {
        if self.module() != "algorithm" {
            return Vec::new();
        }
        let words = self.code.split(|it| !is_of_word(it));
        let impure = words.filter(|word| {
            word.starts_with("Atomic") || IMPURE.split(' ').any(|impure| impure == *word)
        });
        impure
            .map(|word| format!("{}: a pure algorithm has no `{word}`", self.path))
            .collect()
    }

    /// What the docs of its algorithm lack, if there is one.
    fn untold(&self) -> Vec<String> {
        let is_algorithm = self.module() == "algorithm"
            && !PARTS_OF_RULES.contains(&&*self.path)
            && self
                .code
                .lines()
                .any(|line| line.starts_with("impl") && line.contains("Algorithm for "));
        let told = ["- **Bound**: ", "- **Memory**: ", "- **Not for** "];
        let untold = told
            .iter()
            .filter(|told| is_algorithm && !self.text.contains(&format!("\n/// {told}")));
        untold
            .map(|told| format!("{}: the docs have no line `{told}`", self.path))
            .collect()
    }
}

fn is_of_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// The lines without comments and items for tests; and the names of the modules for tests.
fn code_and_tests(text: &str) -> (String, Vec<String>) {
    let (mut code, mut tests) = (String::new(), Vec::new());
    let mut lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if !start.starts_with("#[cfg(test)]") && !start.starts_with("#[cfg(all(test,") {
            code += &format!("{line}\n");
            continue;
        }
        let indentation = line.len() - start.len();
        for line in lines.by_ref() {
            let item = line.trim_start();
            if let Some(name) = item
                .strip_prefix("mod ")
                .and_then(|it| it.strip_suffix(';'))
            {
                tests.push(name.to_owned());
            }
            let ends = item.ends_with('}') || item.ends_with(';');
            if ends && line.len() - item.len() == indentation {
                break;
            }
        }
    }
    (code, tests)
}

/// What comes after `crate::`, in a path or in a group.
fn modules_named(code: &str) -> Vec<String> {
    let word = |text: &str| {
        text.trim_start()
            .chars()
            .take_while(|it| is_of_word(*it))
            .collect()
    };
    let mut named: Vec<String> = Vec::new();
    for path in code.split("crate::").skip(1) {
        let Some(group) = path.strip_prefix('{') else {
            named.push(word(path));
            continue;
        };
        let mut depth = 0;
        let mut rest = format!(",{group}");
        while depth >= 0 && !rest.is_empty() {
            match rest.remove(0) {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => named.push(word(&rest)),
                _ => {}
            }
        }
    }
    named.retain(|name| !name.is_empty());
    named
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let (mut sources, mut tests) = (Vec::new(), Vec::new());
    for path in files(&["src"]) {
        if path.extension().is_some_and(|it| it == "rs") {
            let text = read(&path);
            let folder = match path.ends_with("mod.rs") || path.ends_with("lib.rs") {
                true => path.parent().unwrap().to_owned(),
                false => path.with_extension(""),
            };
            let names = code_and_tests(&text).1;
            tests.extend(names.iter().map(|name| folder.join(format!("{name}.rs"))));
            sources.push((path, text));
        }
    }
    sources.retain(|(path, _)| !tests.contains(path));
    assert!(sources.len() > 40, "only {} were found", sources.len());
    let relative = |path: &Path| {
        path.strip_prefix(&src)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    sources
        .iter()
        .map(|(path, text)| Source::new(&relative(path), text))
        .collect()
}

fn nothing_is_wrong(wrong: impl Fn(&Source) -> Vec<String>) {
    let wrong: Vec<_> = sources().iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_path_in_the_crate_points_down() {
    for (index, (module, may_name)) in MODULES.iter().enumerate() {
        for named in may_name.split_whitespace() {
            let is_before = MODULES[..index].iter().any(|(before, _)| *before == named);
            assert!(
                is_before,
                "{module} may import {named}, which is not listed before it"
            );
        }
    }
    nothing_is_wrong(Source::paths_that_point_up);
}

#[test]
fn every_outside_crate_has_its_place() {
    nothing_is_wrong(Source::crates_out_of_place);
    let manifest = read("Cargo.toml");
    let (_, section) = manifest.split_once("\n[dependencies]\n").unwrap();
    let section = section.split("\n[").next().unwrap();
    let lines = section.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split_once(" = "));
    let names: BTreeSet<_> = names.map(|(name, _)| name.replace('-', "_")).collect();
    let known = OUTSIDE.iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(names, known.collect(), "in Cargo.toml, and with a place");
}

#[test]
fn an_algorithm_is_a_pure_rule_and_tells_its_bound_its_memory_and_what_it_is_not_for() {
    nothing_is_wrong(Source::impure_words);
    nothing_is_wrong(Source::untold);
}

#[test]
fn no_file_is_long_without_a_reason() {
    let mut long = sources();
    long.retain(|source| source.text.lines().count() > MAX_LINES);
    let mut long: Vec<_> = long.iter().map(|source| &*source.path).collect();
    long.sort_unstable();
    assert_eq!(
        long, LONG_FILES,
        "files of more than {MAX_LINES} lines, and those that may be"
    );
}

/// The lines that are too wide: all lines of a text or of Lua, of other code the comments.
fn wide_lines(text: &str, comment: &str) -> Vec<usize> {
    let mut is_code = false;
    let is_wide = |(index, line): (usize, &str)| {
        let prose = line.trim_start().strip_prefix(comment)?;
        let prose = prose.trim_start_matches(['/', '!', ' ']);
        is_code ^= prose.starts_with("```");
        let may_be_wide = is_code || prose.starts_with(['|', '[']) || line.contains("![");
        (!may_be_wide && line.chars().count() > MAX_COLUMNS).then_some(index + 1)
    };
    text.lines().enumerate().filter_map(is_wide).collect()
}

#[test]
fn comments_texts_and_lua_wrap_at_100_columns() {
    let folders = "benches examples playground replay scripts src tests";
    let mut paths = files(&folders.split(' ').collect::<Vec<_>>());
    let texts = [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
    ];
    paths.extend(texts.map(|name| root().join(name)));
    for path in paths {
        let comment = match path.extension().and_then(|extension| extension.to_str()) {
            Some("js" | "rs") => "//",
            Some("py" | "toml") => "#",
            Some("lua" | "md") => "",
            _ => continue,
        };
        let wide = wide_lines(&read(&path), comment);
        assert!(wide.is_empty(), "{}: lines {wide:?}", path.display());
    }
}

/// The test of the tests: each rule of the layout is broken, which must be noticed.
#[test]
fn what_breaks_a_rule_is_found_and_what_is_allowed_is_not() {
    let found = |path: &str, text: &str| {
        let source = Source::new(path, text);
        let wrong = [
            source.paths_that_point_up(),
            source.crates_out_of_place(),
            source.impure_words(),
            source.untold(),
        ];
        wrong.concat().len()
    };
    for text in [
        "use crate::store::LocalStore;",
        "use crate::{clock::Timestamp, store};",
        "use crate::{\n    clock::{A, B},\n    store::{LocalStore, Store},\n};",
        "fn f() -> crate::layer::RateLimit { loop {} }",
        "use super::store::LocalStore;",
        "use crate::RateLimiter;",
        "#[cfg(test)]\nmod tests {\n    f();\n}\nuse crate::store::LocalStore;",
        "use hashbrown::HashTable;",
        "use {std::fmt, axum::body::Body};",
        "use tonic as t;",
        "use std::sync::Mutex;",
        "use std::sync::atomic::AtomicU64;",
        "#[cfg(feature = \"redis\")]\nfn script() {}",
        "\n/// - **Memory**: no.\n/// - **Not for** you.\nimpl Algorithm for Mine {}",
    ] {
        assert_eq!(found("algorithm/mod.rs", text), 1, "{text}");
    }
    assert_eq!(found("attic.rs", ""), 1);
    for text in [
        "//! See [`crate::store::LocalStore`].\nuse crate::clock::Timestamp;",
        "#[cfg(test)]\nmod tests {\n    use crate::store::LocalStore;\n}\nuse crate::quota::Quota;",
        "#[cfg(all(test, feature = \"local\"))]\nuse crate::{\n    store,\n};",
        "use super::super::clock;",
    ] {
        assert_eq!(found("algorithm/log/table.rs", text), 0, "{text}");
    }
    let long = "a ".repeat(60);
    let text =
        format!("/// {long}\n/// | {long}\n/// ```\n/// {long}\n/// ```\n//! {long}\n{long}");
    assert_eq!(wide_lines(&text, "//"), [1, 6]);
}
