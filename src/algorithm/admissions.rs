//! The state of the log: what was admitted, and when.

use std::collections::VecDeque;

/// So many entries are looked at, and dropped, one by one.
const FEW: usize = 4;

/// What was admitted, oldest first.
#[derive(Debug, Clone)]
pub struct Admissions {
    pub(super) entries: VecDeque<Entry>,
    /// The running total when the entries began.
    forgotten: u64,
    /// The slot that the log was last written in.
    pub(super) stamp: u64,
}

impl Admissions {
    /// None, in a log that was last written in this slot.
    #[inline]
    pub(super) fn since(slot: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            forgotten: 0,
            stamp: slot,
        }
    }

    #[inline]
    fn total(&self) -> u64 {
        self.entries
            .back()
            .map_or(self.forgotten, |last| last.total)
    }

    /// The entries of which it is not said that they are over: mostly all but a few of the first.
    #[inline(always)]
    pub(super) fn counted(&self, is_over: impl Fn(&Entry) -> bool) -> Counted {
        let (mut first, mut before) = (0, self.forgotten);
        while let Some(entry) = self.entries.get(first).filter(|entry| is_over(entry)) {
            if first == FEW {
                first = self.entries.partition_point(is_over);
                before = self.entries[first - 1].total;
                break;
            }
            first += 1;
            before = entry.total;
        }
        Counted {
            first,
            before,
            units: self.total() - before,
        }
    }

    /// Drops the entries that no longer count.
    #[inline(always)]
    pub(super) fn forget(&mut self, counted: &Counted) {
        self.forgotten = counted.before;
        if counted.first > FEW {
            self.entries.drain(..counted.first);
            return;
        }
        for _ in 0..counted.first {
            self.entries.pop_front();
        }
    }

    /// Adds what was admitted in this slot, and drops what no longer counts in it.
    #[inline(always)]
    pub(super) fn append(&mut self, counted: &Counted, cost: u32, slot: u64) {
        let total = self.total() + u64::from(cost);
        self.forget(counted);
        self.stamp = slot;
        match self.entries.back_mut() {
            Some(last) if last.slot == slot => last.total = total,
            _ => self.entries.push_back(Entry { slot, total }),
        }
    }

    /// Takes so many of the oldest units out again, of those that are not forgotten.
    pub(super) fn take_out(&mut self, units: u64) {
        self.forgotten = self.forgotten.saturating_add(units).min(self.total());
        while (self.entries.front()).is_some_and(|first| first.total <= self.forgotten) {
            self.entries.pop_front();
        }
    }

    /// The slot of the unit of this number, of those that count.
    #[cold]
    pub(super) fn slot_of_unit(&self, counted: &Counted, number: u64) -> u64 {
        let is_earlier = |entry: &Entry| entry.total < counted.before + number;
        let index = self.entries.partition_point(is_earlier);
        self.entries.get(index).map_or(0, |entry| entry.slot)
    }
}

/// What was admitted up to the end of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) slot: u64,
    /// All units ever admitted, so that a sum over entries is one subtraction.
    pub(super) total: u64,
}

#[cfg(test)]
pub(super) const BYTES_PER_ENTRY: usize = size_of::<Entry>();

/// The entries that still count.
pub(super) struct Counted {
    pub(super) first: usize,
    /// The running total before them.
    pub(super) before: u64,
    pub(super) units: u64,
}
