//! Sorts requests by their start, as they are written when they end.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
};

use super::request::Request;
use crate::logged::Logged;

/// Holds requests until no other can come that began before them, or until it is full.
pub(super) struct Window {
    window_micros: u64,
    max_requests: usize,
    max_bytes: usize,
    /// Requests that came in the order of their start. Most do, and cost no heap.
    in_order: VecDeque<Held>,
    /// Requests that began before the last one of `in_order`.
    others: BinaryHeap<Other>,
    held_bytes: usize,
    came: u64,
    latest_end: u64,
    last_given: u64,
    out_of_order: u64,
}

struct Held {
    request: Request,
    /// Requests that began at the same instant stay in the order of the log.
    place: u64,
    bytes: usize,
}

impl Window {
    pub(super) fn new(window_micros: u64, max_requests: usize, max_bytes: usize) -> Self {
        Self {
            window_micros,
            max_requests,
            max_bytes,
            in_order: VecDeque::new(),
            others: BinaryHeap::new(),
            held_bytes: 0,
            came: 0,
            latest_end: 0,
            last_given: 0,
            out_of_order: 0,
        }
    }

    /// How many requests came after one was given out that began later.
    pub(super) fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Takes a request whose line has this many bytes.
    pub(super) fn push(&mut self, mut request: Request, bytes: usize) {
        let started = &mut request.logged.started_micros;
        let took = request.logged.took_micros.unwrap_or(0);
        self.latest_end = self.latest_end.max(started.saturating_add(took));
        if *started < self.last_given {
            *started = self.last_given;
            self.out_of_order += 1;
        }
        let held = Held {
            request,
            place: self.came,
            bytes,
        };
        self.came += 1;
        self.held_bytes += bytes;
        match self.in_order.back() {
            Some(last) if held.key() < last.key() => self.others.push(Other {
                key: held.key(),
                held: Box::new(held),
            }),
            _ => self.in_order.push_back(held),
        }
    }

    /// The earliest request, if the window is full or none can come any more that began before it.
    pub(super) fn pop_due(&mut self) -> Option<Logged> {
        let (started, _) = self.earliest()?;
        let is_due = started.saturating_add(self.window_micros) < self.latest_end;
        let is_full = self.in_order.len() + self.others.len() > self.max_requests
            || self.held_bytes > self.max_bytes;
        if is_due || is_full { self.pop() } else { None }
    }

    /// The earliest request.
    pub(super) fn pop(&mut self) -> Option<Logged> {
        let held = if self.other_is_first() {
            *self.others.pop()?.held
        } else {
            self.in_order.pop_front()?
        };
        self.held_bytes -= held.bytes;
        self.last_given = held.request.logged.started_micros;
        Some(held.request.logged())
    }

    fn earliest(&self) -> Option<(u64, u64)> {
        let first = self.in_order.front().map(Held::key);
        let other = self.others.peek().map(|other| other.key);
        first.into_iter().chain(other).min()
    }

    fn other_is_first(&self) -> bool {
        self.others.peek().map(|other| other.key) == self.earliest()
    }
}

impl Held {
    fn key(&self) -> (u64, u64) {
        (self.request.logged.started_micros, self.place)
    }
}

/// What is sorted: beside the request, which is elsewhere in memory.
struct Other {
    key: (u64, u64),
    held: Box<Held>,
}

/// The greatest of the heap is the earliest.
impl Ord for Other {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl PartialOrd for Other {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Other {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Other {}
