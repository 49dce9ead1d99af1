//! The tests are in `tests/`: what is read, what is said of a mistake, and the code of the README.

pub mod in_a_file;
