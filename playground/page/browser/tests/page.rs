//! What a person finds out with the page alone, and how it can be used.

use std::{env, fs, path::PathBuf, process};

use playground_browser::{Page, Server, text_of_the_page};

const WHY: &str = "[data-why='0']";
const LESS: &str = "#less";

fn open() -> Page {
    Page::open(1_280, 900)
}

/// The number that a limit shows under this name.
fn number(which: usize, name: &str) -> String {
    format!("[data-limit='{which}'] [data-is='{name}'] b")
}

#[test]
fn it_shows_which_algorithm_lets_2n_through_at_a_windows_edge() {
    let page = open();
    page.press_button("A window's edge");
    page.shows("[data-limit='0'] [data-is='worst']", |text| {
        text == "20 units in 1 s, with any traffic at most 20 (2n)"
    });
    page.shows("[data-limit='1'] [data-is='symbols']", |text| {
        text == "Here burst is what the full bucket holds, n is the quota's units, \
                 P is its period in microseconds, and ⌊x⌋ is x rounded down."
    });
    // Of all algorithms it is one; the quota is 10.
    let twice = page.script(
        "Array.from(document.querySelectorAll('#rows tr'))
            .filter((row) => row.cells[5].innerText === '20 units in 1 s')
            .map((row) => row.cells[0].innerText).join()",
    );
    assert_eq!(twice, "FixedWindow::new(Quota::per_second(10))");
    page.is_well();
}

#[test]
fn it_shows_what_burst_a_client_needs_for_40_requests_at_once_each_minute() {
    let page = open();
    page.choose("limit0-algorithm", "token-bucket");
    page.fill("limit0-quota", "40/min");
    page.fill("limit0-burst", "7");
    page.choose("traffic-shape", "bursts");
    page.fill("traffic-requests", "40");
    page.fill("traffic-every", "1min");
    page.fill("traffic-lasts", "10min");
    page.shows("#request", |text| text.contains(" of 400,"));
    page.shows(&number(0, "burst"), |text| text == "40");

    // It is right: with one less some are refused, and with so many none.
    page.fill("limit0-burst", "39");
    page.shows(&number(0, "refused"), |text| text == "10");
    page.fill("limit0-burst", "40");
    page.shows(&number(0, "refused"), |text| text == "0");
    let rust = page.text("[data-limit='0'] [data-is='rust']");
    assert_eq!(rust, "TokenBucket::new(Quota::per_minute(40)).burst(40)");
    let file = page.text("[data-limit='0'] [data-is='file']");
    assert_eq!(
        file,
        "algorithm = \"token-bucket\"\nquota = \"40/min\"\nburst = 40"
    );
    page.is_well();
}

#[test]
fn it_shows_how_long_a_refused_caller_waits_and_why() {
    let page = open();
    page.choose("limit0-algorithm", "token-bucket");
    page.fill("limit0-quota", "2/min");
    page.fill("limit0-burst", "1");
    page.choose("traffic-shape", "even");
    page.fill("traffic-requests", "1");
    page.fill("traffic-every", "8s");
    page.fill("traffic-lasts", "1min");
    // It comes at 8 s, and the next unit at 30 s. The page begins with the first refusal.
    let why = page.shows(WHY, |text| text.contains("admitted 22 s later"));
    let is_refused = why.contains("Refused: it costs 1, and 0 of 1 are left.");
    assert!(is_refused, "{why}");
    assert!(why.contains("Retry-After: 22."), "{why}");
    let wait = page.text("[data-limit='0'] [data-is='wait']");
    assert_eq!(wait, "22 s Retry-After: 22");
    page.is_well();
}

