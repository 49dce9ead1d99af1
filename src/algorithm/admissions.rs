//! The state of the log: what was admitted, and when.

use std::{collections::VecDeque, iter};

/// What was admitted, oldest first.
///
/// The first entry and the last are fields, and most logs have no others: so a decision mostly
/// looks nowhere else.
#[derive(Debug, Clone)]
pub struct Admissions {
    /// The slot that the log was last written in: that of the last entry, if there is one.
    pub(super) stamp: u64,
    /// The running total before the first entry; the same as `total` if there is no entry.
    forgotten: u64,
    /// The running total: that of the last entry.
    total: u64,
    /// It is also the last one, if its running total is `total`.
    first: Entry,
    #[expect(clippy::box_collection, reason = "a word, where most logs need none")]
    between: Option<Box<VecDeque<Entry>>>,
}

/// A list with room for no more entries is not shrunk.
const MIN_ROOM: usize = 32;
/// A list is shrunk once it has room for more than so many times its entries.
const SPARSE: usize = 4;

impl Admissions {
    /// No entries, in a log that was last written in this slot.
    #[inline]
    pub(super) fn since(slot: u64) -> Self {
        Self {
            stamp: slot,
            forgotten: 0,
            total: 0,
            first: Entry { slot, total: 0 },
            between: None,
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

    #[inline]
    fn has_one(&self) -> bool {
        self.first.total == self.total
    }

    #[inline]
    fn between(&self) -> Option<&VecDeque<Entry>> {
        self.between.as_deref()
    }

    /// Calls `tell` with what is forgotten, the total, the first entry and the slot of the last;
    /// then with each entry between those. Totals are told as if nothing were forgotten.
    pub(super) fn write(&self, tell: &mut dyn FnMut(u64)) {
        let told = |total: u64| total - self.forgotten;
        let between = self.between().into_iter().flatten();
        let numbers = [
            0,
            told(self.total),
            self.first.slot,
            told(self.first.total),
            self.stamp,
        ];
        let entries = between.flat_map(|entry| [entry.slot, told(entry.total)]);
        numbers.into_iter().chain(entries).for_each(tell);
    }

    /// Reads the numbers of a log that was [written](Self::write), if they make sense.
    pub(super) fn read(numbers: &[u64]) -> Option<Self> {
        let (&[forgotten, total, slot, first_total, stamp], rest) = numbers.split_first_chunk()?;
        let (rest, []) = rest.as_chunks() else {
            return None;
        };
        let first = Entry {
            slot,
            total: first_total,
        };
        let between: VecDeque<_> = (rest.iter())
            .map(|&[slot, total]| Entry { slot, total })
            .collect();
        let log = Self {
            stamp,
            forgotten,
            total,
            first,
            between: (!between.is_empty()).then(|| Box::new(between)),
        };
        let is_one = log.between.is_none() && log.has_one();
        let last = (!is_one).then(|| log.last());
        let between = log.between().into_iter().flatten().copied();
        let entries = iter::once(first).chain(between).chain(last);
        let is_in_order = entries.is_sorted_by(|a, b| a.slot <= b.slot && a.total < b.total);
        let has_first = forgotten < first_total || forgotten == first_total && is_one;
        (is_in_order && has_first && slot <= stamp).then_some(log)
    }

    /// All entries, if all of them still count.
    #[inline]
    pub(super) fn all(&self) -> Counted {
        Counted {
            over: 0,
            before: self.forgotten,
            units: self.total - self.forgotten,
            first_slot: self.first.slot,
        }
    }

    /// A log of one entry.
    pub(super) fn of_one_entry(slot: u64, units: u64) -> Self {
        let mut one = Self::since(slot);
        (one.total, one.first.total) = (units, units);
        one
    }

    /// The entries that are not over: mostly all but a few of the first.
    #[inline]
    pub(super) fn counted(&self, is_over: impl Fn(&Entry) -> bool) -> Counted {
        if self.is_empty() || !is_over(&self.first) {
            return self.all();
        }
        self.counted_after_the_first(is_over)
    }

    /// The same where the first entry is over.
    fn counted_after_the_first(&self, is_over: impl Fn(&Entry) -> bool) -> Counted {
        let last = self.last();
        if is_over(&last) {
            return Counted {
                over: usize::MAX,
                before: self.total,
                units: 0,
                first_slot: self.stamp,
            };
        }
        let (mut over, mut before, mut first_slot) = (0, self.first.total, last.slot);
        if let Some(between) = self.between() {
            over = between.partition_point(is_over);
            before = over
                .checked_sub(1)
                .map_or(before, |last| between[last].total);
            first_slot = between.get(over).map_or(first_slot, |entry| entry.slot);
        }
        Counted {
            over: 1 + over,
            before,
            units: self.total - before,
            first_slot,
        }
    }

    /// Drops the entries that no longer count.
    #[inline]
    pub(super) fn forget(&mut self, counted: &Counted) {
        if counted.over > 0 {
            self.forget_first(counted);
        }
    }

    fn forget_first(&mut self, counted: &Counted) {
        self.forgotten = counted.before;
        self.first = self.last();
        if let Some(between) = &mut self.between {
            // The first entry that counts goes from the list to its own field.
            let gone = counted.over.min(between.len());
            let next = between.drain(..gone).nth(counted.over - 1);
            self.first = next.unwrap_or(self.first);
            // Half of the room stays, so that the list need not grow again at once.
            if between.capacity() > MIN_ROOM && between.len() < between.capacity() / SPARSE {
                between.shrink_to(between.capacity() / 2);
            }
        }
    }

    /// Adds what was admitted in this slot, and drops what no longer counts in it.
    #[inline]
    pub(super) fn append(&mut self, counted: &Counted, units: u64, slot: u64) {
        self.forget(counted);
        let total = self.total.saturating_add(units);
        if self.is_empty() {
            self.first = Entry { slot, total };
        } else if self.stamp == slot {
            if self.has_one() {
                self.first.total = total;
            }
        } else if !self.has_one() {
            let last = self.last();
            self.between.get_or_insert_default().push_back(last);
        }
        self.stamp = slot;
        self.total = total;
    }

    /// How many entries the list has room for.
    #[cfg(test)]
    fn room(&self) -> usize {
        self.between
            .as_deref()
            .map_or(0, |between| between.capacity())
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
        match number {
            1 => counted.first_slot,
            _ => self.slot_of_total(counted.before + number),
        }
    }

    fn slot_of_total(&self, total: u64) -> u64 {
        if total <= self.first.total {
            return self.first.slot;
        }
        let between = self
            .between()
            .and_then(|between| between.get(between.partition_point(|entry| entry.total < total)));
        between.map_or(self.stamp, |entry| entry.slot)
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
    /// How many entries before them do not; more than there are if none counts.
    pub(super) over: usize,
    /// The running total before them.
    pub(super) before: u64,
    pub(super) units: u64,
    /// The slot of the first of them, if there is any.
    pub(super) first_slot: u64,
}

#[cfg(test)]
mod tests;
