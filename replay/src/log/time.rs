//! Instants and durations as logs write them, in microseconds.

use jiff::{SignedDuration, Timestamp, fmt::strtime::BrokenDownTime};

use super::Why;

/// The last instant that tollgate counts with, in the year 2255.
const MAX_MICROS: u64 = (1 << 53) - 1;

/// The time that was read last.
///
/// Most lines of a busy log have the time of the line before: a fifth of the instructions of a
/// combined line (bench `instructions_of_a_line`), and a fourteenth of one of JSON. A log has one
/// form, so a text is always read in the same way.
#[derive(Debug, Default)]
pub(super) struct LastTime {
    text: Vec<u8>,
    micros: u64,
}

/// Longer times are not remembered.
const MAX_REMEMBERED: usize = 40;

impl LastTime {
    /// Reads a time as [`common`] does.
    pub(super) fn common(&mut self, text: &[u8]) -> Result<u64, Why> {
        self.remembered(text, common)
    }

    /// Reads a time as [`text`] does.
    pub(super) fn text(&mut self, text: &str) -> Result<u64, Why> {
        self.remembered(text.as_bytes(), |_| self::text(text))
    }

    fn remembered(
        &mut self,
        text: &[u8],
        read: impl FnOnce(&[u8]) -> Result<u64, Why>,
    ) -> Result<u64, Why> {
        if text == self.text && !text.is_empty() {
            return Ok(self.micros);
        }
        let micros = read(text)?;
        if text.len() <= MAX_REMEMBERED {
            self.text.clear();
            self.text.extend_from_slice(text);
            self.micros = micros;
        }
        Ok(micros)
    }
}

/// `10/Oct/2000:13:55:36 -0700`, or with a fraction of the second; or RFC 3339.
pub(super) fn common(text: &[u8]) -> Result<u64, Why> {
    if text.get(2) != Some(&b'/') {
        return rfc3339(text);
    }
    let time = BrokenDownTime::parse("%d/%b/%Y:%H:%M:%S%.f %z", text);
    let time = time.and_then(|time| time.to_timestamp());
    micros(time.map_err(|_| Why::Time)?)
}

/// `2000-10-10T13:55:36.123456-07:00`.
pub(super) fn rfc3339(text: &[u8]) -> Result<u64, Why> {
    let text = str::from_utf8(text).map_err(|_| Why::Time)?;
    micros(text.parse().map_err(|_| Why::Time)?)
}

/// A time in any of the forms that are known.
pub(super) fn text(text: &str) -> Result<u64, Why> {
    match text.parse() {
        Ok(number) => epoch(number),
        Err(_) => common(text.as_bytes()),
    }
}

/// A time since 1970: in seconds, or by its size in milliseconds, microseconds or nanoseconds.
pub(super) fn epoch(time: f64) -> Result<u64, Why> {
    let micros_each = match time {
        ..1e11 => 1e6,
        ..1e14 => 1e3,
        ..1e17 => 1.0,
        _ => 1e-3,
    };
    whole_micros(time * micros_each).ok_or(Why::TimeOutOfRange)
}

/// A duration as a number of units.
pub(super) fn duration(number: f64, micros_each: f64) -> Result<u64, Why> {
    whole_micros(number * micros_each).ok_or(Why::Duration)
}

/// A duration as a number with its unit, or without if it is one of the units given; `None` if it
/// is something else.
pub(super) fn duration_text(text: &str, micros_each: f64) -> Option<Result<u64, Why>> {
    let is_of_unit = |char: char| !char.is_ascii_digit() && !matches!(char, '.' | '-' | '+');
    if let Ok(number) = text.parse() {
        return Some(duration(number, micros_each));
    }
    let (number, unit) = text.split_at(text.find(is_of_unit)?);
    let micros_each = match unit.trim_ascii_start() {
        "s" => Some(1e6),
        "ms" => Some(1e3),
        "us" | "µs" | "μs" => Some(1.0),
        "ns" => Some(1e-3),
        _ => None,
    };
    if let (Ok(number), Some(micros_each)) = (number.parse(), micros_each) {
        return Some(duration(number, micros_each));
    }
    // `1m2.5s`, as Go writes it.
    let duration: SignedDuration = text.parse().ok()?;
    let micros = u64::try_from(duration.as_micros()).ok();
    Some(
        micros
            .filter(|micros| *micros <= MAX_MICROS)
            .ok_or(Why::Duration),
    )
}

fn micros(time: Timestamp) -> Result<u64, Why> {
    let micros = u64::try_from(time.as_microsecond()).ok();
    micros
        .filter(|micros| *micros <= MAX_MICROS)
        .ok_or(Why::TimeOutOfRange)
}

fn whole_micros(micros: f64) -> Option<u64> {
    let micros = micros.round();
    // Not a number is not in the range either. All whole numbers in it are exact.
    (0.0..=MAX_MICROS as f64)
        .contains(&micros)
        .then_some(micros as u64)
}
