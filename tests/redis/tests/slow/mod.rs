//! What `scripts/cargo-test slow` runs.

mod clock_steps;
mod cluster;
mod equal;
mod fallback_limit;
mod faults;
mod health;
pub(crate) mod holds_over_redis;
mod hung;
mod known_outage;
mod late_settlements;
mod leases;
mod misconfigured;
mod places_across_slots;
mod places_in_flight;
mod processes;
mod rights;
mod taken_back;
mod tuples;
mod turns;