#[test]
fn it_says_which_of_two_limits_lets_less_through_or_that_neither_does() {
    let page = open();
    for (called, says) in [
        (
            "Guesses at a login",
            "Of one caller's units in any 60\u{a0}s limit 1 lets less through: 5, not 9.",
        ),
        // What a queue releases is compared with what a bucket admits.
        (
            "A little too fast",
            "limit 2 lets less through: 10, not 12.",
        ),
        // Of the members of a tuple one counts in the same span as the other limit.
        (
            "So many a second and a minute",
            "Of one caller's units in any 1\u{a0}s both limits let as much through: 4. \
             Of all requests limit 2 lets less through: 120, not 480.",
        ),
        // What was spent is not what was held.
        (
            "Costs known afterwards",
            "In a span these limits count different things. \
             Of all requests limit 1 lets less through: 3, not 9.",
        ),
        // It has one limit.
        ("40 at once each minute", ""),
    ] {
        page.press_button(called);
        page.shows(LESS, |text| match says {
            "" => text.is_empty(),
            says => text.ends_with(says),
        });
    }
    // These evenly spaced guesses do not show what others could get through.
    page.press_button("Guesses at a login");
    page.choose("limit1-algorithm", "fixed-window");
    page.shows(LESS, |text| {
        text.contains(
            "both limits let as much through: 5. \
                       With any traffic limit 1 lets less through: 5, not 10.",
        )
    });
    page.press_button("A window's edge");
    page.choose("limit1-algorithm", "fixed-window");
    page.script("$('traffic-shared').click()");
    page.shows(LESS, |text| {
        text == "Of all callers' units in any 1\u{a0}s both limits let as much through: 20. \
                 Of all requests both limits let as much through: 40."
    });
    page.fill("limit1-quota", "1/fortnight");
    page.shows(LESS, str::is_empty);
    page.is_well();
}

#[test]
fn the_example_of_a_login_says_what_to_tick_until_another_one_is_taken() {
    let page = open();
    assert_eq!(page.text("#note"), "");
    page.press_button("Guesses at a login");
    let tick = page.text("label[for='limit0-settled']");
    let says_it = format!("tick “{tick}”");
    page.shows("#note", |text| text.contains(&says_it));
    page.script("$('limit0-settled').click()");
    page.shows("[data-limit='0'] [data-is='rust']", |text| {
        text.ends_with(".settled()")
    });
    assert!(page.text("#note").contains(&says_it));
    page.press_button("A window's edge");
    page.shows("#note", str::is_empty);
    page.is_well();
}

#[test]
fn it_shows_what_holds_let_through_and_by_which_bound() {
    let page = open();
    page.press_button("Costs known afterwards");
    page.shows(&number(0, "admitted"), |text| text == "3");
    page.shows(&number(1, "admitted"), |text| text == "9");
    let of_the_second = |name: &str| format!("[data-limit='1'] [data-is='{name}']");
    page.shows(&of_the_second("worst"), |text| {
        text == "810 units spent in 60 s, with any traffic at most 1999 (burst + ⌊n(P−1)/P⌋)"
    });
    let rust = page.text(&of_the_second("rust"));
    assert_eq!(rust, "TokenBucket::new(Quota::per_minute(1000)).settled()");
    let file = page.text(&of_the_second("file"));
    let says_settled = file.ends_with("# and in the program: .settled() on what was read");
    assert!(says_settled, "{file}");
    // The first limit refuses it.
    page.shows(WHY, |text| text.contains("Refused: it costs 300"));
    page.shows("[data-why='1']", |text| {
        text.contains("it holds 300 until it ends 700 ms later, and is charged 90 then")
    });

    // Where more is spent than was held, no bound is shown.
    page.fill("traffic-spends", "301");
    page.shows(&of_the_second("worst"), |text| {
        text.contains("not computed")
    });

    // Not held, it is as the first; counted by requests, all are let through.
    page.script("$('limit1-settled').click()");
    page.shows(&number(1, "admitted"), |text| text == "3");
    page.script("$('limit1-per-request').click()");
    page.shows(&number(1, "admitted"), |text| text == "12");
    page.shows(&of_the_second("worst"), |text| {
        text.starts_with("12 requests in 60 s, with any traffic at most 1999 ")
    });
    page.script("$('limit1-settled').click()");
    page.shows(".panel .error", |text| text.contains("use a tuple of both"));
    page.is_well();
}

/// What a limit shows under this name of one member.
fn member(which: usize, member: usize) -> String {
    format!("[data-limit='{which}'] [data-member='{member}']")
}

