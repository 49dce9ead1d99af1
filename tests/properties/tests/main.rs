//! What must always hold, over random and exhaustive histories.

#[path = "worst_holds/cases.rs"]
mod cases;

mod at_once;
mod bounds;
mod drift;
mod holds;
mod hostile;
mod in_turn;
mod invariants;
mod kept_elsewhere;
mod late_times;
mod lost_holds;
mod model;
mod most_refused;
mod overridden;
mod queues;
mod several_keys;
mod slow;
mod worst_holds;
