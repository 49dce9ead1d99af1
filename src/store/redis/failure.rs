//! The kind of an error: Redis is unavailable, the operator has set something up wrongly, or a key
//! has a value that no store wrote.

use std::{error::Error as _, io, time::Duration};

use bytes::Bytes;
use fred::{
    error::{Error, ErrorKind},
    types::{Resp3Frame, config::Server},
};

use crate::error::{StoreError, StoreErrorKind};

use super::script::UNREADABLE;

/// A primary that became a replica.
pub(super) const READONLY: &str = "READONLY";

pub(super) const NOSCRIPT: &str = "NOSCRIPT";

/// What an error with this code means; `None` if it is not known.
fn kind_of(code: &str) -> Option<StoreErrorKind> {
    match code {
        "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "OOM"
        | "TRYAGAIN" | "UNKILLABLE" | READONLY => Some(StoreErrorKind::Unavailable),
        // The key has a value that no store wrote.
        "WRONGTYPE" | UNREADABLE => Some(StoreErrorKind::InvalidInput),
        // The user, the password or the rights are wrong.
        "NOAUTH" | "NOPERM" | "WRONGPASS" => Some(StoreErrorKind::Misconfigured),
        _ => None,
    }
}

/// The reply, or one for each decision that shares the call; or the message of an error.
pub(super) fn replies_or_error(frame: Resp3Frame) -> Result<Vec<Bytes>, String> {
    match frame {
        Resp3Frame::BlobString { data, .. } | Resp3Frame::SimpleString { data, .. } => {
            Ok(vec![data])
        }
        Resp3Frame::Number { .. } => Ok(vec![Bytes::new()]),
        Resp3Frame::Array { data, .. } => {
            let all = data.into_iter().map(replies_or_error);
            Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Resp3Frame::SimpleError { data, .. } => Err(data.to_string()),
        _ => Err("an answer of an unexpected kind".to_owned()),
    }
}

/// The code of an error of Redis: mostly its first word.
///
/// If a command fails inside a script, Redis 6.2 writes `ERR Error running script` and the line
/// before its code; later versions write `ERR user_script:` and the line before what the script
/// itself raises.
pub(super) fn code(message: &str) -> &str {
    let words = message.split(' ');
    let code = words.clone().next().unwrap_or_default();
    let of_a_script = ["ERR Error running script", "ERR user_script:"];
    if !of_a_script.iter().any(|start| message.starts_with(start)) {
        return code;
    }
    let pairs = words.clone().zip(words.skip(1));
    let behind_colons = pairs.filter(|(before, _)| before.ends_with(':'));
    let mut inner = behind_colons.map(|(_, word)| word.trim_start_matches('-'));
    inner.find(|it| kind_of(it).is_some()).unwrap_or(code)
}

/// The error of a call that Redis answered with an error.
pub(super) fn redis_error(message: &str) -> StoreError {
    // What is not known (an unknown command, or a node of a cluster that the client takes for a
    // single server) does not go away by itself.
    let kind = kind_of(code(message)).unwrap_or(StoreErrorKind::Misconfigured);
    StoreError::new(kind, message)
}

/// The node to which a cluster redirects a command, and whether the slot is still moving there
/// (`ASK`). The message is like `MOVED 3999 127.0.0.1:6381`. Without a host, it is the sender's.
pub(super) fn redirect(message: &str, sender: &str) -> Option<(Server, bool)> {
    let mut words = message.split(' ');
    let (code, _slot, address) = (words.next()?, words.next()?, words.next()?);
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let is_unnamed = ["", "?"].contains(&host);
    let host = if is_unnamed { sender } else { host };
    let server = Server::new(host.to_owned(), port);
    match code {
        "MOVED" => Some((server, false)),
        "ASK" => Some((server, true)),
        _ => None,
    }
}

/// The connection was lost, or could not be made.
pub(super) fn no_connection(error: &Error) -> StoreError {
    StoreError::new(kind(error), format!("no connection to Redis: {error}"))
}

/// The first attempt to connect has not ended, so whether Redis accepts this client is not known.
/// This is not `Unavailable`: else, with a wrong password, the first requests would be admitted.
pub(super) fn not_connected_yet() -> StoreError {
    misconfigured("not connected to Redis yet: the first attempt is under way")
}

/// The error of a call that fred could not complete in this time: Redis has not answered.
pub(super) fn client_error(error: Error, time: Duration) -> StoreError {
    match error.kind() {
        ErrorKind::Timeout => timed_out(time),
        _ => StoreError::new(kind(&error), error),
    }
}

/// No answer came in time.
pub(super) fn timed_out(deadline: Duration) -> StoreError {
    unanswered(format!("no answer in {deadline:?}"))
}

/// There is a connection, but no answer in time, or so many are missing that none is waited for.
pub(super) fn unanswered(message: impl Into<String>) -> StoreError {
    unavailable(io::Error::new(io::ErrorKind::TimedOut, message.into()))
}

/// Whether the error says only that there was no answer.
pub(super) fn is_unanswered(error: &StoreError) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref());
    cause.map(io::Error::kind) == Some(io::ErrorKind::TimedOut)
}