#[test]
fn it_shows_a_tuple_by_the_bound_of_each_member_and_says_which_one_refuses() {
    let page = open();
    page.press_button("So many a second and a minute");
    // 4 a second come, for two minutes: the bucket alone refuses none.
    page.shows(&number(0, "refused"), |text| text == "0");
    page.shows(&number(1, "admitted"), |text| text == "120");
    page.shows(&member(1, 0), |text| {
        text == "4 units in 1 s, with any traffic at most 14 (burst + ⌊n(P−1)/P⌋): token-bucket 5/s"
    });
    page.shows(&member(1, 1), |text| {
        text == "60 units in 60 s, with any traffic at most 120 (2n): fixed-window 60/min"
    });
    page.shows("[data-why='1']", |text| {
        text.contains("Refused, and charged to none. The token-bucket 5/s would admit it:")
            && text.contains("The fixed-window 60/min refuses: it costs 1, and 0 of 60 are left.")
            && text.contains("admitted 45 s later")
            && text.contains("Retry-After: 45.")
            && text.contains("Most in any one span so far: 60 of at most 120.")
    });
    let rust = page.text("[data-limit='1'] [data-is='rust']");
    assert_eq!(
        rust,
        "(\n    TokenBucket::new(Quota::per_second(5)).burst(10),\n    \
         FixedWindow::new(Quota::per_minute(60)),\n)"
    );
    let file = page.text("[data-limit='1'] [data-is='file']");
    assert_eq!(
        file,
        "[[limits]]\nalgorithm = \"token-bucket\"\nquota = \"5/s\"\nburst = 10\n\n\
         [[limits]]\nalgorithm = \"fixed-window\"\nquota = \"60/min\""
    );
    page.is_well();
}

#[test]
fn members_are_added_changed_and_removed_and_are_in_the_address() {
    let page = open();
    page.press_button("40 at once each minute");
    page.shows(&number(0, "burst"), |text| text == "40");
    page.script("$('limit0-and').click()");
    // The focus is where one goes on.
    assert_eq!(
        page.script("document.activeElement.id"),
        "limit0-2-algorithm"
    );
    page.choose("limit0-2-algorithm", "sliding-log");
    page.fill("limit0-2-quota", "25/h");
    page.shows(&number(0, "admitted"), |text| text == "25");
    // Which of the bursts is too small nobody says.
    assert_eq!(page.text(&number(0, "burst")), "");
    page.script("$('limit0-and').click()");
    page.choose("limit0-3-algorithm", "min-interval");
    page.fill("limit0-3-interval", "1min");
    page.shows(&number(0, "admitted"), |text| text == "5");
    page.shows(&member(0, 2), |text| text.ends_with("min-interval 1min"));
    assert_eq!(page.script("$('limit0-and')"), serde_json::Value::Null);
    page.fill("limit0-2-quota", "25/fortnight");
    page.shows(".panel .error", |text| {
        text.starts_with("2. `quota`: \"25/fortnight\"")
    });
    page.fill("limit0-2-quota", "3/h");
    page.shows(&number(0, "admitted"), |text| text == "3");

    let address = page.script("location.hash");
    page.press_button("Remove member 2");
    page.shows(&number(0, "admitted"), |text| text == "5");
    page.press_button("Remove member 2");
    page.shows(&number(0, "admitted"), |text| text == "50");
    page.script(&format!("location.hash = {address}"));
    page.shows(&number(0, "admitted"), |text| text == "3");
    page.is_well();
}

