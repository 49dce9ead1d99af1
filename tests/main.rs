//! The tests of the crate by its public names, without servers.

#[path = "support/at_once.rs"]
mod at_once;
#[path = "support/at_one_instant.rs"]
mod at_one_instant;
#[path = "support/files.rs"]
mod files;
#[path = "support/in_time.rs"]
mod in_time;
#[path = "support/listener.rs"]
mod listener;
#[path = "support/local.rs"]
mod local;
#[path = "support/ready.rs"]
mod ready;
#[path = "support/seen.rs"]
mod seen;
#[path = "support/steps.rs"]
mod steps;
#[path = "support/stores.rs"]
mod stores;
mod support;
#[path = "support/tokio_time.rs"]
mod tokio_time;

mod chapters;
mod crowded_store;
mod debug;
mod enforce;
mod fallback;
mod holds;
mod hostile_keys;
mod hostile_states;
mod house;
mod in_flight;
mod layer;
mod local_store;
mod logged_once;
mod many_policies;
mod metrics;
mod observe;
mod observed_calls;
mod own_store;
mod plans;
mod refusals_logged;
mod reload;
mod route_costs;
mod several_keys;
mod shadows;
mod suspended;
mod threads;
mod until_ready;
mod waiting;
