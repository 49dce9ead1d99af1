//! How many keys there are, each counted once.

use std::collections::HashSet;

use ahash::RandomState;

/// Keys by their hashes, up to a number of them.
#[derive(Debug)]
pub struct Callers {
    seen: HashSet<u64, RandomState>,
    max: usize,
    is_exact: bool,
}

impl Callers {
    /// Counts up to so many.
    pub fn new(max: usize) -> Self {
        Self {
            seen: HashSet::default(),
            max,
            is_exact: true,
        }
    }

    /// Counts this one, if it is new.
    pub fn add(&mut self, key_hash: u64) {
        if self.seen.len() < self.max {
            self.seen.insert(key_hash);
        } else if !self.seen.contains(&key_hash) {
            self.is_exact = false;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.seen.len()
    }

    /// Whether these are all; if not, there are more.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_once_and_that_there_are_more_is_known() {
        let mut callers = Callers::new(2);
        for key in [7, 7, 8, 7, 8] {
            callers.add(key);
        }
        assert_eq!((callers.count(), callers.is_exact()), (2, true));
        callers.add(9);
        assert_eq!((callers.count(), callers.is_exact()), (2, false));
    }
}
