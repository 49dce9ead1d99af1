//! What Redis runs stands in the folder `sent`, and the sums of all scripts are pinned: servers
//! know them by these, and processes of two releases share states.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::algorithm::{
    FixedWindow, Gcra, LeakyBucket, LeakyBucketQueue, MinInterval, SlidingBuckets, SlidingLog,
    SlidingWindow, TokenBucket,
};

use super::*;

const REFRESH: &str = "TOLLGATE_PIN_SCRIPTS";

const CHANGED: &str = "a script has changed: if its state is laid out as before, run this test with TOLLGATE_PIN_SCRIPTS=1; if not, give \
                       the layout another name first";

/// A type of algorithm, its name, and for which tasks the script stands in a file.
fn scripts_of<A: Scripted>(
    name: &str,
    shown: &[(&str, &'static str)],
    time: TimeOf,
) -> Vec<(String, Option<String>, Loadable)> {
    let Scripts {
        decide,
        peek,
        repair,
        refund,
        withdraw,
        take_back,
        ..
    } = Scripts::of::<A>(time);
    let tasks = [
        ("decide", Some(decide)),
        ("peek", Some(peek)),
        ("repair", Some(repair)),
        ("refund", Some(refund)),
        ("withdraw", withdraw),
        ("take back", Some(take_back)),
    ];
    let of_task = |(task, script): (&str, Option<Loadable>)| {
        let shown = shown.iter().find(|(shown, _)| *shown == task);
        let file = shown.map(|(task, subject)| format!("{}_{subject}.lua", task.replace(' ', "_")));
        Some((format!("{name}: {task}"), file, script?))
    };
    tasks.into_iter().filter_map(of_task).collect()
}

fn scripts_of_each(
    name: &str,
    file: Option<&str>,
    limits: Vec<Script>,
    time: TimeOf,
) -> Vec<(String, Option<String>, Loadable)> {
    let EachScripts { decide, peek, .. } = EachScripts::of(limits, time);
    vec![
        (format!("{name}: decide"), file.map(str::to_owned), decide),
        (format!("{name}: peek"), None, peek),
    ]
}

/// All that are pinned: what each is, the file in which it stands, if any, and the script.
fn all() -> Vec<(String, Option<String>, Loadable)> {
    let callers = at(TimeOf::Caller).into_iter().map(|(what, file, script)| {
        let file = file.filter(|file| file == "decide_token_bucket.lua");
        let file = file.map(|file| file.replace(".lua", "_at_callers_time.lua"));
        (format!("{what}, at the caller's time"), file, script)
    });
    at(TimeOf::Server).into_iter().chain(callers).collect()
}

fn at(time: TimeOf) -> Vec<(String, Option<String>, Loadable)> {
    let bucket = [
        ("decide", "token_bucket"),
        ("peek", "token_bucket"),
        ("repair", "token_bucket"),
        ("refund", "token_bucket"),
        ("take back", "token_bucket"),
    ];
    [
        scripts_of::<FixedWindow>("FixedWindow", &[("decide", "fixed_window")], time),
        scripts_of::<SlidingWindow>("SlidingWindow", &[("decide", "sliding_window")], time),
        scripts_of::<SlidingLog>("SlidingLog", &[("decide", "sliding_log")], time),
        scripts_of::<SlidingBuckets>("SlidingBuckets", &[], time),
        scripts_of::<TokenBucket>("TokenBucket", &bucket, time),
        scripts_of::<LeakyBucket>("LeakyBucket", &[], time),
        scripts_of::<LeakyBucketQueue>(
            "LeakyBucketQueue",
            &[("withdraw", "leaky_bucket_queue")],
            time,
        ),
        scripts_of::<Gcra>("Gcra", &[], time),
        scripts_of::<MinInterval>("MinInterval", &[("decide", "min_interval")], time),
        scripts_of::<(TokenBucket, SlidingLog)>("(TokenBucket, SlidingLog)", &[], time),
        scripts_of::<(TokenBucket, FixedWindow, MinInterval)>(
            "(TokenBucket, FixedWindow, MinInterval)",
            &[("decide", "tuple")],
            time,
        ),
        scripts_of::<(LeakyBucketQueue, FixedWindow, MinInterval)>(
            "(LeakyBucketQueue, FixedWindow, MinInterval)",
            &[],
            time,
        ),
        scripts_of_each(
            "EachOf((TokenBucket, FixedWindow))",
            Some("decide_each_of.lua"),
            vec![TokenBucket::script(), FixedWindow::script()],
            time,
        ),
        scripts_of_each(
            "EachOf((SlidingLog, (TokenBucket, SlidingLog)))",
            None,
            vec![SlidingLog::script(), <(TokenBucket, SlidingLog)>::script()],
            time,
        ),
    ]
    .concat()
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/")).join(name)
}

fn is_refreshed() -> bool {
    std::env::var_os(REFRESH).is_some()
}

#[test]
fn the_sum_of_every_script_is_the_one_that_was_pinned() {
    let line = |(what, _, script): (String, _, Loadable)| {
        format!("{} {what}\n", script.sha1.as_str().unwrap())
    };
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
    let sent: BTreeMap<_, _> = all()
        .into_iter()
        .filter_map(|(_, file, script)| Some((file?, script.text)))
        .collect();
    assert!(sent.len() >= 12, "{:?}", sent.keys());
    if is_refreshed() {
        for (file, text) in &sent {
            fs::write(folder("sent").join(file), text).expect("a script, written");
        }
        return;
    }
    let mut standing = BTreeMap::new();
    for entry in fs::read_dir(folder("sent")).expect("the folder") {
        let path = entry.expect("a file").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".lua") {
            standing.insert(name, fs::read_to_string(path).expect("text"));
        }
    }
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&sent), names(&standing));
    for (file, text) in &sent {
        assert_eq!(*text, standing[file], "{file}: {CHANGED}");
    }
}

#[test]
fn scripts_that_do_the_same_are_one() {
    let one = |decide: Loadable| decide.sha1;
    let bucket = one(Scripts::of::<TokenBucket>(TimeOf::Server).decide);
    assert_eq!(
        one(Scripts::of::<LeakyBucket>(TimeOf::Server).decide),
        bucket
    );
    assert_eq!(
        one(Scripts::of::<LeakyBucketQueue>(TimeOf::Server).decide),
        bucket
    );
    assert_eq!(one(Scripts::of::<Gcra>(TimeOf::Server).decide), bucket);
    let log = one(Scripts::of::<SlidingLog>(TimeOf::Server).decide);
    assert_eq!(
        one(Scripts::of::<SlidingBuckets>(TimeOf::Server).decide),
        log
    );
}

#[test]
fn every_script_says_what_it_is_given_and_what_it_does() {
    for (what, _, script) in all() {
        let head: Vec<_> = script
            .text
            .lines()
            .take_while(|line| line.starts_with("--"))
            .collect();
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
        let longest = script.text.lines().map(str::len).max();
        assert!(
            longest <= Some(130),
            "{what}: a line of {longest:?} characters"
        );
    }
}
