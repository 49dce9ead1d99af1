//! What `scripts/cargo-test slow` runs.

mod worst_plans;
