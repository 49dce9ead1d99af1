//! The tests are in `tests/`, one file per side that is looked at.
