//! Decisions while the store is unavailable.

use super::{Decision, Known};
#[cfg(feature = "layer")]
use super::{Policies, PolicyDecision};

impl Decision {
    /// Whether a limiter in this process has decided, as the store was unavailable; always `false`
    /// unless the layer's `on_store_error` has one. What the decision and the response tell is then
    /// what that limiter does, and nothing of the limit whose store is down.
    pub fn is_degraded(&self) -> bool {
        matches!(self.binding().status, Known::Degraded(_))
    }

    /// The same, as that of a limiter which decides while the store is unavailable.
    #[cfg(feature = "layer")]
    pub(crate) fn degraded(mut self) -> Self {
        match &mut self.0 {
            Policies::One(policy) => policy.degrade(),
            Policies::Several(several) => {
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

#[cfg(feature = "layer")]
impl PolicyDecision {
    fn degrade(&mut self) {
        self.status = Known::Degraded(self.read(|status| *status));
    }
}
