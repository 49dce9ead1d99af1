//! `google.rpc.Status` with its details, in the protobuf wire format: the three messages that a
//! refusal needs.
//!
//! The field numbers are from `google/rpc/status.proto` and `google/rpc/error_details.proto`.

use std::time::Duration;

/// The longest `google.protobuf.Duration`: some ten thousand years.
const MAX_DURATION: Duration = Duration::new(315_576_000_000, 999_999_999);

/// `google.rpc.Status { code = 1, message = 2, details = 3 }`
pub(super) fn status(code: u16, text: &str, details: &[Vec<u8>]) -> Vec<u8> {
    let mut status = Vec::new();
    integer(&mut status, 1, code.into());
    bytes(&mut status, 2, text.as_bytes());
    for detail in details {
        bytes(&mut status, 3, detail);
    }
    status
}

/// `google.rpc.RetryInfo { retry_delay = 1 }` in a `google.protobuf.Any`.
pub(super) fn retry_info(delay: Duration) -> Vec<u8> {
    let delay = delay.min(MAX_DURATION);
    let mut duration = Vec::new();
    integer(&mut duration, 1, delay.as_secs());
    integer(&mut duration, 2, u64::from(delay.subsec_nanos()));
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &duration);
    any("type.googleapis.com/google.rpc.RetryInfo", &retry_info)
}

/// `google.rpc.QuotaFailure { violations = 1 }` in a `google.protobuf.Any`; of each violation the
/// policy, a description and the limit.
pub(super) fn quota_failure<'a>(
    violations: impl Iterator<Item = (&'a str, &'a str, u64)>,
) -> Vec<u8> {
    let mut quota_failure = Vec::new();
    for (policy, description, limit) in violations {
        let mut violation = Vec::new();
        bytes(&mut violation, 1, policy.as_bytes()); // subject
        bytes(&mut violation, 2, description.as_bytes());
        bytes(&mut violation, 5, policy.as_bytes()); // quota_id
        integer(&mut violation, 7, limit.min(i64::MAX.unsigned_abs())); // quota_value, an int64
        bytes(&mut quota_failure, 1, &violation);
    }
    any(
        "type.googleapis.com/google.rpc.QuotaFailure",
        &quota_failure,
    )
}

/// `google.protobuf.Any { type_url = 1, value = 2 }`
fn any(type_url: &str, value: &[u8]) -> Vec<u8> {
    let mut any = Vec::new();
    bytes(&mut any, 1, type_url.as_bytes());
    bytes(&mut any, 2, value);
    any
}

/// A field of wire type 0; 0 is left out, as in proto3.
fn integer(message: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        message.push(field << 3);
        varint(message, value);
    }
}

/// A field of wire type 2: a string, bytes or a message.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_seven_bits_at_a_time_from_the_low_end() {
        let written = |value| {
            let mut message = Vec::new();
            varint(&mut message, value);
            message
        };
        assert_eq!(written(0), [0]);
        assert_eq!(written(127), [0x7F]);
        assert_eq!(written(128), [0x80, 0x01]);
        assert_eq!(written(300), [0xAC, 0x02]);
        let largest = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(written(u64::MAX), largest);
    }

    #[test]
    fn retry_info_is_these_bytes() {
        let mut expected = b"\x0A\x28type.googleapis.com/google.rpc.RetryInfo".to_vec();
        // RetryInfo of 9 bytes; retry_delay of 7; 1 second; 500_000_000 ns = 0x1DCD6500.
        expected.extend([0x12, 0x0A, 0x0A, 0x08, 0x08, 0x01]);
        expected.extend([0x10, 0x80, 0xCA, 0xB5, 0xEE, 0x01]);
        assert_eq!(retry_info(Duration::from_millis(1_500)), expected);
    }

    #[test]
    fn a_delay_of_nothing_is_still_a_delay() {
        let mut expected = b"\x0A\x28type.googleapis.com/google.rpc.RetryInfo".to_vec();
        expected.extend([0x12, 0x02, 0x0A, 0x00]);
        assert_eq!(retry_info(Duration::ZERO), expected);
    }

    #[test]
    fn a_delay_beyond_what_protobuf_knows_is_the_longest_it_knows() {
        assert_eq!(retry_info(Duration::MAX), retry_info(MAX_DURATION));
    }

    #[test]
    fn a_quota_failure_is_these_bytes() {
        let violation = ("api", "no", 300);
        let mut expected = b"\x0A\x2Btype.googleapis.com/google.rpc.QuotaFailure".to_vec();
        // QuotaFailure of 19 bytes; one violation of 17.
        expected.extend([0x12, 0x13, 0x0A, 0x11]);
        expected.extend(b"\x0A\x03api\x12\x02no\x2A\x03api\x38\xAC\x02");
        assert_eq!(quota_failure([violation].into_iter()), expected);
    }

    #[test]
    fn a_status_holds_its_code_its_message_and_its_details() {
        let written = status(8, "slow", &[vec![1, 2], vec![3]]);
        assert_eq!(written, b"\x08\x08\x12\x04slow\x1A\x02\x01\x02\x1A\x01\x03");
    }
}
