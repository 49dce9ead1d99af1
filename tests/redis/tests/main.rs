//! What holds over real Redis servers. Those in `slow` wait for servers that hang, die or fail
//! over, start many servers or processes, or compare for minutes.

#[path = "events/mod.rs"]
mod events;
#[path = "../../support/listener.rs"]
mod listener;
mod traffic;

mod charges;
mod errors;
mod expiry;
mod joined;
mod keys;
mod leased;
mod logs;
mod observe;
mod overridden;
mod own_algorithm;
mod queue;
mod remembered;
mod renumbered;
mod round_trips;
mod rules_over_redis;
mod several_keys;
mod shadows;
mod slow;
mod strangers;
mod unix_socket;
mod until_ready;
