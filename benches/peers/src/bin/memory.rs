//! Allocated bytes for each key, when a million are in.

use std::{alloc::System, hash::Hash, net::IpAddr};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tollgate_peers::{
    keys::{NumberedKey, keys},
    limit::{Answer, Limit},
    own::{Bare, token_bucket},
    peers::{
        AxumGcra, Governor, Limitador, Limiter, SkpRatelimit, ThrottleKit, Throttlecrab, Trypema,
    },
    table,
    turns::multiple,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const KEYS: u32 = 1_000_000;

const TEXT: &str = "Allocated bytes for each key when a million are in, counted in the allocator: the states, the \
    keys, and the room of tables that have grown. No time is in it, so it repeats from run to run. A million is also the \
    most that tollgate's store holds unless it is told otherwise, and its tables are cut so that they are well filled \
    then; with fewer keys every table here is somewhere between half full and full, and either side may be the smaller one.";

fn main() {
    table::section("Memory", TEXT);
    let limit = Limit::that_is(Answer::Admitted, KEYS as usize);

    table::head(&[
        "peer",
        "keys",
        "its bytes",
        "tollgate `TokenBucket`'s, as a multiple",
    ]);
    let ours = bytes_per_key::<IpAddr>(Bare::new(token_bucket(limit)));
    row::<IpAddr>("governor", ours, Governor::new(limit));
    row::<IpAddr>("axum_gcra", ours, AxumGcra::new(limit));
    let ours = bytes_per_key::<String>(Bare::new(token_bucket(limit)));
    row::<String>("governor", ours, Governor::new(limit));
    row::<String>("throttle-kit", ours, ThrottleKit::new(limit));
    row::<String>("throttlecrab", ours, Throttlecrab::new(limit));
    row::<String>("skp-ratelimit", ours, SkpRatelimit::new(limit));
    row::<String>("trypema", ours, Trypema::new(limit));
    row::<String>("limitador", ours, Limitador::new(limit));
}

fn row<K: NumberedKey + Hash + Eq>(name: &str, ours: f64, peer: impl Limiter<K>) {
    let bytes = bytes_per_key::<K>(peer);
    table::row(&[
        &name,
        &K::NAME,
        &format!("{bytes:.0}"),
        &multiple(ours / bytes),
    ]);
}

fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Of a limiter that is empty so far.
fn bytes_per_key<K: NumberedKey>(limiter: impl Limiter<K>) -> f64 {
    let keys = keys::<K>(KEYS);
    let before = allocated();
    for key in &keys {
        assert!(limiter.admits(key));
    }
    (allocated() - before) as f64 / f64::from(KEYS)
}
