//! A real tonic server and real clients, over sockets of the loopback interface.

mod details;
mod frames;
mod peers;
mod refusals;
mod server;
mod streams;
mod web;
