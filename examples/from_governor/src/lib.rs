//! Compiles and runs the code of the chapter `moving_in`, with the crates that it compares.

#[cfg(doctest)]
#[doc = include_str!("../../../src/docs/moving_in.md")]
pub mod moving_in {}
