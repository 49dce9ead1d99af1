//! Comparisons with other crates; see the benches. What measures is here, and `benches/peers` has
//! it from here.

use std::{any::type_name, collections::HashSet};

pub mod callgrind;
pub mod turns;

/// What algorithms are called in a table: by their types. Where several of the list have one type,
/// all but the first are called by their names in the list, and so are those around another one.
#[derive(Default)]
pub struct Names(HashSet<&'static str>);

impl Names {
    /// The name of this one, which the list calls so.
    pub fn name_of<A>(&mut self, _algorithm: &A, listed: &'static str) -> &'static str {
        let path = type_name::<A>();
        let name = path.rsplit("::").next().unwrap_or(path);
        if !path.contains('<') && self.0.insert(name) {
            name
        } else {
            listed
        }
    }
}

/// Whether only a short run is wanted, to see that everything works: its numbers say little.
pub fn quick() -> bool {
    std::env::var_os("TOLLGATE_BENCH_QUICK").is_some_and(|value| value != "0")
}
