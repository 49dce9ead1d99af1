//! Replays access logs against a file of rules, by tollgate's own layer's rules and algorithms.

#![forbid(unsafe_code)]

pub mod log;
pub mod logged;
