//! Memory per key at a million IP addresses, against governor's keyed store: allocated bytes,
//! counted.
//!
//! `cargo bench -p tollgate-benches --bench memory`

#![allow(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use governor::DefaultKeyedRateLimiter;
use tollgate::{
    Quota,
    algorithm::{
        Algorithm, FixedWindow, Gcra, MinInterval, SlidingLog, SlidingWindow, TokenBucket,
    },
    store::{LocalStore, Store},
};

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEYS: u32 = 1_000_000;

fn keys() -> impl Iterator<Item = IpAddr> {
    (0..KEYS).map(|n| IpAddr::V4(Ipv4Addr::from(n.wrapping_mul(0x9E37_79B1))))
}

/// Bytes per key that are allocated and still there when all keys are in.
fn bytes_per_key<T>(fill: impl FnOnce() -> T) -> f64 {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let filled = fill();
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    drop(filled);
    bytes as f64 / f64::from(KEYS)
}

fn governor() -> DefaultKeyedRateLimiter<IpAddr> {
    let limiter = governor::RateLimiter::keyed(governor::Quota::per_hour(NonZeroU32::MIN));
    for key in keys() {
        assert!(limiter.check_key(&key).is_ok());
    }
    limiter
}

fn tollgate<A: Algorithm>(algorithm: &A) -> LocalStore<A, IpAddr> {
    let store = LocalStore::new();
    for key in keys() {
        let _ = store.decide(algorithm, &key, 1);
    }
    assert_eq!(store.usage().keys, KEYS as usize);
    store
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let governor = bytes_per_key(governor);
    println!(
        "Bytes per key at a million `IpAddr` keys, and as a multiple of governor's {governor:.1}.\n"
    );
    println!("| algorithm | words of state | bytes | ratio |");
    println!("|---|---|---|---|");
    let row = |name: &str, words: usize, bytes: f64| {
        println!(
            "| {name} | {words} | {bytes:.1} | {:.2} |",
            bytes / governor
        );
    };
    let quota = Quota::per_hour(1);
    let interval = MinInterval::new(Duration::from_secs(3_600));
    row("MinInterval", 1, bytes_per_key(|| tollgate(&interval)));
    row(
        "TokenBucket",
        3,
        bytes_per_key(|| tollgate(&TokenBucket::new(quota))),
    );
    row("Gcra", 3, bytes_per_key(|| tollgate(&Gcra::new(quota))));
    row(
        "FixedWindow",
        3,
        bytes_per_key(|| tollgate(&FixedWindow::new(quota))),
    );
    row(
        "SlidingWindow",
        4,
        bytes_per_key(|| tollgate(&SlidingWindow::new(quota))),
    );
    row(
        "SlidingLog, one entry",
        7,
        bytes_per_key(|| tollgate(&SlidingLog::new(quota))),
    );
}
