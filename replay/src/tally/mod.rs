//! What is counted while a log is replayed, in memory that does not grow with it.

pub mod callers;
pub mod counts;
pub mod details;
pub mod over_time;
pub mod top_keys;
pub mod waits;
pub mod worst_span;

pub use callers::Callers;
pub use counts::{Counts, LimitCounts};
pub use details::{Details, LimitDetails};
