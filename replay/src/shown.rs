//! Makes untrusted text safe to show.

use std::fmt;

use serde::{Serialize, Serializer};

/// The most letters of a key that are kept.
const MAX_KEPT: usize = 120;

/// The text, or its beginning if it is long: a caller can make it any length.
pub fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_KEPT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The text without characters that control a terminal or reverse the direction of text: they are
/// escaped like `\u{1b}`.
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match is_obeyed(letter) {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

/// Control characters, direction marks, joiners and other invisible characters, line separators.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The same as HTML.
pub fn html(text: &str) -> String {
    let mut escaped = String::new();
    for letter in printable(text).chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// An instant, as RFC 3339 has it, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The latest that tollgate knows is one that the calendar knows too.
        let micros = tollgate::Timestamp::from_micros(self.0).as_micros();
        let known = i64::try_from(micros).ok();
        let time = known.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        time.unwrap_or(jiff::Timestamp::MAX).fmt(f)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A number and a noun: `1 line`, `2 lines`.
pub fn counted(number: u64, called: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {called}{plural}")
}

/// A part of a whole in percent.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "0 %".to_owned(),
        _ => format!("{:.2} %", part as f64 * 100.0 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_comes_through() {
        assert_eq!(printable("a\u{1b}[2Jb\r\n"), "a\\u{1b}[2Jb\\u{d}\\u{a}");
        assert_eq!(
            printable("x\u{202e}y\u{9b}\u{200b}"),
            "x\\u{202e}y\\u{9b}\\u{200b}"
        );
        assert_eq!(printable("Grüße, 世界"), "Grüße, 世界");
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(cut("ü".repeat(MAX_KEPT)), "ü".repeat(MAX_KEPT));
        let long = cut("ü".repeat(100_000));
        assert_eq!(long, "ü".repeat(MAX_KEPT) + "…");
    }

    #[test]
    fn no_markup_comes_through() {
        let shown = html("<script>alert('1 & \"2\"')</script>\u{7}");
        assert_eq!(
            shown,
            "&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;\\u{7}"
        );
    }

    #[test]
    fn one_is_told_as_one() {
        let texts = [0, 1, 2].map(|number| counted(number, "line"));
        assert_eq!(texts, ["0 lines", "1 line", "2 lines"]);
    }

    #[test]
    fn instants_are_told_in_utc() {
        assert_eq!(
            Instant(1_500_000_000_000_000).to_string(),
            "2017-07-14T02:40:00Z"
        );
        assert_eq!(
            Instant(1_500_000_000_250_000).to_string(),
            "2017-07-14T02:40:00.25Z"
        );
        assert_eq!(Instant(u64::MAX).to_string(), "2255-06-05T23:47:34.740991Z");
    }
}
