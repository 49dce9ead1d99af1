//! Recorded traffic, as text.

use std::collections::HashMap;

use crate::{simulate::Request, traffic::MAX_REQUESTS};

/// Requests, with the names of their callers.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// In ascending order of time.
    pub requests: Vec<Request>,
    /// By [`Request::caller`].
    pub callers: Vec<String>,
}

/// Reads one request a line: its time in seconds, its cost and its caller, separated by commas,
/// semicolons or space. The last two may be missing: then the cost is 1, and the caller is the same
/// for all. Empty lines and lines that begin with `#` are left out. The lines may be in any order.
///
/// # Errors
///
/// A line is not a request: the message names it and says why. Or there are more than
/// [`MAX_REQUESTS`].
pub fn read(text: &str) -> Result<Recording, String> {
    let mut recording = Recording::default();
    let mut known: HashMap<String, u32> = HashMap::new();
    let text = text.trim_start_matches('\u{feff}');
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if recording.requests.len() == MAX_REQUESTS {
            return Err(format!("more than {MAX_REQUESTS} requests, the maximum"));
        }
        let wrong = |why: &str| format!("line {}, {:?}: {why}", index + 1, begin(line));
        let separators = |c: char| c.is_whitespace() || [',', ';'].contains(&c);
        let mut words = line.split(separators).filter(|word| !word.is_empty());
        let at = words.next().and_then(micros);
        let at = at.ok_or_else(|| wrong("the time is not a number of seconds, such as 1.25"))?;
        let cost = words.next().map_or(Ok(1), str::parse);
        let cost = cost.map_err(|_| wrong("the cost is not a whole number"))?;
        let name = words.next().unwrap_or("all").to_owned();
        let next = u32::try_from(known.len()).map_err(|_| wrong("too many callers"))?;
        let caller = *known.entry(name).or_insert_with_key(|name| {
            recording.callers.push(begin(name));
            next
        });
        recording.requests.push(Request {
            cost,
            caller,
            spends: cost,
            ..Request::at(at)
        });
    }
    recording.requests.sort_by_key(|request| request.at);
    Ok(recording)
}

/// The beginning of an untrusted text, to be shown.
fn begin(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Decimal seconds, exactly, down to microseconds.
fn micros(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let fraction = format!("{fraction:0<6.6}").parse::<u64>().ok()?;
    // No later than the latest instant there is.
    let seconds = seconds.parse::<u64>().ok().filter(|it| *it < 1 << 33)?;
    Some(seconds * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span;

    #[test]
    fn lines_are_read_and_sorted() {
        let recording =
            read("# when, cost, who\n2.5, 3, bob\n\n0.000001\n1 2 alice\n9;1;bob").unwrap();
        let shown = |request: &Request| {
            let caller = &*recording.callers[request.caller as usize];
            (request.at, request.cost, caller.to_owned())
        };
        let requests: Vec<_> = recording.requests.iter().map(shown).collect();
        let expected = [
            (1, 1, "all"),
            (1_000_000, 2, "alice"),
            (2_500_000, 3, "bob"),
            (9_000_000, 1, "bob"),
        ];
        let expected = expected.map(|(at, cost, name)| (at, cost, name.to_owned()));
        assert_eq!(requests, expected);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for (text, line, why) in [
            ("1\nsoon", "line 2, \"soon\"", "seconds"),
            ("-1", "line 1", "seconds"),
            ("1. 1", "line 1", "seconds"),
            ("1 much", "line 1", "cost"),
            ("99999999999 1", "line 1", "seconds"),
            ("9007199254740993 1", "line 1", "seconds"),
            ("18446744073709551616", "line 1", "seconds"),
            ("NaN", "line 1", "seconds"),
            ("1 NaN", "line 1", "cost"),
            ("inf 1", "line 1", "seconds"),
            ("1e3 1", "line 1", "seconds"),
            ("1 4294967296", "line 1", "cost"),
            ("1 -1", "line 1", "cost"),
            (
                "\0\u{1}\u{fffd}",
                "line 1, \"\\0\\u{1}\u{fffd}\"",
                "seconds",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(line) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_long_line_or_name_is_shown_by_its_begin() {
        let long = "ü".repeat(1_000_000);
        assert!(read(&long).unwrap_err().len() < 300);
        let recording = read(&format!("1 1 {long}a\n2 1 {long}b")).unwrap();
        // They are still two callers.
        let callers: Vec<_> = recording.requests.iter().map(|it| it.caller).collect();
        assert_eq!(callers, [0, 1]);
        assert!(
            recording
                .callers
                .iter()
                .all(|name| name.chars().count() == 81)
        );
    }

    #[test]
    fn no_more_lines_are_read_than_can_be_shown() {
        let most = "1\n".repeat(MAX_REQUESTS);
        assert_eq!(read(&most).unwrap().requests.len(), MAX_REQUESTS);
        // What stands after that is not looked at.
        let error = read(&format!("{most}1\nsoon")).unwrap_err();
        assert!(error.starts_with("more than 20000 requests"), "{error}");
    }

    #[test]
    fn an_empty_text_is_a_recording_of_nothing_and_a_mark_before_the_first_line_is_none() {
        for text in ["", "\u{feff}", "# nothing\r\n \r\n"] {
            assert_eq!(read(text).unwrap().requests, []);
        }
        assert_eq!(
            read("\u{feff}1\r\n").unwrap().requests,
            [Request::at(span::SECOND)]
        );
    }
}
