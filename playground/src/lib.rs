//! Simulates limits on traffic, with tollgate's own algorithms: [`simulate`] steps through
//! requests, [`worst`] finds the most in any one span, and [`bound`] computes the documented bound.
//! [`picture`] draws the result for the docs, and [`answer`] answers the page.
//!
//! No algorithm is implemented here again. The formulas of the bounds are those of the property
//! tests.

#![forbid(unsafe_code)]

pub mod algorithms;
pub mod answer;
pub mod any_rule;
pub mod bound;
pub mod field;
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
