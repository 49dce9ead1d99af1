//! What the compiler says to the likeliest mistakes: each message must say what to write instead.
//!
//! The snapshots are of one compiler, since every release words its messages a little differently;
//! with another, look at the differences and, if what is said is still good, write them again with
//! `TRYBUILD=overwrite`.

#[test]
fn each_mistake_is_answered_with_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
