//! Whose fault an error is: Redis's, the operator's, or that of what was stored.

use std::time::Duration;

use fred::error::{Error, ErrorKind};

use crate::error::{StoreError, StoreErrorKind};

use super::{
    compose::UNREADABLE,
    peer::{Apart, Peer},
};

/// Redis, or the way to it, is not well: it may pass.
const UNAVAILABLE: &[&str] = &[
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
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

/// Who the client says it is, or what it may do, is wrong.
const REJECTED: &[&str] = &["NOAUTH", "NOPERM", "WRONGPASS"];

/// The code of an error that Redis answered: mostly its first word.
///
/// Redis 6.2 puts what went wrong inside of a script behind `ERR Error running script` and where it was; later ones put
/// what a script itself raises behind `ERR user_script:` and the line.
pub(super) fn code(message: &str) -> &str {
    let mut words = message.split(' ');
    let code = words.next().unwrap_or("");
    let of_a_script = ["ERR Error running script", "ERR user_script:"];
    if !of_a_script.iter().any(|start| message.starts_with(start)) {
        return code;
    }
    let mut before = code;
    for word in words {
        let inner = word.trim_start_matches('-');
        let is_known = UNAVAILABLE.contains(&inner) || STRANGE.contains(&inner);
        if is_known && before.ends_with(':') {
            return inner;
        }
        before = word;
    }
    code
}

/// An error that Redis answered.
pub(super) fn answered(message: &str) -> StoreError {
    let code = code(message);
    let kind = if UNAVAILABLE.contains(&code) {
        StoreErrorKind::Unavailable
    } else if STRANGE.contains(&code) {
        StoreErrorKind::InvalidInput
    } else {
        // A right that is missing, a wrong password, a command that is not known, a node of a cluster that is asked as
        // if it were alone: it does not pass by itself.
        StoreErrorKind::Misconfigured
    };
    StoreError::new(kind, message)
}

/// Whether the cluster sent the command elsewhere: it was not executed.
pub(super) fn is_redirection(error: &Error) -> bool {
    *error.kind() == ErrorKind::Routing && error.details().starts_with("Too many redirections")
}

/// An error of the client: no answer came.
pub(super) fn unanswered(peer: &Peer, error: Error) -> StoreError {
    match peer.apart() {
        None => StoreError::new(kind(&error), error),
        Some(apart) => apart.into(),
    }
}

/// No answer came in time.
pub(super) fn late(peer: &Peer, deadline: Duration) -> StoreError {
    match peer.apart() {
        Some(Apart::Because(error)) => Apart::Because(error).into(),
        _ => unavailable(format!("no answer in {deadline:?}")),
    }
}

impl From<Apart> for StoreError {
    fn from(apart: Apart) -> Self {
        match apart {
            Apart::Never => Self::new(
                StoreErrorKind::Misconfigured,
                "the Redis client was never connected: `init()` must have succeeded before the first decision",
            ),
            Apart::NotYet => unavailable("the Redis client is not connected yet"),
            Apart::Because(error) => {
                let kind = kind(&error);
                Self::new(kind, format!("no connection to Redis: {error}"))
            }
        }
    }
}

fn kind(error: &Error) -> StoreErrorKind {
    let is_rejected = REJECTED.contains(&code(error.details()));
    match error.kind() {
        _ if is_rejected => StoreErrorKind::Misconfigured,
        ErrorKind::Auth
        | ErrorKind::Config
        | ErrorKind::InvalidArgument
        | ErrorKind::InvalidCommand
        | ErrorKind::Url => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Unavailable,
    }
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
