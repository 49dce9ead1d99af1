//! The folder `sent` has scripts as Redis runs them, and the SHA-1 sums of all scripts are pinned:
//! nobody changes a script by accident, since processes of two releases share states.

use std::{
    any::type_name,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    path::PathBuf,
    time::Duration,
};

use crate::{Quota, algorithm::*};
use tollgate_algorithms::every_algorithm;

use super::*;

const REFRESH: &str = "TOLLGATE_PIN_SCRIPTS";

const CHANGED: &str = "a script has changed: if its state is laid out as before, run this test \
                       with TOLLGATE_PIN_SCRIPTS=1; if not, give the layout another name first";

const HEAD_OF_DECIDES: &str = "\
| decides about a cost | for |
|---|---|
";

/// Scripts in the folder `sent`, beside the `decide` of each algorithm: what each is, and its file.
const SHOWN: &[(&str, &str)] = &[
    ("TokenBucket: peek", "peek_token_bucket.lua"),
    ("TokenBucket: repair", "repair_token_bucket.lua"),
    ("TokenBucket: refund", "refund_token_bucket.lua"),
    ("TokenBucket: debit", "debit_token_bucket.lua"),
    ("TokenBucket: take back", "take_back_token_bucket.lua"),
    (
        "TokenBucket: decide, at the caller's time",
        "decide_token_bucket_at_callers_time.lua",
    ),
    (
        "LeakyBucketQueue: withdraw",
        "withdraw_leaky_bucket_queue.lua",
    ),
    (
        "(TokenBucket, FixedWindow, MinInterval): decide",
        "decide_tuple.lua",
    ),
    (
        "(PerRequest<TokenBucket>, TokenBucket): decide",
        "decide_requests_and_tokens.lua",
    ),
    (
        "Settled<TokenBucket>: decide",
        "decide_settled_token_bucket.lua",
    ),
    (
        "Settled<TokenBucket>: settle",
        "settle_settled_token_bucket.lua",
    ),
    (
        "(Settled<TokenBucket>, MinInterval): decide",
        "decide_settled_tuple.lua",
    ),
    (
        "(Settled<TokenBucket>, MinInterval): settle",
        "settle_settled_tuple.lua",
    ),
    ("InFlight: decide", "decide_in_flight.lua"),
    ("InFlight: settle", "end_in_flight.lua"),
    ("InFlight: renew", "renew_in_flight.lua"),
    (
        "EachOf((TokenBucket, FixedWindow)): decide",
        "decide_each_of.lua",
    ),
    (
        "(TokenBucket, Shadow<FixedWindow>): decide",
        "decide_tuple_with_shadow.lua",
    ),
];

/// A description of a script, and the script.
type Pinned = (String, Loadable);

/// A type of algorithm.
struct AlgorithmType {
    name: String,
    scripts: fn(TimeOf) -> Scripts,
}

fn type_of<A: Scripted>(_: &A) -> AlgorithmType {
    // Without the modules before each name.
    let words = type_name::<A>().split_inclusive('<');
    let names = words.map(|word| word.rsplit("::").next().unwrap_or(word));
    AlgorithmType {
        name: names.collect(),
        scripts: Scripts::of::<A>,
    }
}

/// Every type of algorithm, once.
fn algorithm_types() -> Vec<AlgorithmType> {
    macro_rules! types {
        ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {
            vec![$(type_of(&$algorithm)),+]
        };
    }
    let quota = Quota::per_second(10);
    let (burst, precision, interval) = (20, Duration::from_millis(100), Duration::from_secs(1));
    let mut types = every_algorithm!(types, quota, burst, precision, interval);
    let mut names = HashSet::new();
    types.retain(|of| names.insert(of.name.clone()));
    types
}

fn scripts_of(name: &str, scripts: Scripts) -> Vec<Pinned> {
    let tasks = [
        ("decide", Some(scripts.decide)),
        ("peek", Some(scripts.peek)),
        ("repair", Some(scripts.repair)),
        ("refund", Some(scripts.refund)),
        ("debit", Some(scripts.debit)),
        ("settle", scripts.settle),
        ("renew", scripts.renew),
        ("withdraw", scripts.withdraw),
        ("take back", Some(scripts.take_back)),
    ];
    tasks
        .into_iter()
        .filter_map(|(task, script)| Some((format!("{name}: {task}"), script?)))
        .collect()
}

