//! A rejection that is a text without a status.

use axum::extract::Request;
use tollgate::key::from_fn;

fn main() {
    let _ = from_fn(|request: &Request| match request.headers().get("x-user") {
        Some(user) => Ok(Some(user.clone())),
        None => Err("sign in first"),
    });
}
