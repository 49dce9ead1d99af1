//! Sorts requests by their start, as they are written when they end.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    mem,
};

use super::log_clock::{Dated, LogClock};
use crate::logged::Logged;

/// Holds requests until no other can come that began before them, or until it is full.
pub(super) struct Window {
    window_micros: u64,
    max_requests: usize,
    max_bytes: usize,
    /// The earliest one first.
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: usize,
    came: u64,
    clock: LogClock,
    /// Those of which the clock does not know yet whether they are dated wrongly.
    in_doubt: Vec<(Box<Logged>, usize)>,
    ahead: u64,
    last_given: u64,
    out_of_order: u64,
}

/// What is sorted: the request is elsewhere in memory.
struct Held {
    started_micros: u64,
    /// Requests that began at the same instant stay in the order of the log.
    place: u64,
    bytes: usize,
    logged: Box<Logged>,
}

impl Window {
    pub(super) fn new(window_micros: u64, max_requests: usize, max_bytes: usize) -> Self {
        Self {
            window_micros,
            max_requests,
            max_bytes,
            held: BinaryHeap::new(),
            held_bytes: 0,
            came: 0,
            clock: LogClock::new(window_micros),
            in_doubt: Vec::new(),
            ahead: 0,
            last_given: 0,
            out_of_order: 0,
        }
    }

    /// How many requests came after one was given out that began later.
    pub(super) fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// How many requests were dated further ahead of those around them than the window.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Takes a request whose line has this many bytes.
    ///
    /// A request that is dated far ahead of those around it gets their time: its position in the
    /// log is more reliable than its time.
    pub(super) fn push(&mut self, logged: Box<Logged>, bytes: usize) {
        match self.clock.see(end(&logged)) {
            Dated::AsOthers if self.in_doubt.is_empty() => self.hold(logged, bytes),
            Dated::AsOthers => {
                let now = self.clock.now();
                for (mut wrong, bytes) in mem::take(&mut self.in_doubt) {
                    if let Some(now) = now.filter(|now| end(&wrong) > *now) {
                        let took = wrong.took_micros.unwrap_or(0);
                        wrong.started_micros = now.saturating_sub(took).max(self.last_given);
                        self.ahead += 1;
                    }
                    self.hold(wrong, bytes);
                }
                self.hold(logged, bytes);
            }
            Dated::Elsewhere => self.in_doubt.push((logged, bytes)),
            Dated::Anew => {
                self.in_doubt.push((logged, bytes));
                self.hold_those_in_doubt();
            }
        }
    }

    fn hold_those_in_doubt(&mut self) {
        for (logged, bytes) in mem::take(&mut self.in_doubt) {
            self.hold(logged, bytes);
        }
    }

    fn hold(&mut self, mut logged: Box<Logged>, bytes: usize) {
        let started = &mut logged.started_micros;
        if *started < self.last_given {
            *started = self.last_given;
            self.out_of_order += 1;
        }
        self.held.push(Reverse(Held {
            started_micros: *started,
            place: self.came,
            bytes,
            logged,
        }));
        self.came += 1;
        self.held_bytes += bytes;
    }

    /// The earliest request, if the window is full or none can come any more that began before it.
    pub(super) fn pop_due(&mut self) -> Option<Box<Logged>> {
        let Reverse(earliest) = self.held.peek()?;
        let oldest_due = self
            .clock
            .now()
            .map(|now| now.saturating_sub(self.window_micros));
        let is_due = oldest_due.is_some_and(|oldest| earliest.started_micros < oldest);
        let is_full = self.held.len() > self.max_requests || self.held_bytes > self.max_bytes;
        if is_due || is_full { self.pop() } else { None }
    }

    /// The earliest request of all, once the log has ended.
    pub(super) fn pop_last(&mut self) -> Option<Box<Logged>> {
        self.hold_those_in_doubt();
        self.pop()
    }

    /// The earliest request that is held.
    fn pop(&mut self) -> Option<Box<Logged>> {
        let Reverse(held) = self.held.pop()?;
        self.held_bytes -= held.bytes;
        self.last_given = held.started_micros;
        Some(held.logged)
    }
}

fn end(request: &Logged) -> u64 {
    let took = request.took_micros.unwrap_or(0);
    request.started_micros.saturating_add(took)
}

impl Held {
    fn key(&self) -> (u64, u64) {
        (self.started_micros, self.place)
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}
