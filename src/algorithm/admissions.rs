//! The state of the log: what was admitted, and when.

use std::collections::VecDeque;

/// How many entries are looked at one by one, before a binary search.
const MAX_LINEAR: usize = 4;

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
        let (&[forgotten, total, slot, first_total, stamp], entries) =
            numbers.split_first_chunk()?;
        let first = Entry {
            slot,
            total: first_total,
        };
        let is_empty = total == forgotten;
        let is_first = forgotten <= first_total && (is_empty || forgotten < first_total);
        if !(is_first && first_total <= total && slot <= stamp) {
            return None;
        }
        let (entries, []) = entries.as_chunks() else {
            return None;
        };
        let mut between = VecDeque::new();
        let mut before = first;
        for &[slot, total_of_this] in entries {
            let entry = Entry {
                slot,
                total: total_of_this,
            };
            let is_in_order = before.slot <= slot && before.total < entry.total;
            if !(is_in_order && slot <= stamp && entry.total < total) {
                return None;
            }
            between.push_back(entry);
            before = entry;
        }
        let between = (!between.is_empty()).then(|| Box::new(between));
        Some(Self {
            stamp,
            forgotten,
            total,
            first,
            between,
        })
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

    /// A log of one entry, in the slot of the last: the units of all that still count.
    pub(super) fn in_one_entry(&self, counted: &Counted) -> Self {
        Self::of_one_entry(self.stamp, counted.units)
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
        let (mut over, mut before, mut first_slot) = (1, self.first.total, last.slot);
        if let Some(between) = self.between() {
            while let Some(entry) = between.get(over - 1) {
                if !is_over(entry) {
                    first_slot = entry.slot;
                    break;
                }
                if over == MAX_LINEAR {
                    over = between.partition_point(is_over) + 1;
                    before = between[over - 2].total;
                    first_slot = between.get(over - 1).map_or(last.slot, |entry| entry.slot);
                    break;
                }
                before = entry.total;
                over += 1;
            }
        }
        Counted {
            over,
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
        let last = self.last();
        let next = self.between.as_deref_mut().and_then(|between| {
            let next = between.get(counted.over - 1).copied();
            if counted.over <= MAX_LINEAR {
                for _ in 0..counted.over {
                    between.pop_front();
                }
            } else {
                between.drain(..counted.over.min(between.len()));
            }
            // Half of the room stays, so that the list need not grow again at once.
            if between.capacity() > MIN_ROOM && between.len() < between.capacity() / SPARSE {
                between.shrink_to(between.capacity() / 2);
            }
            next
        });
        self.first = next.unwrap_or(last);
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
            self.push(self.last());
        }
        self.stamp = slot;
        self.total = total;
    }

    fn push(&mut self, entry: Entry) {
        self.between.get_or_insert_default().push_back(entry);
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
        let total = counted.before + number;
        if counted.over == 0 && total <= self.first.total {
            return self.first.slot;
        }
        self.slot_of_total(total)
    }

    fn slot_of_total(&self, total: u64) -> u64 {
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

impl Counted {
    /// The entries that count once so many units were added in this slot.
    #[inline]
    pub(super) fn with(&self, units: u64, slot: u64) -> Self {
        Self {
            over: 0,
            before: self.before,
            units: self.units.saturating_add(units),
            first_slot: if self.units == 0 {
                slot
            } else {
                self.first_slot
            },
        }
    }
}

#[cfg(test)]
mod tests;
