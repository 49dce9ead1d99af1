//! The errors: an invalid configuration, or a store that failed.

use std::{error::Error, fmt, sync::Arc, time::Duration};

/// An invalid configuration, found when it is built; the message names the bad value.
///
/// A constructor panics with this error; its `try_` twin, if it has one, returns it. `Debug`
/// prints the message too, so a panic of `unwrap` says what is wrong and what is allowed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A period, interval or precision shorter than one microsecond.
    PeriodTooShort {
        /// What was asked for.
        period: Duration,
    },
    /// A period longer than the longest that can be counted.
    PeriodTooLong {
        /// What was asked for.
        period: Duration,
        /// The longest period allowed.
        max: Duration,
    },
    /// A text that is not a quota, such as `20/s`.
    InvalidQuota(String),
    /// A text that is not a number and a unit of time.
    InvalidSpan(String),
    /// A quota, burst or capacity that cannot be counted exactly, however coarse the ticks.
    QuotaTooLarge {
        /// The units of the quota, the burst or the capacity: whichever is larger.
        units: u64,
        /// The period of the quota.
        period: Duration,
    },
    /// A maximum wait so long that the units paid off meanwhile cannot be counted exactly.
    WaitTooLong {
        /// What was asked for.
        wait: Duration,
        /// The period of the quota.
        period: Duration,
    },
    /// A time for which units or places are held that is too short: places are renewed in it.
    HeldTooShort {
        /// What was asked for.
        held_at_most: Duration,
        /// The shortest time allowed.
        min: Duration,
    },
    /// A precision that does not divide the period of the quota into equal parts.
    PrecisionDoesNotDivide {
        /// What was asked for.
        precision: Duration,
        /// The period of the quota.
        period: Duration,
    },
    /// A precision so fine that a key would need more sub-counters than are allowed.
    TooManySubCounters {
        /// How many sub-counters this precision needs.
        sub_counters: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// A policy name that is empty, too long, or has a character other than `A-Z a-z 0-9 _ . -`.
    InvalidPolicyName(String),
    /// What stands in every Redis key, a prefix or a hash tag, and is empty, too long, or has a
    /// character other than `A-Z a-z 0-9 _ . : -`.
    InvalidKeyText {
        /// What it was to be.
        what: &'static str,
        /// What was asked for.
        text: String,
    },
    /// A URL of Redis that cannot be read, and why. The URL is left out: it may have a password.
    InvalidRedisUrl(String),
    /// A replacement of a limit with another policy, which would forget all counts.
    OtherPolicy {
        /// The current policies.
        old: String,
        /// The policies of the replacement.
        new: String,
    },
    /// A deadline too short for any remote store.
    DeadlineTooShort(Duration),
    /// A remote store whose `max_unanswered` is 0.
    NoDecisionMayWait,
    /// A local store whose `max_keys` is 0.
    ZeroMaxKeys,
    /// Neither an address nor a block of addresses in CIDR notation.
    InvalidCidr(String),
    /// A block of trusted proxies that contains every public address: everyone would be a proxy.
    TrustsEveryone(String),
    /// A list of trusted proxies that is empty: the header would never be read.
    NoTrustedProxies,
    /// A header name that HTTP does not allow.
    InvalidHeaderName(String),
}

