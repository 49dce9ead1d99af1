//! What the compiler says to the likeliest mistakes; the mistakes are in `tests/`.
