//! An allocator that counts what each thread allocates: each test is one.

#![allow(unsafe_code, reason = "an allocator that counts is an unsafe trait")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

thread_local! {
    /// How often memory was asked for.
    pub(crate) static CALLS: Cell<usize> = const { Cell::new(0) };
    /// All bytes that were ever asked for.
    pub(crate) static ASKED_FOR: Cell<usize> = const { Cell::new(0) };
    /// The bytes that are held now.
    pub(crate) static HELD: Cell<usize> = const { Cell::new(0) };
    /// The most that were held at once.
    pub(crate) static MOST_HELD: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        ASKED_FOR.set(ASKED_FOR.get() + layout.size());
        HELD.set(HELD.get().wrapping_add(layout.size()));
        MOST_HELD.set(MOST_HELD.get().max(HELD.get()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