#[test]
fn a_request_is_chosen_by_keys_and_by_a_click() {
    let page = open();
    page.press_button("40 at once each minute");
    let is_at = |number: u32| {
        let begins = format!("Request {number} of 200,");
        page.shows("#request", |text| text.starts_with(&begins));
    };
    // Its burst is 10: the eleventh is the first that is refused, and the 40 begin again at 41.
    is_at(11);
    page.script("document.querySelector('.line').focus()");
    for (key, number) in [
        ("ArrowLeft", 10),
        ("ArrowRight", 11),
        ("Home", 1),
        ("n", 11),
        ("End", 200),
        ("p", 199),
        ("PageUp", 200),
        ("PageDown", 100),
    ] {
        page.press(key);
        is_at(number);
    }
    let shown = page.script("document.querySelector('.line').ariaValueText");
    let why = page.text(WHY);
    assert!(why.contains(shown.as_str().unwrap()), "{shown} {why}");

    // A little above the line of the burst at two minutes: one that was admitted; at its top, one
    // that was not.
    let middle = 120.0 / (240.0 * 1.04);
    page.click_at(".line canvas", middle, 0.49);
    page.shows(WHY, |text| text.contains("Admitted"));
    page.click_at(".line canvas", middle, 0.15);
    page.shows(WHY, |text| text.contains("Refused"));

    // The span with most so far is that of the first burst.
    page.press("End");
    is_at(200);
    page.press("w");
    is_at(10);

    let span = || page.script("view[1] - view[0]").as_f64().unwrap();
    let all = span();
    page.press("+");
    assert_eq!(span(), all / 2.0);
    page.press("+");
    assert_eq!(span(), all / 4.0);
    page.press("-");
    assert_eq!(span(), all / 2.0);
    page.press("0");
    assert_eq!(span(), all);
    // No further out, nor in than anything can be seen.
    for (key, least) in [("-", all), ("+", 1_000.0)] {
        (0..60).for_each(|_| page.press(key));
        assert_eq!(span(), least);
    }
    page.is_well();
}

#[test]
fn a_mistake_is_shown_in_the_place_of_the_limit_and_the_other_limit_stays() {
    let page = open();
    page.press_button("A window's edge");
    page.fill("limit0-quota", "20/fortnight");
    page.shows(".panel .error", |text| {
        text.contains("\"20/fortnight\" is not a quota")
    });
    page.shows(&number(1, "admitted"), |text| text == "22");
    page.fill("limit0-quota", "10/s");
    page.shows(&number(0, "admitted"), |text| text == "40");
    page.fill("traffic-every", "soon");
    page.shows("#error", |text| {
        text.contains("\"soon\" is not a span of time")
    });
    page.is_well();
}

#[test]
fn each_algorithm_that_can_be_chosen_is_a_limit_at_once_and_has_its_fields() {
    let page = open();
    let offered = page
        .script("Array.from($('limit0-algorithm').options).map((option) => option.value).join()");
    let offered = offered.as_str().unwrap();
    assert!(offered.starts_with("token-bucket,gcra,"), "{offered}");
    for name in offered.split(',') {
        page.choose("limit0-algorithm", name);
        let line = format!("algorithm = \"{name}\"\n");
        let file = "[data-limit='0'] [data-is='file']";
        page.shows(file, |text| text.starts_with(&line));
        assert_eq!(page.text("#error, .panel .error"), "", "{name}");
    }
    // The last one has a number, which is shown as one, and no quota.
    assert!(offered.ends_with(",in-flight"), "{offered}");
    page.shows("[data-limit='0'] [data-is='rust']", |text| {
        text == "InFlight::new(5)"
    });
    let fields = "Array.from(document.querySelectorAll('[id^=limit0-][data-field]'))
        .map((input) => input.dataset.field).join()";
    assert_eq!(page.script(fields), "requests,held-at-most");
    page.choose("limit0-algorithm", "sliding-buckets");
    let all = "quota,precision,strict,per-request,settled";
    assert_eq!(page.script(fields), all);
    page.script("$('limit0-strict').click()");
    page.shows("[data-limit='0'] [data-is='rust']", |text| {
        text.ends_with("Duration::from_millis(100)).strict()")
    });
    page.is_well();
}

#[test]
fn a_recording_is_simulated() {
    let page = open();
    page.choose("limit0-algorithm", "sliding-log");
    page.fill("limit0-quota", "3/s");
    page.choose("traffic-shape", "recording");
    page.fill("traffic-recording", "1700000000.25 2 bob");
    page.script(
        "$('traffic-recording').value += '\\n1700000000.5 2 bob\\n1700000000.5 1 alice';
         $('traffic-recording').dispatchEvent(new Event('input'))",
    );
    page.shows("#request", |text| {
        text == "Request 2 of 3, at 0.5 s, of bob, cost 2."
    });
    page.shows(WHY, |text| text.contains("admitted 750 ms later"));
    let address = page.script("location.hash");
    assert!(address.as_str().unwrap().contains("alice"));

    // As long as it may be: it is no part of the address any more.
    let repeated = |times: u32| {
        page.script(&format!(
            "$('traffic-recording').value = '1.5 1 bob\\n'.repeat({times});
             $('traffic-recording').dispatchEvent(new Event('input'))",
        ))
    };
    repeated(20_000);
    page.shows("#request", |text| text.contains(" of 20000,"));
    assert_eq!(page.script("location.hash"), "");
    repeated(20_001);
    page.shows("#error", |text| text.contains("more than 20000 requests"));
    repeated(0);
    page.shows("#request", |text| text == "There are no requests.");
    page.is_well();
}

