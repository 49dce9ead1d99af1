//! The program, run on logs.

mod support;

mod as_the_layer;
mod memory;
mod replayed;
mod wrong_use;
