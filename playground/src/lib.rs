//! What limits do to traffic, by tollgate's own rules: [`simulate`] steps through requests,
//! [`worst`] looks for the worst span and [`bound`] knows the printed one. [`picture`] draws it for
//! the docs, and [`answer`] answers the page.
//!
//! No rule is written here a second time. The formulas of the bounds are those that the properties
//! are held to.

#![forbid(unsafe_code)]

pub mod algorithms;
pub mod answer;
pub mod any_rule;
pub mod bound;
pub mod field;
#[path = "../../tests/properties/src/formulas.rs"]
pub mod formulas;
pub mod limit;
pub mod lines;
pub mod picture;
mod reading;
pub mod recording;
pub mod simulate;
pub mod span;
pub mod traffic;
pub mod tuple;
pub mod why;
pub mod worst;
