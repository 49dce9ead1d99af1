//! The likeliest mistakes, each with a message that says what to write instead.
//!
//! The snapshots are of the declared toolchain; after a change of it, look at the new messages before
//! taking them over with `TRYBUILD=overwrite`.

#[test]
fn every_likely_mistake_is_answered_with_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("cases/*.rs");
}
