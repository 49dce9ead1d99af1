//! Decisions while the store is unavailable.

#[cfg(feature = "layer")]
use super::OneOrSeveral;
use super::{Decision, Known, PolicyDecision};

impl Decision {
    /// Whether a limiter in this process has decided, because the store was unavailable; always
    /// `false` unless the layer's `on_store_error` has such a limiter. The decision and the
    /// response then describe that limiter, and not the limit whose store is down.
    pub fn is_degraded(&self) -> bool {
        self.binding().is_degraded()
    }

    /// The same, as that of a limiter which decides while the store is unavailable.
    #[cfg(feature = "layer")]
    #[inline]
    pub(crate) fn degraded(mut self) -> Self {
        match &mut self.0 {
            OneOrSeveral::One(policy) => policy.degrade(),
            OneOrSeveral::Several(several) => {
                let several = std::sync::Arc::make_mut(several);
                several
                    .policies
                    .iter_mut()
                    .for_each(PolicyDecision::degrade);
            }
        }
        self
    }
}

impl PolicyDecision {
    pub(super) fn is_degraded(&self) -> bool {
        matches!(self.status, Known::Degraded(_) | Known::LazyDegraded(_))
    }

    #[cfg(feature = "layer")]
    #[inline]
    fn degrade(&mut self) {
        self.status = match self.status {
            Known::Lazy(status) => Known::LazyDegraded(status),
            _ => Known::Degraded(self.read(|status| *status)),
        };
    }
}
