//! Tests of tollgate from outside: here is what they share, the tests are in `tests/`.

mod broken;
mod connection;
mod rng;
mod server;

pub use broken::Broken;
pub use connection::{Connection, Reply, Version, exchange, get};
pub use rng::Rng;
pub use server::{Server, fresh_store, serve, serve_service, serve_without_connect_info};
