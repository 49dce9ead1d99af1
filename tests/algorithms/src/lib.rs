//! Every algorithm once more, slow and plain.

pub mod formulas;
mod list;
mod model;

pub use model::*;