/// A file that is gone with the value.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let file = env::temp_dir().join(format!("tollgate-page-{}-{name}", process::id()));
        fs::write(&file, bytes).unwrap();
        Self(file)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_recording_is_read_from_a_file_whatever_is_in_it() {
    let page = open();
    page.choose("traffic-shape", "recording");
    // With a byte order mark, in disorder, in two forms of lines.
    let good = "\u{feff}# when, cost, who\r\n3.5;2;bob\r\n\n1 1 alice\n2,1,bob\n";
    let good = Temporary::new("good.txt", good.as_bytes());
    page.choose_file("traffic-recording-file", &good.0);
    page.shows("#request", |text| {
        text == "Request 1 of 3, at 1 s, of alice, cost 1."
    });

    let binary = Temporary::new("binary.txt", &[0, 159, 146, 150, 10, 7]);
    page.choose_file("traffic-recording-file", &binary.0);
    page.shows("#error", |text| {
        text.starts_with("line 1, ") && text.contains("not a number of seconds")
    });

    // More than is read leaves what was there.
    page.choose_file("traffic-recording-file", &good.0);
    page.shows("#request", |text| text.contains(" of 3,"));
    let huge = Temporary::new("huge.txt", &vec![b'1'; 50_000_000]);
    page.choose_file("traffic-recording-file", &huge.0);
    page.shows("#traffic .error", |text| {
        text == "The file has 50000000 bytes: at most 4000000 are read."
    });
    let kept = page.script(
        "$('traffic-recording-file').onchange().then(() => $('traffic-recording').value.length)",
    );
    assert!(kept.as_u64().unwrap() < 100, "{kept}");
    page.is_well();
}

#[test]
fn whatever_is_typed_is_answered_and_the_page_goes_on() {
    let page = open();
    page.press_button("A window's edge");
    page.script("$('limit0-and').click()");
    let values = [
        "",
        " ",
        "0",
        "-1",
        "1.5",
        "NaN",
        "Infinity",
        "1e309",
        "4294967296",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551616",
        "0/s",
        "5/0s",
        "1/9007199254740993us",
        "18446744073709551615/us",
        "1us",
        "99999999999d",
        "\u{0}",
        "<script>",
    ];
    let values = serde_json::json!(values);
    // What throws ends the script, and the test.
    let asked = page.script(&format!(
        "(() => {{
            let asked = 0;
            for (const shape of Object.keys(SHAPES)) {{
                choice.traffic.shape = shape;
                form.traffic();
                for (const {{ id }} of document.querySelectorAll('#form [data-field]')) {{
                    if ($(id).type === 'checkbox') continue;
                    const before = $(id).value;
                    for (const value of [...{values}, before]) {{
                        $(id).value = value;
                        $(id).dispatchEvent(new Event('input'));
                        run();
                        asked += 1;
                    }}
                }}
            }}
            return asked;
        }})()"
    ));
    assert!(asked.as_u64().unwrap() > 500, "{asked}");
    page.press_button("A window's edge");
    page.shows(&number(0, "admitted"), |text| text == "40");
    page.is_well();
}

#[test]
fn the_lines_are_copied() {
    let page = open();
    for (called, name) in [("Rust", "rust"), ("In a file", "file")] {
        let button = format!("[data-limit='0'] [aria-label='Copy: {called}']");
        page.click_at(&button, 0.5, 0.5);
        page.shows(&button, |text| text == "Copied");
        let shown = page.text(&format!("[data-limit='0'] [data-is='{name}']"));
        assert!(shown.len() > 20);
        assert_eq!(page.copied(), shown);
    }
    page.is_well();
}

