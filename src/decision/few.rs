//! A list that is one item most of the time.

use std::{slice, sync::Arc};

/// One item without an allocation, or several.
#[derive(Clone)]
pub(crate) enum Few<T> {
    One(T),
    Several(Arc<[T]>),
}

impl<T> FromIterator<T> for Few<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        match (items.next(), items.next()) {
            (Some(one), None) => Self::One(one),
            (Some(first), second) => {
                let all = [first].into_iter().chain(second).chain(items);
                Self::Several(all.collect())
            }
            (None, _) => Self::Several(Arc::default()),
        }
    }
}

impl<T> Few<T> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}
