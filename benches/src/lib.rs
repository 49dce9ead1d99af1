//! Comparisons with other crates; see the benches. What measures is here, and `benches/peers` has
//! it from here.

pub mod turns;

/// Whether only a short run is wanted, to see that everything works: its numbers say little.
pub fn quick() -> bool {
    std::env::var_os("TOLLGATE_BENCH_QUICK").is_some_and(|value| value != "0")
}
