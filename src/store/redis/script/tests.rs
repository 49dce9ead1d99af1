//! The folder `sent` has scripts as Redis runs them, but that wide lines are wrapped: nobody
//! changes one by accident, since processes of two releases share states.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
};

use crate::algorithm::{
    FixedWindow, InFlight, LeakyBucket, LeakyBucketQueue, MinInterval, Settled, SlidingBuckets,
    SlidingLog, SlidingWindow, TokenBucket,
};
use crate::algorithm::{Gcra, Scripted};

use super::{super::tests::TestServer, *};

const REFRESH: &str = "TOLLGATE_PIN_SCRIPTS";

const CHANGED: &str = "a script has changed: if its state is laid out as before, run this test \
                       with TOLLGATE_PIN_SCRIPTS=1; if not, give the function another name first";

/// How wide a line is at most.
const MAX_WIDTH: usize = 100;

fn text_of<A: Scripted>() -> String {
    let script = [A::script()];
    text(&script, hold(&script), Decisions::One)
}

fn in_shadow(script: Script) -> Script {
    script.with(|member| member.in_shadow = true)
}

/// The same lines, none of which is wider than a reader's window.
fn wrapped(lines: &str) -> String {
    let mut text = String::new();
    for line in lines.lines() {
        let is_comment = line.starts_with("--");
        let indent = " ".repeat(line.len() - line.trim_start().len() + 2);
        let mut rest = line.to_owned();
        while rest.len() > MAX_WIDTH && !is_comment {
            let begins =
                [", ", " .. ", " or ", " and "].map(|before| rest[..MAX_WIDTH].rfind(before));
            // What is broken at its own indentation is not shorter afterwards.
            let Some(at) = begins.into_iter().flatten().find(|at| *at > indent.len()) else {
                break;
            };
            let next = format!("{indent}{}", rest[at + 1..].trim_start());
            text += rest[..=at].trim_end();
            text += "\n";
            rest = next;
        }
        text += &rest;
        text += "\n";
    }
    text
}

/// That of each rule, under its name: of those that share a function, the first one's.
fn of_every_rule() -> Vec<(String, String)> {
    let (mut functions, mut all) = (Vec::new(), Vec::new());
    macro_rules! add {
        ($($can:ident $kind:ident: $rule:ty,)+) => {$(
            let function = <$rule>::script().members()[0].function;
            if !functions.contains(&function) {
                functions.push(function);
                all.push((snake_case(stringify!($kind)), text_of::<$rule>()));
            }
        )+};
    }
    every_rule!(add);
    all
}

fn snake_case(name: &str) -> String {
    let words = name.split_inclusive(char::is_lowercase);
    let begin = |(at, word): (usize, &str)| match word.starts_with(char::is_uppercase) && at > 0 {
        true => format!("_{}", word.to_lowercase()),
        false => word.to_lowercase(),
    };
    words.enumerate().map(begin).collect()
}

/// One script of each kind.
fn sent() -> BTreeMap<String, String> {
    let several = [TokenBucket::script(), <(FixedWindow, SlidingLog)>::script()];
    let beside_shadow = TokenBucket::script().and(in_shadow(FixedWindow::script()));
    let joined = [TokenBucket::script()];
    let tuple = [<(TokenBucket, SlidingLog)>::script()];
    let all = [
        ("queue", text_of::<LeakyBucketQueue>()),
        ("in_flight", text_of::<InFlight>()),
        ("settled_token_bucket", text_of::<Settled<TokenBucket>>()),
        ("settled_sliding_log", text_of::<Settled<SlidingLog>>()),
        (
            "tuple",
            text_of::<(TokenBucket, FixedWindow, MinInterval)>(),
        ),
        (
            "tuple_with_shadow",
            text(&[beside_shadow], false, Decisions::One),
        ),
        ("each_of", text(&several, false, Decisions::One)),
        (
            "joined_token_bucket",
            text(&joined, false, Decisions::Several),
        ),
        (
            "leased_token_bucket",
            text(&joined, true, Decisions::Leased),
        ),
        ("leased_tuple", text(&tuple, true, Decisions::Leased)),
    ];
    let all = all.map(|(name, text)| (name.to_owned(), text));
    let file = |(name, text): (_, String)| (format!("{name}.lua"), wrapped(&text));
    of_every_rule().into_iter().chain(all).map(file).collect()
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/sent"))
}

