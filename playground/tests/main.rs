//! The page and the pictures.

mod every_algorithm;
mod pictures;
