//! Instants and durations as logs write them, in microseconds.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::Offset};

use super::Why;

/// The last instant that tollgate counts with, in the year 2255.
const MAX_MICROS: u64 = (1 << 53) - 1;

/// The time that was read last.
///
/// Most lines of a busy log have the time of the line before: a sixth of the instructions of a
/// combined line (bench `instructions_of_a_line`), and a fifteenth of one of JSON. A log has one
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
    let Some(local) = text.get(..20) else {
        return Err(Why::Time);
    };
    if local[2] != b'/' {
        return rfc3339(text);
    }
    let separators = [local[2], local[6], local[11], local[14], local[17]];
    let (fraction, offset) = match text[20..].strip_prefix(b".") {
        None => (&[][..], &text[20..]),
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest.split_at(digits)
        }
    };
    let &[b' ', sign @ (b'+' | b'-'), h1, h2, m1, m2] = offset else {
        return Err(Why::Time);
    };
    if separators != *b"//:::" {
        return Err(Why::Time);
    }
    let year = two_digits(local[7], local[8])
        .zip(two_digits(local[9], local[10]))
        .map(|(hundreds, years)| i16::from(hundreds) * 100 + i16::from(years));
    let parts = (|| {
        Some((
            year?,
            month(&local[3..6])?,
            two_digits(local[0], local[1])?,
            two_digits(local[12], local[13])?,
            two_digits(local[15], local[16])?,
            two_digits(local[18], local[19])?,
            two_digits(h1, h2)?,
            two_digits(m1, m2).filter(|minutes| *minutes < 60)?,
        ))
    })();
    let (year, month, day, hour, minute, second, offset_hours, offset_minutes) =
        parts.ok_or(Why::Time)?;
    let offset_seconds = i32::from(offset_hours) * 3600 + i32::from(offset_minutes) * 60;
    let offset_seconds = if sign == b'-' {
        -offset_seconds
    } else {
        offset_seconds
    };
    let time = DateTime::new(year, month, day, hour, minute, second, nanos(fraction));
    let time = time.and_then(|time| Offset::from_seconds(offset_seconds)?.to_timestamp(time));
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

/// The first nine digits of a fraction of a second.
fn nanos(digits: &[u8]) -> i32 {
    let digits = digits.iter().map(|digit| i32::from(digit - b'0'));
    let padded = digits.chain(std::iter::repeat(0)).take(9);
    padded.fold(0, |nanos, digit| nanos * 10 + digit)
}

fn two_digits(tens: u8, ones: u8) -> Option<i8> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| (byte - b'0') as i8);
    Some(digit(tens)? * 10 + digit(ones)?)
}

fn month(name: &[u8]) -> Option<i8> {
    Some(match name {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    })
}
