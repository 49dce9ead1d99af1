//! A user's algorithm without a script, over Redis.

use std::time::Duration;

use axum::{Router, routing::get};
use tollgate::algorithm::{Algorithm, Policy, Status};
use tollgate::{RateLimitLayer, Timestamp};
use tollgate::{key::PeerIp, store::RedisStore};

#[derive(Debug, Clone)]
struct Allowance(Policy);

impl Algorithm for Allowance {
    type State = u64;

    fn policy(&self) -> &Policy {
        &self.0
    }
    fn fresh(&self, _at: Timestamp) -> u64 {
        0
    }
    fn judge(&self, used: &u64, cost: u32, _now: Timestamp) -> bool {
        used + u64::from(cost) <= self.0.limit()
    }
    fn debit(&self, used: &mut u64, units: u64, _now: Timestamp) {
        *used += units;
    }
    fn refund(&self, used: &mut u64, cost: u32, _now: Timestamp) {
        *used = used.saturating_sub(u64::from(cost));
    }
    fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool {
        *used == 0
    }
    fn status(&self, used: &u64, cost: u32, admitted: bool, _now: Timestamp) -> Status {
        let left = self.0.limit() - used;
        Status::of(self.0.limit(), left, cost.into(), admitted, |_| None)
    }
}

fn app(redis: fred::clients::Client) -> Router {
    let policy = Policy::new("allowance", &[3], Duration::ZERO);
    let limit = RateLimitLayer::new(Allowance(policy), RedisStore::new(redis), PeerIp::new());
    Router::new().route("/", get(async || "hello")).layer(limit)
}

fn main() {
    let _ = app;
}
