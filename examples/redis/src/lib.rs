//! What the examples start, and what ends with them: throw-away Redis servers, and more processes
//! of their own.

mod cluster;
mod process;
mod server;

pub use cluster::Cluster;
pub use process::Process;
pub use server::Server;

/// Any error in an example.
pub type Failure = Box<dyn std::error::Error>;
