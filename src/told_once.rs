//! What an operator is told once: the names that were told already.

use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

/// The names that an operator was told of: a policy's, say. Each event has one in a `static`.
#[derive(Debug, Default)]
pub(crate) struct ToldOnce {
    names: RwLock<BTreeSet<String>>,
}

impl ToldOnce {
    /// After so many names nothing is told any more: made-up names must not fill the memory.
    const MAX_NAMES: usize = 1_000;

    pub(crate) const fn new() -> Self {
        Self {
            names: RwLock::new(BTreeSet::new()),
        }
    }

    /// Whether nothing was told of this name yet; from now on something was.
    #[cold]
    pub(crate) fn is_new(&self, name: &str) -> bool {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= Self::MAX_NAMES || names.contains(name) {
            return false;
        }
        drop(names);
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_new_once_and_so_many_are_and_no_more() {
        let told = ToldOnce::new();
        assert!(told.is_new("a"));
        assert!(!told.is_new("a"));
        let new = (0..2 * ToldOnce::MAX_NAMES).filter(|name| told.is_new(&name.to_string()));
        assert_eq!(new.count(), ToldOnce::MAX_NAMES - 1);
        assert!(!told.is_new("b"));
    }
}