#[test]
fn it_is_served_as_it_is_built() {
    let answer = Server::start().answer();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let is_html = head.contains("content-type: text/html; charset=utf-8");
    assert!(is_html, "{head}");
    assert!(body == text_of_the_page());
}

/// What is wider than its place. A table that is wider than a telephone can be scrolled.
const CUT: &str = "(() => {
    const { clientWidth } = document.documentElement;
    return Array.from(document.querySelectorAll('body :not(script, style)')).filter((element) =>
        (clientWidth > 500 || !element.closest('.scrolls'))
            && (element.scrollWidth > element.clientWidth && element.clientWidth > 0
                || element.getBoundingClientRect().right > clientWidth))
        .map((element) => element.outerHTML.slice(0, 100)).join('\\n');
})()";

/// The words of code that a line ends in.
const BROKEN: &str = "Array.from(document.querySelectorAll('pre, code'))
    .flatMap((code) => [...code.childNodes])
    .filter((node) => node.nodeType === Node.TEXT_NODE)
    .flatMap((node) => [...node.data.matchAll(/\\S+/g)].filter(({ index, 0: word }) => {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        return range.getClientRects().length !== 1;
    })).join('\\n')";

#[test]
fn it_cuts_nothing_and_breaks_no_word_whatever_is_tried_on_any_screen() {
    let page = open();
    let pressed = "[...$('tries').children].filter((it) => it.ariaPressed === 'true')\
                   .map((it) => it.textContent).join('|')";
    let tries = page.script("Object.keys(TRIES).join('|')");
    for called in tries.as_str().unwrap().split('|') {
        page.press_button(called);
        assert_eq!(page.script(pressed), called);
        for width in [360, 840, 1_024, 1_280] {
            page.resize(width, 900);
            assert_eq!(page.script(CUT), "", "{called} at {width}");
            assert_eq!(page.script(BROKEN), "", "{called} at {width}");
        }
    }
    page.is_well();
}

#[test]
fn it_shows_the_answer_below_the_question_on_a_small_screen() {
    let page = Page::open(500, 800);
    page.shows("#answer", |text| {
        text == "Limit 2 lets less through in any 1\u{a0}s: 11, not 20. Let through: 40 and 22 of 40."
    });
    let bottom = "$('answer').getBoundingClientRect().bottom === innerHeight";
    assert_eq!(page.script(bottom), true);
    page.script("$('answer').click()");
    let top = "Math.abs($('results').getBoundingClientRect().top) < 1";
    assert_eq!(page.script(top), true);
    page.is_well();
}

/// How many lines of text the bar that stays on a small screen has room for.
const LINES: &str = "(() => {
    const { lineHeight, paddingTop, paddingBottom } = getComputedStyle($('answer'));
    const height = $('answer').clientHeight - parseFloat(paddingTop) - parseFloat(paddingBottom);
    return height / parseFloat(lineHeight);
})()";

/// Whether the bar says more than it shows.
const CLAMPED: &str = "[...$('answer').querySelectorAll('*')]
    .some((text) => text.scrollHeight > text.clientHeight + 1)";

#[test]
fn on_a_telephone_the_bar_that_stays_has_three_lines_and_the_verdict_is_first() {
    let page = open();
    let tries = page.script("Object.keys(TRIES).join('|')");
    for called in tries.as_str().unwrap().split('|') {
        page.press_button(called);
        let less = page.text(LESS);
        for width in [360, 390] {
            page.resize(width, 800);
            let lines = page.script(LINES).as_f64().unwrap();
            let bar = page.text("#answer");
            assert!((0.9..3.1).contains(&lines), "{lines} lines: {bar}");
            assert_eq!(page.script(CLAMPED), false, "{called} at {width}: {bar}");
            let is_first = ["Limit 1 lets less through ", "Limit 2 lets less through "]
                .iter()
                .any(|verdict| bar.starts_with(verdict));
            assert!(is_first || less.is_empty(), "{bar}");
        }
    }
    // A mistake may need more words than there is room for; the whole is in the results.
    page.resize(360, 800);
    page.fill("limit0-quota", &"5/fortnight".repeat(5));
    page.shows("#answer", |text| text.contains("fortnight"));
    let lines = page.script(LINES).as_f64().unwrap();
    assert!(lines < 3.1, "{lines} lines for a mistake");
    page.is_well();
}

