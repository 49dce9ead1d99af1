//! Which names an event was logged for, so that it is logged once for each.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// The names, of policies for example, that an event was logged for. Each event has its own
/// `LoggedOnce` in a `static`.
#[derive(Debug, Default)]
pub(crate) struct LoggedOnce {
    names: Mutex<BTreeSet<String>>,
}

impl LoggedOnce {
    /// After this many names nothing is logged any more: made-up names must not fill memory.
    const MAX_NAMES: usize = 1_000;

    pub(crate) const fn new() -> Self {
        Self {
            names: Mutex::new(BTreeSet::new()),
        }
    }

    /// Whether this name is new; remembers it.
    pub(crate) fn is_new(&self, name: &str) -> bool {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.len() < Self::MAX_NAMES && !names.contains(name) && names.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_new_once_and_at_most_a_thousand_are() {
        let logged = LoggedOnce::new();
        assert!(logged.is_new("a"));
        assert!(!logged.is_new("a"));
        let new = (0..2 * LoggedOnce::MAX_NAMES).filter(|name| logged.is_new(&name.to_string()));
        assert_eq!(new.count(), LoggedOnce::MAX_NAMES - 1);
        assert!(!logged.is_new("b"));
    }
}
