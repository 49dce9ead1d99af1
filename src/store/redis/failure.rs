//! Whose fault an error is: Redis's, the operator's, or that of what was stored.

use std::{fmt, time::Duration};

use bytes::Bytes;
use fred::{
    error::{Error, ErrorKind},
    types::{Resp3Frame, config::Server},
};

use crate::error::{StoreError, StoreErrorKind};

use super::compose::UNREADABLE;

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

/// The answer, or the error that Redis answered.
pub(super) fn sorted(frame: Resp3Frame) -> Result<Bytes, String> {
    match frame {
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::VerbatimString { data, .. } => Ok(data),
        Resp3Frame::Number { .. } => Ok(Bytes::new()),
        Resp3Frame::SimpleError { data, .. } => Err(data.to_string()),
        Resp3Frame::BlobError { data, .. } => Err(String::from_utf8_lossy(&data).into_owned()),
        _ => Err("an answer of an unexpected kind".to_owned()),
    }
}

/// The code of an error that Redis answered: mostly its first word.
///
/// Redis 6.2 puts what went wrong inside of a script behind `ERR Error running script` and where it
/// was; later ones put what a script itself raises behind `ERR user_script:` and the line.
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
        // A right that is missing, a wrong password, a command that is not known, a node of a
        // cluster that is asked as if it were alone: it does not pass by itself.
        StoreErrorKind::Misconfigured
    };
    StoreError::new(kind, message)
}

/// Where a node of a cluster sends a command that it did not execute.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// Another node holds the slot.
    Moved(Server),
    /// Another node takes the slot over, and has the key already.
    Ask(Server),
}

impl Elsewhere {
    /// Reads `MOVED 3999 127.0.0.1:6381`. A host that is left out is that of the node that says it.
    pub(super) fn read(message: &str, told_by: Option<&Server>) -> Option<Self> {
        let mut words = message.split(' ');
        let (code, _slot, address) = (words.next()?, words.next()?, words.next()?);
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let server = match host {
            "" | "?" => Server::new(told_by?.host.clone(), port),
            host => Server::new(host.to_owned(), port),
        };
        match code {
            "MOVED" => Some(Self::Moved(server)),
            "ASK" => Some(Self::Ask(server)),
            _ => None,
        }
    }
}

/// Why there is no connection.
pub(super) enum Disconnected {
    /// No attempt to make one has come to its end.
    NotYet,
    /// It was lost, or could not be made.
    Because(Error),
}

impl From<Disconnected> for StoreError {
    fn from(disconnected: Disconnected) -> Self {
        match disconnected {
            Disconnected::NotYet => not_yet(),
            Disconnected::Because(error) => {
                Self::new(kind(&error), format!("no connection to Redis: {error}"))
            }
        }
    }
}

/// The first attempt to connect has not come to its end: whether Redis lets this client in is not
/// known. A caller is not let through by that, or a password that is wrong would let the first ones
/// through.
pub(super) fn not_yet() -> StoreError {
    StoreError::new(
        StoreErrorKind::Misconfigured,
        "not connected to Redis yet: the first attempt is under way",
    )
}

/// An error of the client: no answer came.
pub(super) fn unanswered(error: Error) -> StoreError {
    StoreError::new(kind(&error), error)
}

/// There is a connection, but no answer came over it.
#[derive(Debug)]
struct Unanswered(String);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

/// No answer came in time.
pub(super) fn late(deadline: Duration) -> StoreError {
    let late = Unanswered(format!("no answer in {deadline:?}"));
    StoreError::new(StoreErrorKind::Unavailable, late)
}

/// So many wait for an answer that no more are sent.
pub(super) fn busy() -> StoreError {
    let busy = Unanswered("too many decisions wait for an answer".to_owned());
    StoreError::new(StoreErrorKind::Unavailable, busy)
}

/// Whether nothing is known but that no answer came.
pub(super) fn is_unanswered(error: &StoreError) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Unanswered>())
}

/// The same error for somebody else.
pub(super) fn once_more(error: &StoreError) -> StoreError {
    let source = std::error::Error::source(error).map(ToString::to_string);
    StoreError::new(error.kind(), source.unwrap_or_default())
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
    fn a_command_was_sent_elsewhere_only_where_a_node_says_so() {
        let teller = Server::from(("10.0.0.9", 6_380));
        let read = |text: &str| Elsewhere::read(text, Some(&teller));
        let server = |host: &str, port: u16| Server::new(host.to_owned(), port);
        assert_eq!(
            read("MOVED 3999 127.0.0.1:6381"),
            Some(Elsewhere::Moved(server("127.0.0.1", 6_381)))
        );
        assert_eq!(
            read("ASK 3999 2001:db8::1:6381"),
            Some(Elsewhere::Ask(server("2001:db8::1", 6_381)))
        );
        for unnamed in ["MOVED 1 :6382", "MOVED 1 ?:6382"] {
            assert_eq!(
                read(unnamed),
                Some(Elsewhere::Moved(server("10.0.0.9", 6_382)))
            );
            assert_eq!(Elsewhere::read(unnamed, None), None);
        }
        for other in [
            "",
            "MOVED",
            "MOVED 3999",
            "MOVED 3999 127.0.0.1",
            "MOVED 3999 127.0.0.1:70000",
            "ERR 3999 127.0.0.1:6381",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
