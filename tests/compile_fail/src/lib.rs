//! What the compiler says to the likeliest mistakes; see the tests.