fn in_the_folder() -> BTreeMap<String, String> {
    let files = fs::read_dir(folder()).expect("the folder").map(|file| {
        let file = file.expect("a file");
        let name = file.file_name().to_string_lossy().into_owned();
        (name, fs::read_to_string(file.path()).expect("text"))
    });
    files.filter(|(name, _)| name.ends_with(".lua")).collect()
}

#[test]
fn what_is_sent_is_what_stands_in_the_folder_sent() {
    let sent = sent();
    if std::env::var_os(REFRESH).is_some() {
        for (name, text) in &sent {
            fs::write(folder().join(name), text).expect("a script, written");
        }
    }
    let found = in_the_folder();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&sent), names(&found));
    for (name, text) in &sent {
        assert!(*text == found[name], "{name}: {CHANGED}");
    }
}

#[test]
fn scripts_that_do_the_same_are_one() {
    let bucket = text_of::<TokenBucket>();
    assert_eq!(text_of::<LeakyBucket>(), bucket);
    assert_eq!(text_of::<Gcra>(), bucket);
}

/// The script of a tuple of so many.
fn tuple(count: usize, of: Script) -> Script {
    let tuple = vec![of; count].into_iter().reduce(Script::and);
    tuple.expect("a member")
}

/// The server's reply to a script that it is to load.
fn loaded(server: &TestServer, script: &str) -> String {
    let (mut stream, bytes) = (server.connect(), script.len());
    let command = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${bytes}\r\n{script}\r\n");
    stream.write_all(command.as_bytes()).expect("sent");
    let mut line = String::new();
    let read = BufReader::new(stream).read_line(&mut line);
    read.expect("a reply");
    line
}

#[test]
fn a_tuple_of_five_settled_logs_or_seven_settled_buckets_or_eight_others_can_be_loaded() {
    let server = TestServer::start();
    for (most, script) in [
        (5, Settled::<SlidingLog>::script()),
        (5, Settled::<SlidingBuckets>::script()),
        (7, Settled::<TokenBucket>::script()),
        (8, Settled::<SlidingWindow>::script()),
        (8, SlidingLog::script()),
    ] {
        let is_loaded = |count: &usize| {
            let tuple = [tuple(*count, script.clone())];
            let loaded = loaded(&server, &text(&tuple, hold(&tuple), Decisions::One));
            loaded.starts_with('$')
        };
        let loaded = (1..=8).take_while(is_loaded).last();
        assert_eq!(loaded, Some(most), "{:?}", script.members()[0].function);
    }
}

#[test]
fn the_longest_scripts_of_each_kind_can_be_loaded() {
    let server = TestServer::start();
    let scripts = [
        TokenBucket::script(),
        FixedWindow::script(),
        SlidingWindow::script(),
        SlidingLog::script(),
        InFlight::script(),
        MinInterval::script(),
        LeakyBucketQueue::script(),
        in_shadow(SlidingLog::script()),
        Settled::<TokenBucket>::script(),
        Settled::<SlidingLog>::script(),
        <(Settled<SlidingLog>, Settled<TokenBucket>)>::script(),
        <(TokenBucket, SlidingLog)>::script(),
        tuple(6, TokenBucket::script()),
        tuple(4, SlidingLog::script()),
    ];
    let one: fn(&[Script]) -> bool = fits_one_script;
    for (fits, decisions) in [(one, Decisions::One), (can_be_joined, Decisions::Several)] {
        for script in &scripts {
            let fit = |count: &usize| fits(&vec![script.clone(); *count]);
            let Some(most) = (1..50).take_while(fit).last() else {
                continue;
            };
            let limits = vec![script.clone(); most];
            for holds in [hold(&limits), true] {
                let loaded = loaded(&server, &text(&limits, holds, decisions));
                let is_loaded = loaded.starts_with('$');
                assert!(is_loaded, "{most}, {holds}: {loaded} {limits:?}");
            }
        }
    }
    let is_leased = |script: &Script| can_be_leased(std::slice::from_ref(script));
    let rules = [
        TokenBucket::script(),
        FixedWindow::script(),
        SlidingWindow::script(),
        SlidingLog::script(),
    ];
    for script in rules {
        let tuples = (1..=8).rev().map(|members| tuple(members, script.clone()));
        let mut fit = tuples.filter(|script| fits_one_script(std::slice::from_ref(script)));
        let longest = [fit.next().expect("one member fits")];
        assert!(is_leased(&longest[0]));
        // The docs of `RedisStore::leased` promise as many.
        assert!(longest[0].members().len() >= 4);
        let loaded = loaded(&server, &text(&longest, true, Decisions::Leased));
        assert!(loaded.starts_with('$'), "{loaded} {longest:?}");
    }
}
