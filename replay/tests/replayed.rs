//! What the program says of the sample, whose numbers are worked out by hand.
//!
//! `login` lets 2 through in each minute of the clock. 192.0.2.1 comes 0, 10, 20, 50 and 65 seconds
//! after 13:00, and 192.0.2.2 after 55: of six requests the third and the fourth are refused, 40
//! and 10 seconds before the minute is over. In no 60 seconds are more than 2 let through.
//!
//! `search`, in shadow, has a bucket of 2 that gets one in 30 seconds. Of three requests at 13:02:00
//! it would refuse the third, for 30 seconds; the one at 13:02:30 is let through. So in 60 seconds
//! 3 are, which is the bound: 2 + ⌊2 (P − 1) / P⌋.
//!
//! With half of all quotas `login` would refuse 3 of the four requests of 192.0.2.1 before 13:01,
//! and `search`, with a bucket of 1 and one a minute, 3 of its four. With double none would be
//! refused.

mod support;

use support::{run, sample};

fn text(options: &[&str]) -> String {
    let files = [sample("rules.toml"), sample("access.log")];
    let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
    arguments.extend(options);
    run(&arguments).well()
}

#[track_caller]
fn has_lines(text: &str, lines: &[&str]) {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let found: Vec<_> = text.lines().map(squeezed).collect();
    for line in lines {
        assert!(
            found.contains(&squeezed(line)),
            "no line {line:?} in\n{text}"
        );
    }
}

#[test]
fn the_text_tells_who_is_refused_when_and_for_how_long() {
    let text = text(&[]);
    has_lines(
        &text,
        &[
            "line 10: not the combined format: this is no line of a log",
            "11 requests from 2026-11-22T13:00:00Z until 2026-11-22T13:03:00Z",
            "admitted 8 72.73 %",
            "refused 2 18.18 %",
            "would be refused (shadow) 1 9.09 %",
            "no rule is for them 1 9.09 %",
            "callers refused 1",
            "limit `login`: FixedWindow::new(Quota::per_minute(2))",
            "6 requests, 2 refused (33.33 %)",
            "wait: half at most 10.002 s, 90 % 40 s, 99 % 40 s, longest 40 s",
            "worst 60 s: 2 units of 192.0.2.1 until 2026-11-22T13:00:10Z; the bound is 4: 2n",
            "2 × 192.0.2.1",
            "limit `search`, in shadow: TokenBucket::new(Quota::per_minute(2))",
            "4 requests, 1 would be refused (25.00 %)",
            "wait: half at most 30 s, 90 % 30 s, 99 % 30 s, longest 30 s",
            "worst 60 s: 3 units of <scr… (25 bytes) until 2026-11-22T13:02:30Z; the bound is 3: burst + ⌊n(P−1)/P⌋",
            "1 × <scr… (25 bytes)",
        ],
    );
}

#[test]
fn the_text_tells_what_half_and_double_would_do() {
    let text = text(&[]);
    has_lines(
        &text,
        &[
            "half 3 1 3",
            "same 2 1 1",
            "double 0 0 0",
            "`login` 3 1",
            "`login` 2 1",
            "`search` 3 1",
            "`search` 1 1",
        ],
    );
    assert!(!self::text(&["--no-what-if"]).contains("what if"));
}

#[test]
fn refusals_are_shown_over_time() {
    let text = text(&["--no-what-if"]);
    let row = |name: &str| {
        let mut rows = text.lines().filter(|line| line.contains('|'));
        let row = rows.find(|line| line.trim_start().starts_with(name));
        row.unwrap().split('|').nth(1).unwrap().to_owned()
    };
    // Bins of ten seconds: refused at 20 and 50 seconds.
    assert_eq!(row("refused "), "  █  █             ");
    assert_eq!(row("would be refused "), "            █      ");
}
