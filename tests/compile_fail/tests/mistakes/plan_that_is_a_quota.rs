//! A quota for each plan, where a plan must be an algorithm.

use axum::extract::Request;
use tollgate::{Quota, choice::by_request};

fn main() {
    let _ = by_request(|request: &Request| match request.headers().get("x-plan") {
        Some(_) => Quota::per_day(1_000),
        None => Quota::per_day(10),
    });
}
