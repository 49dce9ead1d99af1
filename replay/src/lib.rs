//! Replays access logs against a file of rules, by tollgate's own layer's rules and algorithms.

#![forbid(unsafe_code)]

pub mod asked;
pub mod decide;
pub mod extensions;
pub mod input;
pub mod key_text;
pub mod log;
pub mod logged;
pub mod notes;
pub mod replay;
pub mod report;
pub mod rules_file;
pub mod scenario;
pub mod shown;
pub mod tally;
