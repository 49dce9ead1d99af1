//! The name of a policy. Each decision has a copy of it.

use std::{
    fmt::{self, Write},
    ops::Deref,
    sync::Arc,
};

use arrayvec::ArrayString;

/// Names of up to so many bytes are copied with each decision; longer ones count references.
/// Unnamed policies are mostly shorter.
const MAX_COPIED: usize = 36;

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PolicyName {
    Short(ArrayString<MAX_COPIED>),
    Long(LongName),
}

/// A long name, which is dropped by value.
///
/// For speed: dropping an `Arc` in place takes its address, so the compiler has to write the whole
/// decision that it is in to memory. A check that is asked only whether it admits takes 38
/// instructions fewer so (bench `instructions`).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LongName(Option<Arc<str>>);

impl Drop for LongName {
    #[inline]
    fn drop(&mut self) {
        if let Some(name) = self.0.take() {
            drop_name(name);
        }
    }
}

#[cold]
fn drop_name(name: Arc<str>) {
    drop(name);
}

impl PolicyName {
    /// Builds a name in place, without an allocation if it is short.
    pub(crate) fn of(name: fmt::Arguments<'_>) -> Self {
        let mut short = ArrayString::new();
        match short.write_fmt(name) {
            Ok(()) => Self::Short(short),
            Err(fmt::Error) => Self::Long(LongName(Some(name.to_string().into()))),
        }
    }
}

impl Deref for PolicyName {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match self {
            Self::Short(name) => name,
            Self::Long(LongName(name)) => name.as_deref().unwrap_or_default(),
        }
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_length_is_kept_whole() {
        for len in [1, MAX_COPIED, MAX_COPIED + 1, 64, 1_000] {
            let name = "n".repeat(len);
            let kept = PolicyName::of(format_args!("{name}"));
            assert_eq!((&*kept, kept.clone()), (&*name, kept.clone()));
            assert_ne!(PolicyName::of(format_args!("{name}x")), kept);
            assert_eq!(matches!(kept, PolicyName::Short(_)), len <= MAX_COPIED);
        }
    }
}
