//! The worst span: the span of time in which most was let through for one key.

use std::collections::{HashMap, VecDeque};

use ahash::RandomState;

/// The most keys of a limit that are followed at the same time.
const MAX_KEYS: usize = 100_000;

/// The most instants that are remembered of all keys of a limit.
const MAX_INSTANTS: usize = 2_000_000;

/// Finds the span (t − P, t] in which most was admitted for one key.
///
/// It remembers the admissions of each key in the last P. A key without any is forgotten, which
/// loses nothing. If there is no room for more keys or instants, [`overlooked`](Self::overlooked)
/// counts the admissions that were not examined.
#[derive(Debug)]
pub struct WorstSpan {
    span_micros: u64,
    keys: HashMap<u64, Window, RandomState>,
    max: (usize, usize),
    instants: usize,
    overlooked: u64,
    /// How many were overlooked when room was last made.
    made_room_at: Option<u64>,
    worst: Option<Worst>,
}

/// The worst span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worst {
    /// How much was let through.
    pub most: u64,
    /// The first instant in it at which something was let through.
    pub from_micros: u64,
    /// The last one.
    pub until_micros: u64,
    /// Whose it is, as it is shown.
    pub key: String,
}

/// The admissions of a key in the last span: when, and how much.
#[derive(Debug, Default)]
struct Window {
    passed: VecDeque<(u64, u64)>,
    sum: u64,
}

impl WorstSpan {
    /// Looks for spans of this length.
    pub fn new(span_micros: u64) -> Self {
        Self::with_room(span_micros, (MAX_KEYS, MAX_INSTANTS))
    }

    fn with_room(span_micros: u64, max: (usize, usize)) -> Self {
        Self {
            span_micros,
            keys: HashMap::default(),
            max,
            instants: 0,
            overlooked: 0,
            made_room_at: None,
            worst: None,
        }
    }

    /// Records an admission of a key at an instant, which must not be earlier than the key's last
    /// one. `shown` is called for the key of a worse span.
    pub fn add(&mut self, at: u64, key_hash: u64, weight: u64, shown: impl FnOnce() -> String) {
        let span = self.span_micros;
        // One search for a key that is known: a key comes from anywhere in memory.
        let has_room = self.instants < self.max.1;
        let window = match self.keys.get_mut(&key_hash).filter(|_| has_room) {
            Some(window) => window,
            None => {
                let is_full = !has_room || self.keys.len() >= self.max.0;
                if is_full && !self.make_room(at, key_hash) {
                    self.overlooked += 1;
                    return;
                }
                self.keys.entry(key_hash).or_default()
            }
        };
        self.instants -= window.forget(at, span);
        window.sum += weight;
        match window.passed.back_mut() {
            Some((last, units)) if *last >= at => *units += weight,
            _ => {
                window.passed.push_back((at, weight));
                self.instants += 1;
            }
        }
        let most = self.worst.as_ref().map_or(0, |worst| worst.most);
        if window.sum > most {
            self.worst = Some(Worst {
                most: window.sum,
                from_micros: window.passed.front().map_or(at, |(first, _)| *first),
                until_micros: at,
                key: shown(),
            });
        }
    }

    /// Forgets the keys without admissions in the span; returns whether there is room for this one
    /// now. It visits all keys, so it does not run for each request.
    fn make_room(&mut self, now: u64, key_hash: u64) -> bool {
        if let Some(before) = self.made_room_at
            && self.overlooked - before < self.max.0 as u64 / 8
        {
            return false;
        }
        let (span, mut forgotten) = (self.span_micros, 0);
        self.keys.retain(|_, window| {
            forgotten += window.forget(now, span);
            !window.passed.is_empty()
        });
        self.instants -= forgotten;
        self.made_room_at = Some(self.overlooked);
        let has_place = self.keys.len() < self.max.0 || self.keys.contains_key(&key_hash);
        let has_room = has_place && self.instants < self.max.1;
        if has_room {
            self.made_room_at = None;
        }
        has_room
    }

    /// The worst span found.
    pub fn worst(&self) -> Option<&Worst> {
        self.worst.as_ref()
    }

    /// How many admissions were not looked at.
    pub fn overlooked(&self) -> u64 {
        self.overlooked
    }
}

impl Window {
    /// Forgets what is not in the span that ends now; tells how many instants.
    fn forget(&mut self, now: u64, span: u64) -> usize {
        let before = self.passed.len();
        while let Some((at, weight)) = self.passed.front().copied()
            && at.saturating_add(span) <= now
        {
            self.passed.pop_front();
            self.sum -= weight;
        }
        before - self.passed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(span: &WorstSpan) -> (u64, &str) {
        let worst = span.worst().unwrap();
        (worst.most, &worst.key)
    }

    #[test]
    fn a_span_is_half_open_and_keys_are_counted_apart() {
        let mut span = WorstSpan::new(10);
        for (at, key, weight) in [(0, 1, 2), (5, 2, 3), (9, 1, 2), (10, 1, 1), (14, 2, 1)] {
            span.add(at, key, weight, || format!("key {key}"));
        }
        // Key 1: 2 + 2 in (−1, 9], and 2 + 1 in (0, 10]. Key 2: 3 + 1 in (4, 14], no more than
        // that.
        assert_eq!(most(&span), (4, "key 1"));
        let worst = span.worst().unwrap();
        assert_eq!((worst.from_micros, worst.until_micros), (0, 9));
    }

    #[test]
    fn keys_that_are_idle_for_a_span_make_room_and_nothing_is_overlooked() {
        let mut span = WorstSpan::with_room(10, (4, 100));
        for at in 0..1_000 {
            span.add(at * 5, at, 1, String::new);
            assert!(span.keys.len() <= 4);
        }
        assert_eq!((span.overlooked(), most(&span).0), (0, 1));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut span = WorstSpan::with_room(1_000, (2, 100));
        for key in 0..5 {
            span.add(1, key, 1, String::new);
        }
        span.add(2, 0, 1, String::new);
        assert_eq!((span.overlooked(), most(&span).0), (3, 2));
        let mut span = WorstSpan::with_room(1_000, (2, 3));
        for at in 0..5 {
            span.add(at, 1, 1, String::new);
        }
        assert_eq!((span.overlooked(), most(&span).0), (2, 3));
        assert!(span.instants <= 3);
    }
}
