//! The temporary Redis servers and processes that the examples start.

mod cluster;
mod process;
mod server;

pub use cluster::Cluster;
pub use process::Process;
pub use server::Server;

/// Any error in an example.
pub type Failure = Box<dyn std::error::Error>;
