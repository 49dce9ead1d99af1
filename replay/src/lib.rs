//! Replays access logs against a file of rules, with tollgate's own code.

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
