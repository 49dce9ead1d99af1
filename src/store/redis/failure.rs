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

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of Redis, the code in it, and whose fault it is.
    const TEXTS: &[(&str, &str, StoreErrorKind)] = {
        use StoreErrorKind::{InvalidInput, Misconfigured, Unavailable};
        &[
            // From version 7 on.
            (
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                "BUSY",
                Unavailable,
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                "LOADING",
                Unavailable,
            ),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'. script: 5f6a, on @user_script:6.",
                "MASTERDOWN",
                Unavailable,
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. script: 5f6a, on @user_script:33.",
                "MISCONF",
                Unavailable,
            ),
            (
                "NOREPLICAS Not enough good replicas to write. script: 5f6a, on @user_script:33.",
                "NOREPLICAS",
                Unavailable,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 5f6a, on @user_script:33.",
                "OOM",
                Unavailable,
            ),
            (
                "READONLY You can't write against a read only replica. script: 5f6a, on @user_script:33.",
                "READONLY",
                Unavailable,
            ),
            (
                "CLUSTERDOWN The cluster is down",
                "CLUSTERDOWN",
                Unavailable,
            ),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                "TRYAGAIN",
                Unavailable,
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value script: 5f6a, on @user_script:10.",
                "WRONGTYPE",
                InvalidInput,
            ),
            ("UNREADABLE state", "UNREADABLE", InvalidInput),
            ("NOAUTH Authentication required.", "NOAUTH", Misconfigured),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                "WRONGPASS",
                Misconfigured,
            ),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command",
                "NOPERM",
                Misconfigured,
            ),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                "NOPERM",
                Misconfigured,
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: 5f6a, on @user_script:6.",
                "ERR",
                Misconfigured,
            ),
            (
                "ERR unknown command 'EVALSHA', with args beginning with: 'OOM' 'BUSY'",
                "ERR",
                Misconfigured,
            ),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                "CROSSSLOT",
                Misconfigured,
            ),
            ("MOVED 3999 127.0.0.1:6381", "MOVED", Misconfigured),
            (
                "NOSCRIPT No matching script. Please use EVAL.",
                "NOSCRIPT",
                Misconfigured,
            ),
            ("", "", Misconfigured),
            // Version 6.2.
            (
                "ERR Error running script (call to f_5f6a): @user_script:33: @user_script: 33: -OOM command not allowed when used memory > 'maxmemory'. ",
                "OOM",
                Unavailable,
            ),
            (
                "ERR Error running script (call to f_5f6a): @user_script:3: -OOM command not allowed when used memory > 'maxmemory'.",
                "OOM",
                Unavailable,
            ),
            (
                "ERR Error running script (call to f_5f6a): @user_script:33: @user_script: 33: -READONLY You can't write against a read only replica. ",
                "READONLY",
                Unavailable,
            ),
            (
                "ERR Error running script (call to f_5f6a): @user_script:33: @user_script: 33: -MISCONF Errors writing to the AOF file: No space left on device ",
                "MISCONF",
                Unavailable,
            ),
            (
                "ERR Error running script (call to f_5f6a): @user_script:33: @user_script: 33: -NOREPLICAS Not enough good replicas to write. ",
                "NOREPLICAS",
                Unavailable,
            ),
            (
                "ERR Error running script (call to f_5f6a): @user_script:10: WRONGTYPE Operation against a key holding the wrong kind of value ",
                "WRONGTYPE",
                InvalidInput,
            ),
            (
                "ERR Error running script (call to f_5f6a): @user_script:6: @user_script: 6: The user executing the script can't run this command or subcommand ",
                "ERR",
                Misconfigured,
            ),
            (
                "ERR Error running script (call to f_5f6a): @user_script:6: user_script:6: attempt to index global 'BUSY' (a nil value) ",
                "ERR",
                Misconfigured,
            ),
        ]
    };

    #[test]
    fn an_error_is_sorted_by_its_code_wherever_redis_puts_it() {
        for (text, is, whose) in TEXTS {
            assert_eq!(code(text), *is, "{text}");
            assert_eq!(answered(text).kind(), *whose, "{text}");
        }
    }

    #[test]
    fn a_client_that_is_not_let_in_is_set_up_wrongly_and_one_that_is_cut_off_is_not() {
        use StoreErrorKind::{Misconfigured, Unavailable};
        for (error, is, whose) in [
            (ErrorKind::Auth, "WRONGPASS invalid", Misconfigured),
            (ErrorKind::Unknown, "NOPERM this user", Misconfigured),
            (ErrorKind::Config, "ERR This instance", Misconfigured),
            (ErrorKind::IO, "Connection refused", Unavailable),
            (ErrorKind::Unknown, "LOADING Redis", Unavailable),
            (ErrorKind::Timeout, "Request timed out.", Unavailable),
            (ErrorKind::Backpressure, "", Unavailable),
        ] {
            assert_eq!(kind(&Error::new(error, is)), whose, "{is}");
        }
    }

    #[test]
    fn a_command_was_sent_elsewhere_only_when_the_client_says_so() {
        let says = |kind, details| is_redirection(&Error::new(kind, details));
        assert!(says(ErrorKind::Routing, "Too many redirections."));
        assert!(!says(ErrorKind::Routing, "Max attempts reached."));
        assert!(!says(ErrorKind::Unknown, "Too many failed write attempts."));
    }
}
