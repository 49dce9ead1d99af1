//! The state of the log: what was admitted, and when.

use std::collections::VecDeque;

/// What was admitted, oldest first.
///
/// The last entry is in fields of its own: a log of one entry needs no other memory.
#[derive(Debug, Clone)]
pub struct Admissions {
    /// The slot that the log was last written in: that of the last entry, if there is one.
    pub(super) stamp: u64,
    /// The running total: that of the last entry.
    total: u64,
    /// The running total before the first entry; the same as `total` if there is no entry.
    forgotten: u64,
    /// The entries before the last.
    earlier: VecDeque<Entry>,
}

/// A list with room for no more entries is not shrunk.
const MIN_ROOM: usize = 32;
/// A list is shrunk once it has room for more than so many times its entries.
const SPARSE: usize = 4;

impl Admissions {
    /// A log of one entry; of none, if it has no units: then it was last written in this slot.
    pub(super) fn of_one_entry(slot: u64, units: u64) -> Self {
        Self {
            stamp: slot,
            total: units,
            forgotten: 0,
            earlier: VecDeque::new(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.total == self.forgotten
    }

    /// The last entry, if there is any.
    #[inline]
    fn last(&self) -> Entry {
        Entry {
            slot: self.stamp,
            total: self.total,
        }
    }

    /// Calls `output` with what is forgotten, the total, the first entry and the slot of the last;
    /// then with each entry between those. Totals are told as if nothing were forgotten.
    pub(super) fn write(&self, output: &mut dyn FnMut(u64)) {
        let renumbered = |total: u64| total - self.forgotten;
        let mut earlier = self.earlier.iter().copied();
        let first = earlier.next().unwrap_or(self.last());
        let state = [
            0,
            renumbered(self.total),
            first.slot,
            renumbered(first.total),
            self.stamp,
        ];
        let entries = earlier.flat_map(|entry| [entry.slot, renumbered(entry.total)]);
        state.into_iter().chain(entries).for_each(output);
    }

    /// Reads the numbers of a log that was [written](Self::write), if they make sense.
    pub(super) fn read(numbers: &[u64]) -> Option<Self> {
        let (&[forgotten, total, slot, first_total, stamp], between) =
            numbers.split_first_chunk()?;
        let (between, []) = between.as_chunks() else {
            return None;
        };
        let mut log = Self {
            forgotten,
            ..Self::of_one_entry(stamp, total)
        };
        if first_total < total || !between.is_empty() {
            let entries = [[slot, first_total]]
                .into_iter()
                .chain(between.iter().copied());
            log.earlier = entries.map(|[slot, total]| Entry { slot, total }).collect();
        }
        let entries = log.earlier.iter().copied().chain([log.last()]);
        let is_in_order = entries.is_sorted_by(|a, b| a.slot <= b.slot && a.total < b.total);
        let counts = forgotten < first_total || forgotten == total && log.earlier.is_empty();
        (is_in_order && counts && first_total <= total && slot <= stamp).then_some(log)
    }

    /// All entries, if all of them still count.
    #[inline]
    pub(super) fn all(&self) -> Counted {
        self.after(0, self.forgotten)
    }

    /// The entries after so many of the earlier ones, which reach to this total.
    #[inline]
    fn after(&self, over: usize, before: u64) -> Counted {
        let first = self.earlier.get(over);
        Counted {
            over,
            before,
            units: self.total - before,
            first_slot: first.map_or(self.stamp, |entry| entry.slot),
        }
    }

    /// The entries that are not over: mostly all but a few of the first.
    #[inline]
    pub(super) fn counted(&self, is_over: impl Fn(&Entry) -> bool) -> Counted {
        if self.is_empty() || is_over(&self.last()) {
            return self.after(self.earlier.len(), self.total);
        }
        match self.earlier.front() {
            Some(first) if is_over(first) => {
                let over = self.earlier.partition_point(is_over);
                self.after(over, self.earlier[over - 1].total)
            }
            _ => self.all(),
        }
    }

    /// Drops the entries that no longer count.
    #[inline]
    pub(super) fn forget(&mut self, counted: &Counted) {
        self.forgotten = counted.before;
        if counted.over > 0 {
            self.forget_first(counted.over);
        }
    }

    fn forget_first(&mut self, over: usize) {
        let earlier = &mut self.earlier;
        earlier.drain(..over);
        // Half of the room stays, so that the list need not grow again at once.
        if earlier.capacity() > MIN_ROOM && earlier.len() < earlier.capacity() / SPARSE {
            earlier.shrink_to(earlier.capacity() / 2);
        }
    }

    /// Adds what was admitted in this slot, and drops what no longer counts in it.
    #[inline]
    pub(super) fn append(&mut self, counted: &Counted, units: u64, slot: u64) {
        self.forget(counted);
        if !self.is_empty() && self.stamp != slot {
            self.earlier.push_back(self.last());
        }
        self.stamp = slot;
        self.total = self.total.saturating_add(units);
    }

    /// Takes so many of the oldest units out again, of those that are not forgotten.
    pub(super) fn take_out(&mut self, units: u64) {
        let forgotten = self.forgotten.saturating_add(units).min(self.total);
        let counted = self.counted(|entry| entry.total <= forgotten);
        self.forget(&counted);
        self.forgotten = forgotten;
    }

    /// The slot of the unit with this number, of those that count.
    #[inline]
    pub(super) fn slot_of_unit(&self, counted: &Counted, number: u64) -> u64 {
        if number == 1 {
            return counted.first_slot;
        }
        let total = counted.before + number;
        let before = self.earlier.partition_point(|entry| entry.total < total);
        (self.earlier.get(before)).map_or(self.stamp, |entry| entry.slot)
    }
}

/// What was admitted up to the end of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) slot: u64,
    /// All units ever admitted, so that a sum over entries is one subtraction.
    pub(super) total: u64,
}

/// The entries that still count.
pub(super) struct Counted {
    /// How many of the earlier ones do not.
    over: usize,
    /// The running total before them.
    before: u64,
    pub(super) units: u64,
    /// The slot of the first of them, if there is any.
    pub(super) first_slot: u64,
}

#[cfg(test)]
mod tests;
