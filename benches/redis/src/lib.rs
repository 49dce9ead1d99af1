//! Redis at work; see the bench.