#[test]
fn which_of_two_limits_lets_less_through_is_in_sight_on_any_screen() {
    let page = open();
    for width in [360, 1_280] {
        page.resize(width, 800);
        page.press_button("40 at once each minute");
        page.shows(LESS, str::is_empty);
        page.press_button("Guesses at a login");
        page.shows(LESS, |text| text.contains("limit 1 lets less through"));
        if width == 360 {
            page.script("$('answer').click()");
        }
        let hidden_by = "(() => {
            const { top, bottom } = $('less').getBoundingClientRect();
            const bar = $('answer').getBoundingClientRect();
            const below = bar.height > 0 ? bar.top : innerHeight;
            return Math.max(-top, bottom - below);
        })()";
        let hidden_by = page.script(hidden_by).as_f64().unwrap();
        assert!(
            hidden_by < 1.0,
            "{hidden_by} px are out of sight at {width}"
        );
        page.script("scrollTo(0, 0)");
    }
    page.is_well();
}

#[test]
fn it_can_be_read_in_light_and_in_dark() {
    // As the Web Content Accessibility Guidelines count: 4.5 for text, 3 for what is drawn.
    const CONTRASTS: &str = "(() => {
        const style = getComputedStyle(document.documentElement);
        const light = (name) => {
            const hex = style.getPropertyValue(`--${name}`).trim().slice(1);
            const full = hex.length === 3 ? [...hex].map((digit) => digit + digit).join('') : hex;
            const [r, g, b] = [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16) / 255)
                .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const contrast = (one, other) => {
            const [less, more] = [light(one), light(other)].sort((a, b) => a - b);
            return (more + 0.05) / (less + 0.05);
        };
        const wrong = [];
        for (const ground of ['paper', 'card']) {
            for (const name of ['ink', 'soft', 'refused']) {
                if (!(contrast(name, ground) >= 4.5)) wrong.push(`${name} on ${ground}`);
            }
            for (const name of ['admitted', 'delayed', 'mark', 'focus']) {
                if (!(contrast(name, ground) >= 3)) wrong.push(`${name} on ${ground}`);
            }
        }
        return wrong.join();
    })()";

    let page = open();
    let paper = "getComputedStyle(document.body).backgroundColor";
    for (scheme, colour) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(13, 17, 23)")] {
        page.prefers(scheme);
        assert_eq!(page.script(paper), colour);
        assert_eq!(page.script(CONTRASTS), "", "{scheme}");
        // The lines of time are drawn anew, in the colours of the scheme.
        let drawn = page.script(
            "(() => {
                const canvas = document.querySelector('.line canvas');
                const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                const hex = getComputedStyle(document.documentElement).getPropertyValue('--admitted').trim();
                const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
                for (let at = 0; at < data.length; at += 4) {
                    if (parts.every((part, which) => data[at + which] === part)) return true;
                }
                return false;
            })()",
        );
        assert_eq!(drawn, true, "{scheme}");
    }
    page.is_well();
}

#[test]
fn ten_thousand_requests_are_drawn_within_a_frame() {
    let page = open();
    page.press_button("10 000 from 50 callers");
    page.shows("#request", |text| text.contains(" of 10000,"));
    // The best of several, as the machine does other things meanwhile.
    let millis = |script: &str| {
        let best = format!(
            "(() => {{
                let best = Infinity;
                for (let turn = 0; turn < 20; turn += 1) {{
                    const begin = performance.now();
                    {script};
                    best = Math.min(best, performance.now() - begin);
                }}
                return best;
            }})()"
        );
        page.script(&best).as_f64().unwrap()
    };
    let drawing = millis("lines.forEach((line) => line.timeline.draw())");
    let moving = millis("move(index === 5000 ? 5001 : 5000)");
    println!("drawn in {drawing} ms, moved in {moving} ms");
    assert!(drawing < 16.0, "it takes {drawing} ms to draw");
    assert!(
        moving < 100.0,
        "it takes {moving} ms to move to the next request"
    );
    page.is_well();
}

#[test]
#[should_panic(expected = "SyntaxError")]
fn a_script_of_these_tests_that_is_wrong_is_noticed() {
    open().script("'");
}