fn scripts_of_keys(name: &str, limits: Vec<Script>, time: TimeOf) -> Vec<Pinned> {
    let MultiKeyScripts { decide, peek, .. } = MultiKeyScripts::of(limits, time);
    vec![
        (format!("{name}: decide"), decide),
        (format!("{name}: peek"), peek),
    ]
}

/// All scripts that are pinned.
fn all() -> Vec<Pinned> {
    let callers = at(TimeOf::Caller).into_iter();
    let callers = callers.map(|(what, script)| (format!("{what}, at the caller's time"), script));
    at(TimeOf::Server).into_iter().chain(callers).collect()
}

fn at(time: TimeOf) -> Vec<Pinned> {
    let each = algorithm_types()
        .into_iter()
        .flat_map(|of| scripts_of(&of.name, (of.scripts)(time)));
    let tuples = [
        scripts_of(
            "(TokenBucket, SlidingLog)",
            Scripts::of::<(TokenBucket, SlidingLog)>(time),
        ),
        scripts_of(
            "(TokenBucket, FixedWindow, MinInterval)",
            Scripts::of::<(TokenBucket, FixedWindow, MinInterval)>(time),
        ),
        scripts_of(
            "(LeakyBucketQueue, FixedWindow, MinInterval)",
            Scripts::of::<(LeakyBucketQueue, FixedWindow, MinInterval)>(time),
        ),
        scripts_of(
            "(PerRequest<TokenBucket>, TokenBucket)",
            Scripts::of::<(PerRequest<TokenBucket>, TokenBucket)>(time),
        ),
        scripts_of(
            "Settled<TokenBucket>",
            Scripts::of::<Settled<TokenBucket>>(time),
        ),
        scripts_of(
            "Settled<SlidingLog>",
            Scripts::of::<Settled<SlidingLog>>(time),
        ),
        scripts_of("InFlight", Scripts::of::<InFlight>(time)),
        scripts_of(
            "(Settled<SlidingLog>, InFlight)",
            Scripts::of::<(Settled<SlidingLog>, InFlight)>(time),
        ),
        scripts_of(
            "(Settled<TokenBucket>, MinInterval)",
            Scripts::of::<(Settled<TokenBucket>, MinInterval)>(time),
        ),
        scripts_of(
            "(TokenBucket, Shadow<FixedWindow>)",
            Scripts::of::<(TokenBucket, Shadow<FixedWindow>)>(time),
        ),
        scripts_of(
            "(FixedWindow, Shadow<LeakyBucketQueue>)",
            Scripts::of::<(FixedWindow, Shadow<LeakyBucketQueue>)>(time),
        ),
        scripts_of(
            "(FixedWindow, Shadow<Settled<TokenBucket>>)",
            Scripts::of::<(FixedWindow, Shadow<Settled<TokenBucket>>)>(time),
        ),
        scripts_of_keys(
            "EachOf((TokenBucket, Shadow<FixedWindow>))",
            vec![TokenBucket::script(), Shadow::<FixedWindow>::script()],
            time,
        ),
        scripts_of_keys(
            "EachOf((Settled<TokenBucket>, FixedWindow))",
            vec![Settled::<TokenBucket>::script(), FixedWindow::script()],
            time,
        ),
        scripts_of_keys(
            "EachOf((TokenBucket, FixedWindow))",
            vec![TokenBucket::script(), FixedWindow::script()],
            time,
        ),
        scripts_of_keys(
            "EachOf((SlidingLog, (TokenBucket, SlidingLog)))",
            vec![SlidingLog::script(), <(TokenBucket, SlidingLog)>::script()],
            time,
        ),
    ];
    each.chain(tuples.into_iter().flatten()).collect()
}

/// A script that decides for an algorithm, or for several of the same rule.
struct Decide {
    file: String,
    text: String,
    of: Vec<String>,
}

