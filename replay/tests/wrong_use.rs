//! What is said of a wrong command line, of wrong files, and of logs that are not whole.

use std::fs;

use crate::support::{Ended, Temporary, run, run_with_input, sample};

#[track_caller]
fn is_refused(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(ended.out, "");
    for part in parts {
        assert!(ended.said.contains(part), "no {part:?} in {}", ended.said);
    }
}

fn line(address: &str, second: u32, request: &str) -> String {
    format!("{address} - ann [22/Nov/2026:13:00:{second:02} +0000] \"{request} HTTP/1.1\" 200 1\n")
}

const LOGIN: &str = "POST /login";

#[test]
fn the_rules_that_the_help_shows_are_read_and_asked() {
    let help = run(&["--help"]).well();
    let (_, example) = help.split_once("rules.toml:\n").unwrap();
    let (toml, _) = example.split_once("\n\n").unwrap();
    let rules = Temporary::new("help.toml", toml);
    let log: String = (1..=7)
        .map(|second| line("192.0.2.1", second, LOGIN))
        .collect();
    let text = run_with_input(&[rules.path(), "-"], &log).well();
    let names_the_limit = text.contains("limit `login`: TokenBucket::new(Quota::per_minute(5))");
    assert!(names_the_limit, "{text}");
    assert!(text.contains("7 requests, 2 refused"), "{text}");
}

#[test]
fn a_mistake_in_the_rules_is_told_with_its_file_line_and_value() {
    let toml = "[[rules]]\nname = \"all\"\nkeys = 7\n";
    let yaml = "rules:\n  - name: all\n    key: nobody\n";
    let json = "{\"rules\": [\n\n{\"name\": 7}]}";
    for (ending, text, message) in [
        ("toml", toml, "unknown field `keys`"),
        ("yaml", yaml, "`nobody`"),
        ("json", json, "integer `7`"),
    ] {
        let rules = Temporary::new(&format!("wrong.{ending}"), text);
        let ended = run(&[rules.path(), &sample("access.log")]);
        is_refused(&ended, &[rules.path(), "line 3", message]);
    }
}

#[test]
fn files_that_are_not_there_or_no_logs_are_told_by_name() {
    let (rules, log, folder) = (&*sample("rules.toml"), &*sample("access.log"), &*sample(""));
    let same_log = &*sample("../sample/access.log");
    let [no_rules, no_log] = ["/nowhere/rules.toml", "/nowhere/access.log"];
    let prose = Temporary::new("prose.log", "Once upon a time\nthere was no log.\n");
    let says_how = &[
        prose.path(),
        "neither the combined format",
        "--format says which",
    ][..];
    let zipped = Temporary::new("log.gz", "");
    fs::write(&zipped.0, b"\x1F\x8B\x08\0rest").unwrap();
    let is_zipped = &[zipped.path(), "compressed", "`zcat LOG |"];
    for (arguments, parts) in [
        (&[no_rules, log][..], &[no_rules, ": "][..]),
        (&[rules, no_log], &[no_log, ": "]),
        (&[rules, folder], &[folder, "it is a directory"]),
        (&[rules, log, log], &["is given twice"]),
        (&[rules, log, same_log], &["is given twice"]),
        (&[rules, prose.path()], says_how),
        (&[rules, zipped.path()], is_zipped),
        (&[rules, zipped.path(), "--format", "combined"], is_zipped),
        (
            &[rules, log, "--html", log],
            &["the replay reads that file"],
        ),
        (&[rules], &["LOGS"]),
        (&[rules, log, "--max-keys", "0"], &["--max-keys"]),
    ] {
        is_refused(&run(arguments), parts);
    }
}

