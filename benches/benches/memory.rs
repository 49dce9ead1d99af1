//! Memory per key of IP addresses, against governor's keyed store: allocated bytes, counted. First
//! at a million keys, which is the default of `max_keys`, then with fewer of them.
//!
//! `cargo bench -p tollgate-benches --bench memory`

#![allow(unsafe_code, reason = "an allocator that counts is an unsafe trait")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering},
};

use governor::DefaultKeyedRateLimiter;
use tollgate::{
    Quota,
    algorithm::*,
    store::{Ask, LocalStore, Store},
};
use tollgate_algorithms::every_algorithm;
use tollgate_benches::Names;

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

fn keys(count: u32) -> impl Iterator<Item = IpAddr> {
    (0..count).map(|n| IpAddr::V4(Ipv4Addr::from(n.wrapping_mul(0x9E37_79B1))))
}

/// Bytes per key that are allocated and still there when all keys are in.
fn bytes_per_key<T>(count: u32, fill: impl FnOnce(u32) -> T) -> f64 {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let filled = fill(count);
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    drop(filled);
    bytes as f64 / f64::from(count)
}

fn governor(count: u32) -> DefaultKeyedRateLimiter<IpAddr> {
    let limiter = governor::RateLimiter::keyed(governor::Quota::per_hour(NonZeroU32::MIN));
    for key in keys(count) {
        assert!(limiter.check_key(&key).is_ok());
    }
    limiter
}

fn tollgate<A: KeyLimit>(algorithm: &A, count: u32) -> LocalStore<A, IpAddr> {
    let store = LocalStore::new();
    for key in keys(count) {
        let _ = store.decide(algorithm, &key, Ask::Charge(1));
    }
    assert_eq!(store.usage().keys, count as usize);
    store
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let governor = bytes_per_key(KEYS, governor);
    println!(
        "Bytes per key at a million `IpAddr` keys, and as a multiple of governor's {governor:.1}.\n"
    );
    println!("| algorithm | bytes | ratio |");
    println!("|---|---|---|");
    let quota = Quota::per_hour(1);
    let (burst, precision, interval) = (quota.units(), quota.period() / 10, quota.period());
    let mut names = Names::default();
    macro_rules! row_of_each {
        (
            ($quota:ident, $burst:ident, $precision:ident, $interval:ident)
            $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+
        ) => {
            $({
                let algorithm = $algorithm;
                let bytes = bytes_per_key(KEYS, |count| tollgate(&algorithm, count));
                let name = names.name_of(&algorithm, $name);
                println!("| {name} | {bytes:.1} | {:.2} |", bytes / governor);
            })+
        };
    }
    every_algorithm!(row_of_each, quota, burst, precision, interval);
    println!("\nBytes per key with fewer keys, in a store for a million.\n");
    println!("| keys | governor | MinInterval | ratio | TokenBucket | ratio |");
    println!("|---|---|---|---|---|---|");
    let (min_interval, token_bucket) = (MinInterval::new(interval), TokenBucket::new(quota));
    for count in (1..=9).map(|hundreds| hundreds * 100_000) {
        let governor = bytes_per_key(count, self::governor);
        let one_number = bytes_per_key(count, |count| tollgate(&min_interval, count));
        let bucket = bytes_per_key(count, |count| tollgate(&token_bucket, count));
        println!(
            "| {count} | {governor:.1} | {one_number:.1} | {:.2} | {bucket:.1} | {:.2} |",
            one_number / governor,
            bucket / governor
        );
    }
}