/// The `decide` of each algorithm.
fn decides() -> Vec<Decide> {
    let mut decides: Vec<Decide> = Vec::new();
    for AlgorithmType { name, scripts } in algorithm_types() {
        let text = scripts(TimeOf::Server).decide.text;
        match decides.iter_mut().find(|known| known.text == text) {
            Some(known) => known.of.push(name),
            None => decides.push(Decide {
                file: format!("decide_{}.lua", snake_case(&name)),
                text,
                of: vec![name],
            }),
        }
    }
    decides
}

/// Which algorithms each of them decides for, as the table of the folder `sent` has it.
fn table_of_decides() -> String {
    let mut table = HEAD_OF_DECIDES.to_owned();
    for Decide { file, of, .. } in decides() {
        table += &format!("| `{file}` | `{}` |\n", of.join("`, `"));
    }
    table
}

/// The files of the folder `sent`: the `decide` of each algorithm, and those of [`SHOWN`].
fn sent() -> BTreeMap<String, String> {
    let decides = decides().into_iter().map(|it| (it.file, it.text));
    let mut files: BTreeMap<_, _> = decides.collect();
    let all = all();
    for (shown, file) in SHOWN {
        let script = all.iter().find(|(what, _)| what == shown);
        let (_, script) = script.unwrap_or_else(|| panic!("no script is `{shown}`"));
        files.insert((*file).to_owned(), script.text.clone());
    }
    files
}

/// The scripts in the folder.
fn files_in_the_folder() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder("sent")).expect("the folder") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if name.ends_with(".lua") {
            let text = fs::read_to_string(&path).expect("text");
            files.insert(name.into_owned(), text);
        }
    }
    files
}

fn snake_case(name: &str) -> String {
    let mut snake_case = String::new();
    let letters = |character: &char| character.is_ascii_alphanumeric();
    for character in name.chars().filter(letters) {
        if character.is_ascii_uppercase() && !snake_case.is_empty() {
            snake_case.push('_');
        }
        snake_case.push(character.to_ascii_lowercase());
    }
    snake_case
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/")).join(name)
}

/// The comment that begins a script.
fn header(text: &str) -> Vec<&str> {
    let is_comment = |line: &&str| line.starts_with("--");
    text.lines().take_while(is_comment).collect()
}

/// The keys that have a row `Writes` in the header of a script.
fn keys_with_a_row(text: &str) -> BTreeSet<&str> {
    let rows = header(text).into_iter();
    let rows = rows.filter_map(|line| line.strip_prefix("-- Writes   "));
    rows.filter(|row| *row != "nothing")
        .map(|row| row.split(',').next().expect("a key"))
        .collect()
}

/// The keys that the commands of a script write. Each command is `call('SET', key, ...)` or
/// alike, where `key` was assigned in a line above.
fn keys_written(text: &str) -> BTreeSet<&str> {
    const READING: &[&str] = &["'GET'", "'LINDEX'", "'TIME'"];
    let (mut names, mut written) = (HashMap::new(), BTreeSet::new());
    for line in text.lines().filter(|line| !line.trim().starts_with("--")) {
        if let Some((left, right)) = line.trim().split_once(" = ") {
            let left = left.trim_start_matches("local ").split(", ");
            let assigned = left.zip(right.split(", "));
            names.extend(assigned.filter(|(_, value)| value.starts_with("KEYS[")));
        }
        let calls = line
            .match_indices("call(")
            .filter(|(at, _)| !line[..*at].ends_with('p'));
        for (at, call) in calls {
            let mut words = line[at + call.len()..].split([',', ')']).map(str::trim);
            let command = words.next().expect("a command");
            if READING.contains(&command) {
                continue;
            }
            let key = words.next().expect("a key");
            written.insert(match key.starts_with("KEYS[") {
                true => key,
                false => names[key],
            });
        }
    }
    written
}

fn is_refreshed() -> bool {
    std::env::var_os(REFRESH).is_some()
}

