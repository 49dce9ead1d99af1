//! Spans of time as text, both ways.

use tollgate::Quota;

/// One second.
pub const SECOND: u64 = 1_000_000;

/// The microseconds of a text such as `500ms`, as configuration files have them.
///
/// # Errors
///
/// It is not a number and a unit, or longer than any period.
pub fn micros(text: &str) -> Result<u64, String> {
    let quota: Quota = format!("1/{text}")
        .parse()
        .map_err(|_| format!("{text:?} is not a span of time such as \"500ms\""))?;
    u64::try_from(quota.period().as_micros()).map_err(|error| error.to_string())
}

/// A span as a person reads it: `350 ms`, `1.5 s`, `2 min`.
pub fn told(micros: u64) -> String {
    let (unit, name) = match micros {
        0 => (1, "s"),
        1..1_000 => (1, "µs"),
        1_000..SECOND => (1_000, "ms"),
        SECOND..=90_000_000 => (SECOND, "s"),
        90_000_001..=5_400_000_000 => (60 * SECOND, "min"),
        _ => (3_600 * SECOND, "h"),
    };
    let thousandths = u128::from(micros) * 1_000 / u128::from(unit);
    format!("{} {name}", decimal(thousandths))
}

/// Thousandths as a decimal number without trailing zeros.
fn decimal(thousandths: u128) -> String {
    let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_told() {
        assert_eq!(micros("500ms"), Ok(500_000));
        assert_eq!(micros("2min"), Ok(120 * SECOND));
        assert!(micros("soon").unwrap_err().contains("\"soon\""));
        assert!(micros("0s").is_err());
        for (micros, text) in [
            (0, "0 s"),
            (350_000, "350 ms"),
            (333_334, "333.334 ms"),
            (1_500_000, "1.5 s"),
            (60 * SECOND, "60 s"),
            (120 * SECOND, "2 min"),
            (86_400 * SECOND, "24 h"),
        ] {
            assert_eq!(told(micros), text);
        }
    }
}
