//! What is claimed of all forms of logs.

mod combined;
