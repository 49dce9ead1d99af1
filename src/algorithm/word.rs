//! A `u64` without alignment.

use std::fmt;

/// A state of such words follows its key without padding: two of them and an `IpAddr`, which has 17
/// bytes, take 33 bytes, and not 40.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word([u8; 8]);

impl Word {
    #[inline]
    pub(super) fn new(number: u64) -> Self {
        Self(number.to_ne_bytes())
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        u64::from_ne_bytes(self.0)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_printed_as_its_number() {
        for number in [0, 7, u64::MAX] {
            assert_eq!(Word::new(number).get(), number);
            assert_eq!(format!("{:?}", Word::new(number)), number.to_string());
        }
    }
}