#[test]
fn lines_that_are_no_text_are_counted_and_shown_and_the_rest_is_read() {
    // Of a form that is said, as the first lines have none.
    let mut log = vec![0xFF; 4_000];
    log.extend(b"\n\0\x01\x02\n");
    log.extend(line("192.0.2.1", 1, LOGIN).replace('\n', "\r\n").bytes());
    log.resize(log.len() + 100_000, b'x');
    log.push(b'\n');
    log.extend(line("192.0.2.1", 2, LOGIN).bytes());
    let file = Temporary::new("binary.log", "");
    fs::write(&file.0, log).unwrap();
    let rules = sample("rules.toml");
    let ended = run(&[&rules, file.path(), "--format", "combined"]);
    let text = ended.well();
    for part in [
        "3 lines could not be read:",
        "  line 1: not the combined format: \u{FFFD}",
        "  line 2: not the combined format: \\u{0}\\u{1}\\u{2}",
        "  line 4: longer than the maximum length of a line: xxx",
        "\n2 requests from 2026-11-22T13:00:01Z",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn a_log_without_requests_is_no_mistake() {
    let empty = Temporary::new("empty.log", "");
    let ended = run(&[&sample("rules.toml"), empty.path()]);
    assert!(ended.well().contains("The logs have no requests."));
    let (rules, file) = (sample("rules.toml"), Temporary::new("empty.html", ""));
    let arguments = [&*rules, empty.path(), "--json", "--html", file.path()];
    let report: serde_json::Value = serde_json::from_str(&run(&arguments).well()).unwrap();
    assert_eq!(report["requests"]["total"], 0);
    assert!(report["from"].is_null());
    let page = fs::read_to_string(&file.0).unwrap();
    assert!(page.contains("The logs have no requests."));
}

#[test]
fn several_logs_are_read_as_one_in_the_order_of_time() {
    // Two in each minute: whichever file they are in, the third and the fourth in time are refused.
    let [a, b] = [("a.log", [1, 30]), ("b.log", [2, 40])].map(|(name, seconds)| {
        let lines = seconds.map(|second| line("192.0.2.1", second, LOGIN));
        Temporary::new(name, &lines.concat())
    });
    for logs in [[a.path(), b.path()], [b.path(), a.path()]] {
        let ended = run(&[&sample("rules.toml"), logs[0], logs[1], "--json"]);
        let report: serde_json::Value = serde_json::from_str(&ended.well()).unwrap();
        assert_eq!(report["requests"]["refused"], 2);
        // Until the minute is over: 30 and 20 seconds.
        assert_eq!(report["limits"][0]["wait"]["longest_micros"], 30_000_000);
        assert_eq!(report["logs"].as_array().unwrap().len(), 2);
    }
}

const BY_USER: &str = r#"
[[rules]]
name = "all"
key = { extension = "user" }
limit = { algorithm = "fixed-window", quota = "1/day" }
"#;

#[test]
fn what_a_terminal_obeys_is_shown_and_not_sent() {
    let rules = Temporary::new("users.toml", BY_USER);
    let evil = line("192.0.2.1", 1, "GET /").replace("ann", "\u{1b}]0;owned\u{7}");
    let log = evil.repeat(3);
    let map = ["--extension", "user=remote_user"];
    let ended = run_with_input(&[rules.path(), "-", map[0], map[1]], &log);
    assert!(!ended.said.contains('\u{1b}'), "{ended:?}");
    let text = ended.well();
    assert!(text.contains("2 × \\u{1b}]0;owned\\u{7}"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
}

#[test]
fn an_extension_that_no_log_tells_is_named_and_its_requests_are_rejected() {
    let rules = Temporary::new("unmapped.toml", BY_USER);
    let log = line("192.0.2.1", 1, "GET /");
    let ended = run_with_input(&[rules.path(), "-"], &log);
    let note = "rule `all`: its key is the extension `user`";
    assert!(ended.said.contains(note), "{}", ended.said);
    let text = ended.well();
    assert!(text.contains(note) && text.contains("1 × 500: "), "{text}");

    let given = |value: &str| run_with_input(&[rules.path(), "-", "--extension", value], &log);
    is_refused(&given("user"), &["NAME=remote_user or NAME=header:FIELD"]);
    is_refused(&given("plan=remote_user"), &["no rule names \"plan\""]);
    let ended = given("user=header:no name");
    is_refused(&ended, &["\"no name\" is not a header name"]);
    assert!(given("user=remote_user").well().contains("admitted"));
}
