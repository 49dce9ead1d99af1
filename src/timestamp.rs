//! An instant.

use std::time::Duration;

/// An instant, in whole microseconds since the Unix epoch.
///
/// At most 2<sup>53</sup> − 1 (the year 2255), which a Lua number still holds exactly; anything
/// later becomes that. Less than two periods before it, waits under several
/// [plans](crate::docs::plans) of one name may differ by a microsecond between memory and Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest instant there is.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The instant this many microseconds after the Unix epoch, or [`MAX`](Self::MAX) if that is
    /// earlier.
    ///
    /// # Example: the far future becomes the latest instant
    ///
    /// ```
    /// use tollgate::Timestamp;
    ///
    /// assert_eq!(Timestamp::from_micros(1_500).as_micros(), 1_500);
    /// assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
    /// ```
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This instant moved forward, rounded down to whole microseconds, never past
    /// [`MAX`](Self::MAX).
    pub fn saturating_add(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
