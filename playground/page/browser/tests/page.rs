//! What a person finds out with the page alone, and how it can be used.

use playground_browser::Page;

const WHY: &str = "[data-why='0']";

fn open() -> Page {
    Page::open(1_280, 900)
}

/// The number that a limit shows under this name.
fn number(which: usize, name: &str) -> String {
    format!("[data-limit='{which}'] [data-is='{name}'] b")
}

#[test]
fn it_tells_which_algorithm_lets_2n_through_at_a_windows_edge() {
    let page = open();
    page.press_button("A window's edge");
    page.shows("[data-limit='0'] [data-is='worst']", |text| {
        text == "20 of at most 20 units in 1 s (2n)"
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
fn it_tells_what_burst_a_client_needs_for_40_requests_at_once_each_minute() {
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
fn it_tells_how_long_a_refused_caller_waits_and_why() {
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
    assert!(
        why.contains("Refused: it costs 1, and 0 of 1 are left."),
        "{why}"
    );
    assert!(why.contains("Retry-After: 22."), "{why}");
    let wait = page.text("[data-limit='0'] [data-is='wait']");
    assert_eq!(wait, "22 s Retry-After: 22");
    page.is_well();
}

#[test]
fn it_tells_what_holds_let_through_and_by_which_bound() {
    let page = open();
    page.press_button("Costs known afterwards");
    page.shows(&number(0, "admitted"), |text| text == "3");
    page.shows(&number(1, "admitted"), |text| text == "9");
    let of_the_second = |name: &str| format!("[data-limit='1'] [data-is='{name}']");
    page.shows(&of_the_second("worst"), |text| {
        text == "810 of at most 1999 units spent in 60 s (burst + ⌊n(P−1)/P⌋)"
    });
    let rust = page.text(&of_the_second("rust"));
    assert_eq!(rust, "TokenBucket::new(Quota::per_minute(1000)).settled()");
    let file = page.text(&of_the_second("file"));
    assert!(
        file.ends_with("# and in the program: .settled() on what was read"),
        "{file}"
    );
    // The first limit refuses it.
    page.shows(WHY, |text| text.contains("Refused: it costs 300"));
    page.shows("[data-why='1']", |text| {
        text.contains("it holds 300 until it ends 700 ms later, and is charged 90 then")
    });

    // Where more is spent than was held, no bound is told.
    page.fill("traffic-spends", "301");
    page.shows(&of_the_second("worst"), |text| text.contains("not told"));

    // Not held, it is as the first; counted by requests, all are let through.
    page.script("$('limit1-settled').click()");
    page.shows(&number(1, "admitted"), |text| text == "3");
    page.script("$('limit1-per-request').click()");
    page.shows(&number(1, "admitted"), |text| text == "12");
    page.shows(&of_the_second("worst"), |text| {
        text.starts_with("12 of at most 1999 requests in")
    });
    page.script("$('limit1-settled').click()");
    page.shows(".panel .error", |text| text.contains("use both in a tuple"));
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
    let told = page.script("document.querySelector('.line').ariaValueText");
    let why = page.text(WHY);
    assert!(why.contains(told.as_str().unwrap()), "{told} {why}");

    // A little above the line of the burst at two minutes: one that was admitted; at its top, one
    // that was not.
    let middle = 120.0 / (240.0 * 1.04);
    page.click_at(".line canvas", middle, 0.49);
    page.shows(WHY, |text| text.contains("Admitted"));
    page.click_at(".line canvas", middle, 0.15);
    page.shows(WHY, |text| text.contains("Refused"));

    page.press("+");
    page.press("+");
    page.press("0");
    page.is_well();
}

#[test]
fn a_mistake_is_told_in_the_place_of_the_limit_and_the_other_limit_stays() {
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
    assert!(
        page.script("location.hash")
            .as_str()
            .unwrap()
            .contains("alice")
    );

    // As long as it may be: it is no part of the address any more.
    page.script(
        "$('traffic-recording').value = '1.5 1 bob\\n'.repeat(20000);
         $('traffic-recording').dispatchEvent(new Event('input'))",
    );
    page.shows("#request", |text| text.contains(" of 20000,"));
    assert_eq!(page.script("location.hash"), "");
    page.is_well();
}

#[test]
fn a_choice_is_in_the_address_and_is_read_from_it() {
    let page = open();
    page.fill("limit0-quota", "7/s");
    page.shows("[data-limit='0'] [data-is='rust']", |text| {
        text.contains("(7)")
    });
    let address = page.script("location.hash");
    page.press_button("A little too fast");
    page.shows(&number(0, "refused"), |text| text == "21");
    page.script(&format!("location.hash = {address}"));
    page.shows("[data-limit='0'] [data-is='rust']", |text| {
        text.contains("(7)")
    });
    page.is_well();
}

#[test]
fn it_fits_on_a_small_screen_and_is_dark_for_those_who_want_it_so() {
    let page = Page::open(500, 800);
    page.script("document.documentElement.style.width = '360px'");
    let is_wider = page.script(
        "Array.from(document.querySelectorAll('main *')).some((element) =>
            element.closest('.scrolls') === null && element.getBoundingClientRect().right > 361)",
    );
    assert_eq!(is_wider, false);
    let paper = "getComputedStyle(document.body).backgroundColor";
    page.prefers("light");
    assert_eq!(page.script(paper), "rgb(255, 255, 255)");
    page.prefers("dark");
    assert_eq!(page.script(paper), "rgb(13, 17, 23)");
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
