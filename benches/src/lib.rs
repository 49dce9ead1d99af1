//! Comparisons with other crates; see the benches.
