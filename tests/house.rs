//! Checks the layout of the source: which module may import which, where each external crate is
//! used, and what the docs of an algorithm must have. `CONTRIBUTING.md` has the same in prose.

#[path = "house/cycles.rs"]
mod cycles;
#[path = "house/source.rs"]
mod source;
#[path = "house/width.rs"]
mod width;

use std::{collections::BTreeSet, fs, path::Path};

use source::{Source, sources};

/// Each module with the modules that it may import, all of which are listed before it: so there is
/// no cycle.
///
/// Add an import here only on purpose.
const MODULES: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("docs", &[]),
    ("error", &[]),
    ("enforce", &[]),
    ("exempt", &[]),
    ("logged_once", &[]),
    ("quota", &["error"]),
    ("policy", &["error", "quota"]),
    ("decision", &["policy"]),
    ("key", &["error", "logged_once"]),
    ("store_error", &["error"]),
    ("cost", &["key"]),
    (
        "algorithm",
        &["clock", "decision", "error", "policy", "quota"],
    ),
    ("each_of", &["algorithm", "clock", "decision"]),
    ("keyed", &["algorithm", "each_of", "key"]),
    (
        "config",
        &[
            "algorithm",
            "clock",
            "decision",
            "each_of",
            "error",
            "quota",
        ],
    ),
    ("choice", &["algorithm", "error"]),
    (
        "rules",
        &[
            "algorithm",
            "choice",
            "clock",
            "config",
            "decision",
            "key",
            "keyed",
            "logged_once",
        ],
    ),
    (
        "store",
        &[
            "algorithm",
            "clock",
            "config",
            "each_of",
            "error",
            "key",
            "rules",
        ],
    ),
    ("hold", &["algorithm", "decision", "key", "store"]),
    ("observe", &["decision", "error", "store"]),
    ("response", &["decision", "error", "hold", "logged_once"]),
    (
        "limiter",
        &[
            "algorithm",
            "choice",
            "decision",
            "error",
            "hold",
            "key",
            "observe",
            "store",
        ],
    ),
];

/// The only tower code. It may import everything else.
const TOWER: &[&str] = &["layer"];

/// Each dependency with the files and folders that may use it.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("ahash", &["rules/routes.rs", "store/local/"]),
    (
        "arc_swap",
        &[
            "choice/reloadable.rs",
            "rules/mod.rs",
            "store/redis/node.rs",
        ],
    ),
    ("arrayvec", &["policy/name.rs", "store/local/"]),
    ("axum", &["key/", "response/"]),
    ("base64", &["key/portable/", "response/", "store/redis/"]),
    (
        "bytes",
        &["key/", "layer/end.rs", "response/", "store/redis/"],
    ),
    ("fred", &["store/redis/"]),
    ("hashbrown", &["store/local/"]),
    ("hmac", &["key/portable/"]),
    (
        "http",
        &["cost.rs", "key/", "layer/", "response/", "rules/"],
    ),
    ("http_body", &["layer/end.rs", "response/held_body.rs"]),
    ("http_body_util", &["response/"]),
    ("ipnet", &["key/client_ip/"]),
    ("itoa", &["response/"]),
    ("matchit", &["rules/routes.rs"]),
    ("metrics", &["observe/"]),
    ("parking_lot", &["store/local/"]),
    (
        "pin_project_lite",
        &["layer/", "limiter/call.rs", "store/either.rs"],
    ),
    ("quanta", &["clock/system.rs"]),
    ("serde", &["config/", "rules/"]),
    ("sha1", &["store/redis/"]),
    ("sha2", &["key/"]),
    ("siphasher", &["key/percentile.rs", "policy.rs"]),
    (
        "tokio",
        &["layer/waiting.rs", "limiter/until_ready.rs", "store/redis/"],
    ),
    ("tonic", &["key/", "response/"]),
    ("tower_layer", &["layer/"]),
    ("tower_service", &["layer/"]),
    (
        "tracing",
        &[
            "cost.rs",
            "key/",
            "layer/",
            "observe/trace.rs",
            "response/",
            "rules/matched.rs",
            "store/",
        ],
    ),
];

