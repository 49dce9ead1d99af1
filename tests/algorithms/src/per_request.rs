//! Any rule, counting requests: each costs 1.

use crate::{Bound, Counts, Model};

#[derive(Debug)]
struct PerRequest(Box<dyn Model>);

impl Clone for PerRequest {
    fn clone(&self) -> Self {
        Self(self.0.fork())
    }
}

/// The rule, but every cost of 1 or more is 1.
pub(crate) fn per_request(model: Box<dyn Model>) -> Box<dyn Model> {
    Box::new(PerRequest(model))
}

impl Model for PerRequest {
    fn forget(&mut self, at: i128) {
        self.0.forget(at);
    }

    fn limit(&self) -> i128 {
        self.0.limit()
    }

    fn span(&self) -> i128 {
        self.0.span()
    }

    fn shape(&self) -> Vec<i128> {
        self.0.shape()
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        self.0.admits(cost.min(1), now)
    }

    fn has_room_for(&self, requests: i128, now: i128) -> bool {
        self.0.admits(requests, now)
    }

    fn charge(&mut self, cost: i128, now: i128) {
        self.0.charge(cost.min(1), now);
    }

    fn refund(&mut self, cost: i128, now: i128) {
        self.0.refund(cost.min(1), now);
    }

    fn delay(&self, cost: i128, now: i128) -> i128 {
        self.0.delay(cost.min(1), now)
    }

    fn bound(&self, largest_cost: i128) -> Bound {
        Bound {
            counts: Counts::Requests,
            ..self.0.bound(largest_cost.min(1))
        }
    }
}
