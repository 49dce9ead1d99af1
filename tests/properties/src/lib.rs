//! What the property tests share: numbers, histories, and every algorithm with its slow model.

pub mod alike;
pub mod call;
pub mod claims;
pub mod conformance;
pub mod history;
pub mod numbers;
pub mod output;
pub mod overridden;
pub mod replay;
pub mod search;
pub mod shared;
pub mod subject;
pub mod world;

use proptest::test_runner::{Config, TestRunner};
pub use tollgate_algorithms::{self as model, formulas};

/// How many cases each property runs: `TOLLGATE_CASES`, or 2 000.
pub fn cases() -> u32 {
    let asked = std::env::var("TOLLGATE_CASES").ok();
    asked.map_or(2_000, |asked| match asked.parse() {
        Ok(cases) if cases > 0 => cases,
        // With none of them every property would hold.
        _ => panic!("TOLLGATE_CASES={asked:?} is not a number of cases"),
    })
}

/// Runs a property on so many random values; a failure is shrunk and printed, and nothing is
/// written to disk.
pub fn for_all<S: proptest::strategy::Strategy>(
    values: S,
    property: impl Fn(S::Value) -> proptest::test_runner::TestCaseResult,
) {
    for_so_many(cases(), values, property);
}

/// Runs a property on this many random values instead of [`cases`].
pub fn for_so_many<S: proptest::strategy::Strategy>(
    cases: u32,
    values: S,
    property: impl Fn(S::Value) -> proptest::test_runner::TestCaseResult,
) {
    let default = Config::default();
    let config = Config {
        cases,
        failure_persistence: None,
        // Fewer where `PROPTEST_MAX_SHRINK_ITERS` says so.
        max_shrink_iters: default.max_shrink_iters.min(20_000),
        max_shrink_time: 60_000,
        ..default
    };
    if let Err(failure) = TestRunner::new(config).run(&values, property) {
        panic!("{failure}");
    }
}
