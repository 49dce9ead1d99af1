//! Limits that are read from files.

mod algorithms;
mod chapter_rules;
mod mistakes;
mod readme;
mod rules;
mod rules_mistakes;
