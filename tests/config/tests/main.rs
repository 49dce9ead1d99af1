//! Limits that are read from files.

#[path = "../../support/ready.rs"]
mod ready;

mod algorithms;
mod chapter_rules;
mod mistakes;
mod readme;
mod rules;
mod rules_mistakes;