/// The words of locks, clocks, `cfg` and waiting, which a pure algorithm must not have.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "cfg",
    "Instant",
    "Mutex",
    "OnceLock",
    "RwLock",
    "SystemTime",
    "thread",
];

/// What `algorithm` exports besides its algorithms: the description of their scripts.
const NO_RULES: &[&str] = &["MemberReply", "Script", "ScriptReply"];

const MAX_LINES: usize = 450;

/// Longer files, each with the reason why it is not split.
const LONG_FILES: &[(&str, &str)] = &[
    (
        "algorithm/debt_bucket.rs",
        "the rule, and how its numbers are chosen",
    ),
    (
        "algorithm/settled.rs",
        "the rule, and the proof of its bound",
    ),
    ("store/redis/script.rs", "all of what is sent"),
];

#[test]
fn every_path_in_the_crate_points_down() {
    let wrong: Vec<_> = sources().iter().flat_map(paths_that_point_up).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_stands_below_what_it_names() {
    for (index, (module, may_name)) in MODULES.iter().enumerate() {
        for named in *may_name {
            let above = MODULES[..index].iter().any(|(above, _)| above == named);
            assert!(
                above,
                "{module} may import {named}, which is not listed before it"
            );
        }
    }
}

#[test]
fn nothing_in_a_folder_names_itself_in_a_circle() {
    let found: Vec<_> = cycles::cycles(&sources())
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_outside_crate_has_its_place() {
    let wrong: Vec<_> = sources().iter().flat_map(crates_out_of_place).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeSet<_> = OUTSIDE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(
        dependencies(),
        known,
        "the dependencies of Cargo.toml, and those with a place"
    );
}

#[test]
fn an_algorithm_is_a_pure_rule() {
    let wrong: Vec<_> = sources().iter().flat_map(impure_words).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_algorithm_tells_its_bound_its_memory_and_what_it_is_not_for() {
    let mut names = exported(&Source::read("algorithm/mod.rs"));
    names.retain(|name| !NO_RULES.contains(&name.as_str()));
    assert!(names.len() >= 9, "only {names:?} were found");
    let mut wrong = Vec::new();
    for source in sources() {
        wrong.extend(names.iter().flat_map(|name| untold(&source, name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_is_long_without_a_reason() {
    let long = |source: &&Source| source.text.lines().count() > MAX_LINES;
    let found: BTreeSet<_> = sources()
        .iter()
        .filter(long)
        .map(|source| source.path.clone())
        .collect();
    let listed: BTreeSet<_> = LONG_FILES
        .iter()
        .map(|(path, _)| (*path).to_owned())
        .collect();
    assert_eq!(
        found, listed,
        "files of more than {MAX_LINES} lines, and those that are listed"
    );
}

#[test]
fn comments_texts_and_lua_wrap_at_100_columns() {
    let wide = width::wide_prose();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

#[test]
fn the_front_page_has_no_logic() {
    let front = Source::read("lib.rs");
    let logic = ["fn", "impl", "trait", "macro_rules"];
    let found = front.words().find(|(word, _)| logic.contains(word));
    assert_eq!(found, None);
}

/// The paths of a file that lead to a module which it may not import, or out of its own module in
/// another way.
fn paths_that_point_up(source: &Source) -> Vec<String> {
    let module = source.module();
    if module == "lib" || TOWER.contains(&module) {
        return Vec::new();
    }
    let Some((_, may_name)) = MODULES.iter().find(|(name, _)| *name == module) else {
        return vec![format!(
            "{}: `{module}` is not in the list of modules",
            source.path
        )];
    };
    let mut wrong = Vec::new();
    for (named, line) in source.modules_named() {
        if named != module && !may_name.contains(&&*named) {
            wrong.push(format!(
                "{}:{line}: `{module}` may not import `crate::{named}`",
                source.path
            ));
        }
    }
    for line in source.supers_that_leave_the_module() {
        wrong.push(format!(
            "{}:{line}: `super` leaves `{module}`: say `crate::`",
            source.path
        ));
    }
    wrong
}

fn crates_out_of_place(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, places) in OUTSIDE {
        let is_here = |place: &&str| {
            source.path == **place || (place.ends_with('/') && source.path.starts_with(*place))
        };
        if places.iter().any(is_here) {
            continue;
        }
        for line in source.lines_that_name_crate(name) {
            wrong.push(format!(
                "{}:{line}: `{name}` may be used only in {places:?}",
                source.path
            ));
        }
    }
    wrong
}

fn impure_words(source: &Source) -> Vec<String> {
    if source.module() != "algorithm" {
        return Vec::new();
    }
    let is_impure = |word: &str| IMPURE.contains(&word) || word.starts_with("Atomic");
    let found = source.words().filter(|(word, _)| is_impure(word));
    found
        .map(|(word, line)| format!("{}:{line}: a pure algorithm has no `{word}`", source.path))
        .collect()
}

/// The names that a module re-exports from its own files.
fn exported(source: &Source) -> Vec<String> {
    let mut names = Vec::new();
    let words: Vec<_> = source.words().map(|(word, _)| word).collect();
    for (index, window) in words.windows(4).enumerate() {
        if let ["pub", "use", from, "::"] = window
            && *from != "crate"
        {
            let taken = words[index + 4..].iter().take_while(|word| **word != ";");
            names.extend(
                taken
                    .filter(|word| !["{", ",", "}"].contains(word))
                    .map(|word| (*word).to_owned()),
            );
        }
    }
    names
}

/// The lines that the docs of the algorithm with this name lack, if it is in this file.
fn untold(source: &Source, name: &str) -> Vec<String> {
    let lines: Vec<_> = source.text.lines().collect();
    let begins = |line: &&str| {
        line.strip_prefix("pub struct ")
            .is_some_and(|rest| rest.split(['(', '<', ' ', ';']).next() == Some(name))
    };
    let Some(end) = lines
        .iter()
        .position(begins)
        .filter(|_| source.module() == "algorithm")
    else {
        return Vec::new();
    };
    let docs: Vec<_> = lines[..end]
        .iter()
        .rev()
        .take_while(|line| !line.is_empty())
        .collect();
    let told = [
        "/// - **Bound**: ",
        "/// - **Memory**: ",
        "/// - **Not for** ",
    ];
    let untold = told
        .iter()
        .filter(|told| !docs.iter().any(|line| line.starts_with(**told)));
    untold
        .map(|told| {
            format!(
                "{}: the docs of `{name}` have no line `{told}`",
                source.path
            )
        })
        .collect()
}

/// The names under `[dependencies]`, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let lines = section.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.replace('-', "_"))
        .collect()
}

/// The tests of the test: each breaks one rule of the layout, which must be noticed.
mod broken {
    use super::*;

    #[test]
    fn a_path_that_points_up_is_found_however_it_is_written() {
        for text in [
            "use crate::store::LocalStore;",
            "use crate::{clock::Timestamp, store};",
            "use crate::{\n    clock::Timestamp,\n    store::{LocalStore, Store},\n};",
            "fn f() -> crate::layer::Options { loop {} }",
            "macro_rules! m { () => { $crate::response::Http } }",
            "use super::store::LocalStore;",
            "mod inner { use super::super::store::LocalStore; }",
            "use crate::RateLimiter;",
            "#[cfg(all(unix, feature = \"local\"))]\nuse crate::store::LocalStore;",
        ] {
            let wrong = paths_that_point_up(&Source::new("algorithm/mod.rs", text));
            assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
        }
        assert_eq!(paths_that_point_up(&Source::new("attic.rs", "")).len(), 1);
    }

    #[test]
    fn a_circle_is_found_through_what_a_folder_passes_on_and_through_folders() {
        let circles = |files: &[(&str, &str)]| -> Vec<String> {
            let sources: Vec<_> = files
                .iter()
                .map(|(path, text)| Source::new(path, text))
                .collect();
            let found = cycles::cycles(&sources);
            found.iter().map(|circle| circle.files.join(" ")).collect()
        };
        let passes_on = (
            "key/mod.rs",
            "mod a;\nmod b;\npub use self::{a::A, b::B as Other};",
        );
        for (a, b) in [
            ("use super::b::B;", "use crate::key::a::A;"),
            ("use super::Other;", "fn f() { super::a::f() }"),
            ("use super::{b};", "use crate::key::{A, C};"),
            (
                "mod inner { use super::super::b::B; }",
                "use super::{a::{self, A}};",
            ),
        ] {
            let found = circles(&[passes_on, ("key/a.rs", a), ("key/b.rs", b)]);
            assert_eq!(found, ["a b"], "{a} {b}");
        }
        let folders = [
            ("store/local/a.rs", "use crate::store::redis::b::B;"),
            ("store/local/c.rs", ""),
            ("store/redis/b.rs", "use crate::store::local::c::C;"),
        ];
        assert_eq!(circles(&folders), ["local redis"]);
        for (a, b) in [
            ("use super::b::B;", "use super::C;"),
            ("use super::b::B;", "mod inner { use super::A; }"),
            (
                "use super::b::B;",
                "#[cfg(test)]\nmod tests { use crate::key::a::A; }",
            ),
        ] {
            let found = circles(&[passes_on, ("key/a.rs", a), ("key/b.rs", b)]);
            assert_eq!(found, [""; 0], "{a} {b}");
        }
    }

    #[test]
    fn what_is_allowed_is_not_found() {
        for text in [
            "//! See [`crate::store::LocalStore`].\nuse crate::clock::Timestamp;",
            "const S: &str = \"use crate::store\"; const C: char = '\"'; pub(crate) fn f<'a>() {}",
            "#[cfg(test)]\nmod tests {\n    use crate::store::LocalStore;\n}\nuse crate::quota::Quota;",
            "#[cfg(test)]\n#[expect(unused, reason = \"r\")]\nuse crate::{store::LocalStore, limiter};",
            "#[cfg(all(test, feature = \"local\"))]\nmod tests {\n    use crate::store::LocalStore;\n}",
            "mod inner { use super::Algorithm; }",
        ] {
            let source = Source::new("algorithm/mod.rs", text);
            let wrong = [
                paths_that_point_up(&source),
                crates_out_of_place(&source),
                impure_words(&source),
            ];
            assert_eq!(wrong.concat(), [""; 0], "{text}");
        }
        assert_eq!(
            paths_that_point_up(&Source::new(
                "store/local/table.rs",
                "use super::entries::Entries;"
            )),
            [""; 0]
        );
    }

    #[test]
    fn an_outside_crate_out_of_its_place_is_found() {
        for text in [
            "use hashbrown::HashTable;",
            "fn f() { ::tokio::spawn(async {}); }",
            "use {std::fmt, axum::body::Body};",
            "use tonic as t;",
        ] {
            let wrong = crates_out_of_place(&Source::new("limiter.rs", text));
            assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
        }
    }

    #[test]
    fn an_algorithm_with_a_lock_a_clock_or_a_condition_is_found() {
        for text in [
            "use std::sync::Mutex;",
            "use std::time::Instant;",
            "use std::sync::atomic::AtomicU64;",
            "#[cfg(feature = \"redis\")]\nfn script() {}",
        ] {
            assert_eq!(
                impure_words(&Source::new("algorithm/gcra.rs", text)).len(),
                1,
                "{text}"
            );
        }
    }

    #[test]
    fn an_algorithm_that_does_not_tell_its_bound_is_found() {
        let text = "\n/// Admits.\n///\n/// - **Memory**: none.\n/// - **Not for** you.\n#[derive(Debug)]\n\
                    pub struct Mine(Policy);\n";
        let wrong = untold(&Source::new("algorithm/mine.rs", text), "Mine");
        assert_eq!(
            wrong,
            ["algorithm/mine.rs: the docs of `Mine` have no line `/// - **Bound**: `"]
        );
    }
}