const UNITS_OF_TIME: &str = "us, ms, s, min, h, day";

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeriodTooShort { period } => {
                write!(f, "the period {period:?} is shorter than one microsecond")
            }
            Self::PeriodTooLong { period, max } => write!(
                f,
                "{period:?} is longer than {max:?}, the longest time that can be counted"
            ),
            Self::InvalidQuota(text) => write!(
                f,
                "{text:?} is not a quota, such as \"20/s\", \"3/10s\" or \"5000/day\" ({UNITS_OF_TIME})"
            ),
            Self::InvalidSpan(text) => write!(
                f,
                "{text:?} is not a span of time, such as \"100ms\", \"10s\" or \"5min\" ({UNITS_OF_TIME})"
            ),
            Self::QuotaTooLarge { units, period } => write!(
                f,
                "{units} units with a period of {period:?} cannot be counted exactly: use fewer units"
            ),
            Self::WaitTooLong { wait, period } => write!(
                f,
                "a wait of {wait:?} with a period of {period:?} cannot be counted exactly: use a shorter wait"
            ),
            Self::HeldTooShort { held_at_most, min } => write!(
                f,
                "held_at_most is {held_at_most:?}, but must be at least {min:?}"
            ),
            Self::PrecisionDoesNotDivide { precision, period } => write!(
                f,
                "the precision {precision:?} does not divide the period {period:?}: use one of which the period is a multiple"
            ),
            Self::TooManySubCounters { sub_counters, max } => write!(
                f,
                "the precision asks for {sub_counters} sub-counters, more than {max}: use a coarser one"
            ),
            Self::InvalidPolicyName(name) => write!(
                f,
                "the policy name {name:?} is not 1 to 64 of the characters A-Z a-z 0-9 _ . -"
            ),
            Self::InvalidKeyText { what, text } => write!(
                f,
                "the {what} {text:?} is not 1 to 64 of the characters A-Z a-z 0-9 _ . : -"
            ),
            Self::InvalidRedisUrl(why) => write!(
                f,
                "the URL of Redis is not one such as \"redis://localhost:6379\": {why}"
            ),
            Self::OtherPolicy { old, new } => write!(
                f,
                "the limit {old:?} cannot be replaced by {new:?}, which is another policy: give both the same name"
            ),
            Self::DeadlineTooShort(deadline) => {
                write!(f, "the deadline {deadline:?} is shorter than 1ms")
            }
            Self::NoDecisionMayWait => {
                f.write_str("max_unanswered is 0: no decision could be sent")
            }
            Self::ZeroMaxKeys => {
                f.write_str("max_keys is 0: the store needs room for one key at least")
            }
            Self::InvalidCidr(cidr) => write!(
                f,
                "{cidr:?} is neither an address nor a CIDR block such as \"10.0.0.0/8\""
            ),
            Self::TrustsEveryone(cidr) => write!(
                f,
                "the trusted block {cidr:?} holds every address: anyone could write the header, so name only the proxies"
            ),
            Self::NoTrustedProxies => f.write_str(
                "no trusted proxy is given: name the blocks of the proxies, or use `PeerIp`",
            ),
            Self::InvalidHeaderName(name) => write!(f, "{name:?} is not a header name"),
        }
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for ConfigError {}

/// What was made, or a panic at the line of the caller, with the error as the message.
#[track_caller]
pub(crate) fn or_panic<T>(made: Result<T, ConfigError>) -> T {
    match made {
        Ok(made) => made,
        Err(error) => panic!("{error}"),
    }
}

/// Why a store could not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store did not answer, or not in time; `OnStoreError` says what happens to the request.
    Unavailable,
    /// The store is set up wrongly (permissions, password, topology): an operator has to fix it.
    Misconfigured,
    /// This one request cannot be stored (its key has another program's value, for example).
    InvalidInput,
}

/// A store that could not decide; [`kind`](Self::kind) says why.
///
/// A refusal is not an error: it is a [`Decision`](crate::Decision). The message is for operators,
/// and must not be sent to callers.
#[derive(Debug, Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    // In a box: what drops an `Arc` is given its address, so the `Result` of a decision would be
    // kept in memory. A check of an address takes 234 instructions so, and 247 otherwise (bench
    // `instructions`).
    source: Box<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error of this kind, with its cause.
    ///
    /// # Example: a store that ran out of time
    ///
    /// ```
    /// use tollgate::{StoreError, StoreErrorKind};
    ///
    /// let error = StoreError::new(StoreErrorKind::Unavailable, "no answer in 100 ms");
    /// assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    /// assert_eq!(error.to_string(), "the rate-limit store is unavailable: no answer in 100 ms");
    /// ```
    pub fn new(kind: StoreErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind,
            source: Box::new(source.into().into()),
        }
    }

    /// What is wrong: the store is unavailable, misconfigured, or cannot take this request.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            StoreErrorKind::Unavailable => "unavailable",
            StoreErrorKind::Misconfigured => "set up wrongly",
            StoreErrorKind::InvalidInput => "unable to take this request",
        };
        write!(f, "the rate-limit store is {what}: {}", self.source)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.source)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, panic, sync::mpsc};

    use super::*;
    use crate::quota::Quota;

    #[test]
    fn a_panic_is_at_the_line_of_the_caller() {
        let (told, heard) = mpsc::channel();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let at = panic.location().expect("it has one");
            let _ = told.send((at.file().to_owned(), at.line()));
        }));
        let line = line!() + 1;
        let made = panic::catch_unwind(|| Quota::new(1, Duration::ZERO));
        panic::set_hook(before);
        assert!(made.is_err());
        // Other tests may panic meanwhile.
        assert!(heard.iter().any(|at| at == (file!().to_owned(), line)));
    }

    #[test]
    fn the_cause_of_a_store_error_can_be_downcast() {
        let cause = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = StoreError::new(StoreErrorKind::Unavailable, cause);
        let source = error.source().and_then(|source| source.downcast_ref());
        let kind = source.map(io::Error::kind);
        assert_eq!(kind, Some(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    #[should_panic(
        expected = r#""20/fortnight" is not a quota, such as "20/s", "3/10s" or "5000/day" (us, ms, s, min, h, day)"#
    )]
    fn an_unwrap_of_an_invalid_quota_says_what_is_valid() {
        let _ = "20/fortnight".parse::<Quota>().unwrap();
    }
}
