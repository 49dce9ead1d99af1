//! What callers see over real connections.

mod loopback;
#[path = "../../support/mod.rs"]
mod support;

mod caches;
mod dropped_half_way;
mod fields;
mod grpc;
mod grpc_details;
mod http;
mod http_answers;
mod http_keys;
mod http_routes;
mod http_stacks;
mod many_fields;
mod own_answers;
mod websocket;