#[test]
fn the_sum_of_every_script_is_the_one_that_was_pinned() {
    let line = |(what, script): Pinned| format!("{} {what}\n", script.sha1.as_str().unwrap());
    let found: String = all().into_iter().map(line).collect();
    if is_refreshed() {
        let path = folder("scripts").join("pinned.txt");
        fs::write(path, &found).expect("the pinned sums, written");
        return;
    }
    assert_eq!(found, include_str!("pinned.txt"), "{CHANGED}");
}

#[test]
fn what_is_sent_is_what_stands_in_the_folder_sent() {
    let sent = sent();
    if is_refreshed() {
        for (file, text) in &sent {
            fs::write(folder("sent").join(file), text).expect("a script, written");
        }
        return;
    }
    let found = files_in_the_folder();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&sent), names(&found));
    for (file, text) in &sent {
        assert_eq!(*text, found[file], "{file}: {CHANGED}");
    }
}

#[test]
fn each_file_of_the_folder_sent_stands_in_its_tables_and_each_algorithm_too() {
    let path = folder("sent").join("README.md");
    let tables = fs::read_to_string(&path).expect("the tables");
    let start = tables.find(HEAD_OF_DECIDES).expect("the first table");
    let length = tables[start..].find("\n\n").expect("its end") + 1;
    let (found, table) = (&tables[start..start + length], table_of_decides());
    if is_refreshed() {
        fs::write(path, tables.replace(found, &table)).expect("the table, written");
        return;
    }
    assert!(found == table, "not\n{found}\nbut\n{table}\n{CHANGED}");
    for file in files_in_the_folder().keys() {
        let is_listed = tables.contains(&format!("`{file}`"));
        assert!(is_listed, "the tables of the folder have no `{file}`");
    }
}

#[test]
fn scripts_that_do_the_same_are_one() {
    fn decide<A: Scripted>() -> String {
        Scripts::of::<A>(TimeOf::Server).decide.text
    }
    let bucket = decide::<TokenBucket>();
    assert_eq!(decide::<LeakyBucket>(), bucket);
    assert_eq!(decide::<LeakyBucketQueue>(), bucket);
    assert_eq!(decide::<Gcra>(), bucket);
    assert_eq!(decide::<SlidingBuckets>(), decide::<SlidingLog>());
}

#[test]
fn every_script_has_a_header_and_no_line_is_too_wide() {
    for (what, script) in all() {
        let head = header(&script.text);
        for row in [
            "-- KEYS[1] ",
            "-- ARGV[1] ",
            "-- Reply ",
            "-- Writes ",
            "-- Error ",
        ] {
            let found = head.iter().any(|line| line.starts_with(row));
            assert!(found, "{what} has no row `{row}`: {head:#?}");
        }
        // The rule may be indented deeper here than in its own file.
        let is_wide = |line: &&str| line.chars().count() > 100;
        let wide: Vec<_> = script.text.lines().filter(is_wide).collect();
        assert_eq!(wide, [""; 0], "{what}");
    }
}

#[test]
fn the_header_of_a_script_says_which_keys_it_writes_and_when_each_expires() {
    // To peek at the first writes what was held and counts as spent by now.
    let mixed = scripts_of_keys(
        "EachOf((Settled<SlidingLog>, FixedWindow))",
        vec![Settled::<SlidingLog>::script(), FixedWindow::script()],
        TimeOf::Server,
    );
    for (what, script) in all().into_iter().chain(mixed) {
        let (found, written) = (keys_with_a_row(&script.text), keys_written(&script.text));
        let header = header(&script.text);
        assert_eq!(found, written, "{what}: {header:#?}");
        let expiries = header.iter().filter(|line| line.contains("expires "));
        assert_eq!(expiries.count(), written.len(), "{what}: {header:#?}");
    }
}

#[test]
fn no_script_has_an_empty_block() {
    for (what, script) in all() {
        let mut lines = script.text.lines().map(str::trim);
        let mut before = lines.next().expect("a line");
        for line in lines {
            let opens = before == "do" || before.ends_with(" then");
            assert!(!opens || line != "end", "{what}:\n{}", script.text);
            before = line;
        }
    }
}
