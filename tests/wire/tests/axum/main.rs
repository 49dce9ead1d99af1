//! A real axum server and real clients, over sockets of the loopback interface.

mod answers;
mod burst;
mod client_ip;
mod keys;
mod routes;
mod stacks;
