//! Decisions while the store is unavailable.

use super::Decision;
#[cfg(feature = "layer")]
use super::OneOrSeveral;

impl Decision {
    /// Whether a limiter in this process has decided, because the store was unavailable; always
    /// `false` unless the layer's `on_store_error` has such a limiter. The decision and the
    /// response then describe that limiter, and not the limit whose store is down.
    pub fn is_degraded(&self) -> bool {
        self.binding().is_degraded
    }

    /// The same, as that of a limiter which decides while the store is unavailable.
    #[cfg(feature = "layer")]
    #[inline]
    pub(crate) fn degraded(mut self) -> Self {
        match &mut self.0 {
            OneOrSeveral::One(policy) => policy.is_degraded = true,
            OneOrSeveral::Several(several) => {
                for policy in &mut std::sync::Arc::make_mut(several).policies {
                    policy.is_degraded = true;
                }
            }
        }
        self
    }
}
