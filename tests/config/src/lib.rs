//! The tests are in `tests/`: algorithms and rules, messages of mistakes, and the chapter's code.

pub mod in_a_file;
