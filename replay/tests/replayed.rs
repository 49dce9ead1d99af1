//! What the program says of the sample, whose numbers are worked out by hand.
//!
//! `login` lets 2 through in each minute of the clock. 192.0.2.1 comes 0, 10, 20, 50 and 65 seconds
//! after 13:00, and 192.0.2.2 after 55: of six requests the third and the fourth are refused, 40
//! and 10 seconds before the minute is over. In no 60 seconds are more than 2 let through.
//!
//! `search`, in shadow, has a bucket of 2 that gets one in 30 seconds. Of three requests at
//! 13:02:00 it would refuse the third, for 30 seconds; the one at 13:02:30 is let through. So in 60
//! seconds 3 are, which is the bound: 2 + ⌊2 (P − 1) / P⌋.
//!
//! With half of all quotas `login` would refuse 3 of the four requests of 192.0.2.1 before 13:01,
//! and `search`, with a bucket of 1 and one a minute, 3 of its four. With double none would be
//! refused.

use crate::support::{Temporary, run, run_with_input, sample};

fn text(options: &[&str]) -> String {
    let files = [sample("rules.toml"), sample("access.log")];
    let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
    arguments.extend(options);
    run(&arguments).well()
}

#[test]
fn the_text_tells_who_is_refused_when_and_for_how_long() {
    let text = text(&[]).replace(&sample("access.log"), "LOG");
    let (_, below_the_files) = text.split_once('\n').unwrap();
    assert_eq!(below_the_files, include_str!("sample/report.txt"));
}

fn json(options: &[&str]) -> serde_json::Value {
    let mut all = vec!["--json"];
    all.extend(options);
    serde_json::from_str(&text(&all)).unwrap()
}

#[test]
fn as_json_it_is_one_document_of_the_same_numbers() {
    let report = json(&[]);
    for (pointer, number) in [
        ("/version", 1),
        ("/logs/0/unreadable", 1),
        ("/logs/0/first_unreadable/0/line", 10),
        ("/requests/total", 11),
        ("/requests/admitted", 8),
        ("/requests/refused", 2),
        ("/requests/would_be_refused", 1),
        ("/requests/without_rule", 1),
        ("/requests/rejected", 0),
        ("/limits/0/wait/longest_micros", 40_000_000),
        ("/limits/0/most_refused/0/at_least", 2),
        ("/limits/0/worst_span/most", 2),
        ("/limits/0/worst_span/bound", 4),
        ("/limits/0/worst_span/span_micros", 60_000_000),
        ("/limits/1/worst_span/most", 3),
        ("/limits/1/worst_span/bound", 3),
        ("/what_if/0/refused", 3),
        ("/what_if/1/refused", 2),
        ("/what_if/2/refused", 0),
        // 13:00:20 is in the third bin of ten seconds, 13:00:50 in the sixth.
        ("/over_time/bin_micros", 10_000_000),
        ("/over_time/bins/2/refused", 1),
        ("/over_time/bins/3/refused", 0),
        ("/over_time/bins/5/refused", 1),
    ] {
        assert_eq!(report.pointer(pointer), Some(&number.into()), "{pointer}");
    }
    assert_eq!(report["from"], "2026-11-22T13:00:00Z");
    assert_eq!(report["limits"][0]["most_refused"][0]["key"], "192.0.2.1");
    assert_eq!(report["limits"][1]["shadow"], true);
    assert!(json(&["--no-what-if"])["what_if"].is_null());
}

#[test]
fn header_values_are_cut_unless_they_are_asked_for() {
    let key = |report: serde_json::Value| report["limits"][1]["most_refused"][0]["key"].clone();
    assert_eq!(key(json(&[])), "<scr… (25 bytes)");
    assert_eq!(key(json(&["--show-headers"])), "<script>alert(1)</script>");
}

#[test]
fn as_a_page_it_needs_no_script_and_no_network_and_nothing_of_the_log_is_markup() {
    let file = Temporary::new("page.html", "");
    text(&["--show-headers", "--html", file.path()]);
    let page = std::fs::read_to_string(&file.0).unwrap();
    for part in [
        "<p>11 requests from 2026-11-22T13:00:00Z until 2026-11-22T13:03:00Z.</p>",
        "<tr><th scope=\"row\">refused</th><td class=\"n\">2</td><td class=\"n\">18.18 %</td></tr>",
        "<li>line 10: not the combined format: <code>this is no line of a log</code></li>",
        "At most 2 units of one key in any 60 s; the bound is 4 (2n)",
        "Refused callers wait: half of them at most 10.002 s, 90 % at most 40 s",
        "<tr><td><code>192.0.2.1</code></td><td class=\"n\">2</td></tr>",
        "<td><code>&lt;script&gt;alert(1)&lt;/script&gt;</code></td>",
        "<tr><th scope=\"row\">half</th><td class=\"n\">3</td>",
        "alt=\"Limit login from 2026-11-22T13:00:00Z until 2026-11-22T13:01:06Z, 2 s each: 6 came, 2 refused; most refusals, 1, from 2026-11-22T13:00:20Z on\"",
        "prefers-color-scheme:dark",
    ] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
    assert_eq!(page.matches("<img ").count(), 3);
    assert_eq!(page.matches(" alt=\"").count(), 3);
    for part in [
        "<script", "http://", "https://", "<link", "@import", "onerror",
    ] {
        assert!(!page.contains(part), "{part}");
    }
}

#[test]
fn rules_in_yaml_and_in_json_say_the_same_as_in_toml() {
    let yaml = include_str!("sample/rules.yaml");
    let rules: serde_json::Value = serde_norway::from_str(yaml).unwrap();
    let expected = text(&[]);
    for (ending, rules) in [("yaml", yaml.to_owned()), ("json", rules.to_string())] {
        let file = Temporary::new(&format!("same.{ending}"), &rules);
        let found = run(&[file.path(), &sample("access.log")]).well();
        let rest = |text: &str| text.lines().skip(1).collect::<Vec<_>>().join("\n");
        assert_eq!(rest(&found), rest(&expected), "{ending}");
    }
}

#[test]
fn keys_beyond_the_maximum_share_a_bucket_and_the_report_says_so() {
    let mut log = String::new();
    for caller in 0..20_000 {
        let (a, b) = (caller / 250, caller % 250);
        log += &format!(
            "10.1.{a}.{b} - - [22/Nov/2026:13:00:00 +0000] \"POST /login HTTP/1.1\" 200 1\n"
        );
    }
    let refused = |text: &str| -> u64 {
        let mut lines = text.lines().map(str::trim);
        let refused = lines.find_map(|line| line.strip_prefix("refused "));
        let number = refused.unwrap().split_whitespace().next();
        number.unwrap().parse().unwrap()
    };
    let rules = sample("rules.toml");
    let arguments = [&*rules, "-", "--no-what-if", "--max-keys", "1000"];
    let few = run_with_input(&arguments, &log).well();
    // Two of the keys that share the bucket are admitted.
    assert!(few.contains("Raise the maximum with --max-keys"), "{few}");
    assert!((18_000..=19_900).contains(&refused(&few)), "{few}");
    // All of them are new: they are counted up to the same number of keys.
    assert!(few.contains("more than 1000"), "{few}");
    let enough = run_with_input(&arguments[..3], &log).well();
    assert_eq!(refused(&enough), 0);
    assert!(!enough.contains("--max-keys"));
}
