//! The model instead of a store: one key, which has an entry or not.

use crate::{
    model::Model,
    told::{ToldAll, by_search},
};

/// What the store should answer for one key.
#[derive(Debug)]
pub struct World {
    models: Vec<Box<dyn Model>>,
    is_known: bool,
    forgot_at: i128,
}

fn fork(models: &[Box<dyn Model>]) -> Vec<Box<dyn Model>> {
    models.iter().map(|model| model.fork()).collect()
}

impl World {
    /// Nothing was ever charged.
    pub fn new(models: &[Box<dyn Model>]) -> Self {
        Self {
            models: fork(models),
            is_known: false,
            forgot_at: 0,
        }
    }

    /// Whether the key has an entry.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// The store dropped the entry because it said no more than a fresh one.
    pub fn was_forgotten(&mut self, now: i128) {
        self.forgot_at = self.forgot_at.max(now);
        self.reset();
    }

    /// The key is like one that was never seen.
    pub fn reset(&mut self) {
        self.is_known = false;
        for model in &mut self.models {
            model.forget(self.forgot_at);
        }
    }

    /// A decision; a key that is not charged gets no entry.
    pub fn check(&mut self, cost: u32, now: i128) -> ToldAll {
        let mut models = fork(&self.models);
        let told = decide(&mut models, cost, true, now);
        if told.all.admitted && cost > 0 {
            self.is_known = true;
        }
        if self.is_known {
            self.models = models;
        }
        told
    }

    /// A look.
    pub fn peek(&self, now: i128) -> ToldAll {
        decide(&mut fork(&self.models), 1, false, now)
    }

    /// Units charged, whether they fit or not.
    pub fn debit(&mut self, units: u32, now: i128) {
        if units > 0 {
            for model in &mut self.models {
                model.charge(units.into(), now);
            }
            self.is_known = true;
        }
    }

    /// Units given back.
    pub fn refund(&mut self, cost: u32, now: i128) {
        if self.is_known && cost > 0 {
            for model in &mut self.models {
                model.refund(cost.into(), now);
            }
        }
    }
}

fn decide(models: &mut [Box<dyn Model>], cost: u32, charges: bool, now: i128) -> ToldAll {
    let units = i128::from(cost);
    let all = models.iter().all(|model| model.admits(units, now));
    let each = models.iter_mut().map(|model| {
        let admitted = model.admits(units, now);
        let delay = match all && charges {
            true => model.delay(units, now),
            false => 0,
        };
        if all && charges && cost > 0 {
            model.charge(units, now);
        }
        by_search(&**model, cost, admitted, delay, now)
    });
    ToldAll::of_each(each.collect())
}