fn kind(error: &Error) -> StoreErrorKind {
    use ErrorKind::{Auth, Config, InvalidArgument, InvalidCommand, Url};
    let is_rejected = kind_of(code(error.details())) == Some(StoreErrorKind::Misconfigured);
    match error.kind() {
        Auth | Config | InvalidArgument | InvalidCommand | Url => StoreErrorKind::Misconfigured,
        _ if is_rejected => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Unavailable,
    }
}

/// The task that asks Redis has ended with its runtime.
pub(super) fn runtime_ends() -> StoreError {
    unavailable("the runtime shuts down")
}

/// Another reason why Redis cannot be asked for now.
pub(super) fn unavailable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, why)
}

/// What the operator has to fix.
pub(super) fn misconfigured(why: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, why.into())
}

pub(super) fn unreadable() -> StoreError {
    StoreError::new(
        StoreErrorKind::InvalidInput,
        "the value of this key is not a state",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of Redis, the code in it, and its kind.
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
    fn an_error_gets_its_kind_by_its_code_wherever_redis_puts_it() {
        for (text, expected_code, expected) in TEXTS {
            assert_eq!(code(text), *expected_code, "{text}");
            assert_eq!(redis_error(text).kind(), *expected, "{text}");
        }
    }

    #[test]
    fn a_client_that_redis_rejects_is_misconfigured_and_one_that_is_cut_off_is_unavailable() {
        use StoreErrorKind::{Misconfigured, Unavailable};
        for (error, text, expected) in [
            (ErrorKind::Auth, "WRONGPASS invalid", Misconfigured),
            (ErrorKind::Unknown, "NOPERM this user", Misconfigured),
            (ErrorKind::Config, "ERR This instance", Misconfigured),
            (ErrorKind::IO, "Connection refused", Unavailable),
            (ErrorKind::Unknown, "LOADING Redis", Unavailable),
            (ErrorKind::Timeout, "Request timed out.", Unavailable),
            (ErrorKind::Backpressure, "", Unavailable),
        ] {
            assert_eq!(kind(&Error::new(error, text)), expected, "{text}");
        }
    }

    #[test]
    fn only_moved_and_ask_with_an_address_redirect_a_command() {
        let read = |text: &str| redirect(text, "10.0.0.9");
        let server = |host: &str, port: u16| Server::new(host.to_owned(), port);
        assert_eq!(
            read("MOVED 3999 127.0.0.1:6381"),
            Some((server("127.0.0.1", 6_381), false))
        );
        assert_eq!(
            read("ASK 3999 2001:db8::1:6381"),
            Some((server("2001:db8::1", 6_381), true))
        );
        for unnamed in ["MOVED 1 :6382", "MOVED 1 ?:6382"] {
            assert_eq!(read(unnamed), Some((server("10.0.0.9", 6_382), false)));
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
