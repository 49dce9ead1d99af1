//! Right or wrong: histories that each limiter is played, and what it admitted against what it
//! promises.

mod bursts;
mod limiters;
mod promises;
mod rates;
mod retry_after;
mod routers;
mod shared;
mod subject;
mod verdict;
mod waits;
mod windows;

use tollgate_peers::table;

const TEXT: &str = "Each limiter is played the same histories; what it admitted stands beside what its own \
    documentation promises. Time is turned by hand where a limiter can be told the time, and real where it cannot. An \
    approximation that is documented is not called wrong.";

fn main() {
    table::section("Right or wrong", TEXT);
    promises::table();
    bursts::all();
    rates::all();
    windows::all();
    waits::all();
    shared::all();
    routers::all();
    retry_after::all();
}
