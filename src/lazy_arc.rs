//! A value that is copied to the heap when it is first shared.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

/// A value, and an `Arc` of it once [`shared`](Self::shared) was called. Reading the value
/// allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct LazyArc<T> {
    value: T,
    shared: OnceLock<Arc<T>>,
}

impl<T: Clone + PartialEq> LazyArc<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value,
            shared: OnceLock::new(),
        }
    }

    pub(crate) fn shared(&self) -> Arc<T> {
        let shared = self.shared.get_or_init(|| Arc::new(self.value.clone()));
        Arc::clone(shared)
    }

    /// Whether `other` is this value's `Arc`, or equal to the value.
    #[inline]
    pub(crate) fn is(&self, other: &Arc<T>) -> bool {
        let is_shared = |shared: &Arc<T>| Arc::ptr_eq(shared, other);
        self.shared.get().is_some_and(is_shared) || self.is_like(other)
    }

    // Not inlined: a check of a fixed window takes 275 instructions so and 312 otherwise, of a
    // token bucket 223 and 229 (bench `instructions_of_each`).
    #[inline(never)]
    fn is_like(&self, other: &T) -> bool {
        self.value == *other
    }
}

impl<T> Deref for LazyArc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_its_own_arc_and_every_equal_value() {
        let value = LazyArc::new(5);
        for _ in 0..2 {
            assert!(value.is(&Arc::new(5)));
            assert!(!value.is(&Arc::new(6)));
            assert!(value.is(&value.shared()));
        }
    }

    #[test]
    fn it_is_copied_to_the_heap_once() {
        let value = LazyArc::new(5);
        assert_eq!((*value, *value.shared()), (5, 5));
        assert!(Arc::ptr_eq(&value.shared(), &value.shared()));
        assert!(Arc::ptr_eq(&value.shared(), &value.clone().shared()));
    }
}
