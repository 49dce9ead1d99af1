//! The model instead of a store: one key, which has an entry or not.

use crate::{
    call::Call,
    model::Model,
    output::{Outputs, by_search},
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
    fn reset(&mut self) {
        self.is_known = false;
        for model in &mut self.models {
            model.forget(self.forgot_at);
        }
    }

    /// What is told, if it is a decision or a look. A key that is not charged gets no entry.
    pub fn ask(&mut self, call: Call<'_>, now: i128) -> Option<Outputs> {
        match call {
            Call::Check(cost) => {
                let mut models = fork(&self.models);
                let told = decide(&mut models, cost, true, now);
                self.is_known |= told.all.admitted && cost > 0;
                if self.is_known {
                    self.models = models;
                }
                return Some(told);
            }
            Call::Look(cost) => {
                return Some(decide(&mut fork(&self.models), cost, false, now));
            }
            Call::Debit(units) if units > 0 => {
                self.is_known = true;
                for model in &mut self.models {
                    model.charge(units.into(), now);
                }
            }
            Call::Refund(cost) if self.is_known && cost > 0 => {
                for model in &mut self.models {
                    model.refund(cost.into(), now);
                }
            }
            Call::Debit(_) | Call::Refund(_) => {}
            Call::Reset => self.reset(),
            Call::Override(_) | Call::End(..) => unreachable!("none is asked"),
        }
        None
    }
}

fn decide(models: &mut [Box<dyn Model>], cost: u32, charges: bool, now: i128) -> Outputs {
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
    Outputs::of_each(each.collect())
}
