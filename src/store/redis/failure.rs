//! Whose fault an error is: Redis's, the operator's, or that of what was stored.

use fred::error::{Error, ErrorKind};

use crate::error::{StoreError, StoreErrorKind};

use super::compose::UNREADABLE;

/// Redis, or the way to it, is not well: it may pass.
const UNAVAILABLE: &[&str] = &[
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOREPLICAS",
    READONLY,
    "OOM",
    "TRYAGAIN",
    "UNKILLABLE",
];

/// A primary that became a replica.
pub(super) const READONLY: &str = "READONLY";

pub(super) const NOSCRIPT: &str = "NOSCRIPT";

/// What is stored under the key is not what this store wrote.
const STRANGE: &[&str] = &["WRONGTYPE", UNREADABLE];

/// The code of an error that Redis answered: mostly its first word.
///
/// Redis 6.2 puts what went wrong inside of a script behind `ERR Error running script`, and a minus before it.
pub(super) fn code(message: &str) -> &str {
    let first = |text: &str| text.find(' ').unwrap_or(text.len());
    let code = &message[..first(message)];
    if code != "ERR" || !message.contains("script") {
        return code;
    }
    let known = |word: &&str| {
        let word = word.trim_start_matches('-').trim_end_matches(':');
        UNAVAILABLE.contains(&word) || STRANGE.contains(&word)
    };
    match message.split(' ').find(known) {
        Some(word) => word.trim_start_matches('-').trim_end_matches(':'),
        None => code,
    }
}

/// An error that Redis answered.
pub(super) fn answered(message: &str) -> StoreError {
    let code = code(message);
    let kind = if UNAVAILABLE.contains(&code) {
        StoreErrorKind::Unavailable
    } else if STRANGE.contains(&code) {
        StoreErrorKind::InvalidInput
    } else {
        // A right that is missing, a wrong password, a command that is not known: it does not pass by itself.
        StoreErrorKind::Misconfigured
    };
    StoreError::new(kind, message)
}

/// An error of the client: no answer came.
pub(super) fn unanswered(error: Error) -> StoreError {
    let kind = match error.kind() {
        ErrorKind::Auth
        | ErrorKind::Config
        | ErrorKind::InvalidArgument
        | ErrorKind::InvalidCommand
        | ErrorKind::Url => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, error)
}

pub(super) fn unavailable(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message.into())
}

pub(super) fn unreadable() -> StoreError {
    StoreError::new(
        StoreErrorKind::InvalidInput,
        "what is stored under this key is not a state",
    )
}
