//! Delivers a decision that takes a place or holds units, or gives them back.

use tokio::sync::oneshot;

use crate::{algorithm::Limit, store::Decided};

use super::super::{Later, failure};

/// Delivers a decision. If nobody waits for it any more, what it has taken is given back.
pub(in crate::store::redis) fn delivered<L: Limit>(
    deciding: Later<Decided<L>>,
    give_back: impl Fn(&L::Snapshot) + Send + Sync + 'static,
) -> Later<Decided<L>> {
    Box::pin(async move {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let mut undelivered: Undelivered<L, _> = Undelivered {
                decided: None,
                give_back,
            };
            undelivered.decided = Some(deciding.await);
            // If nobody receives it, it is dropped here.
            let _ = sender.send(undelivered);
        });
        let delivered = receiver.await.ok();
        let decided = delivered.and_then(|mut delivered| delivered.decided.take());
        decided.unwrap_or_else(|| Err(failure::unavailable("the runtime shuts down")))
    })
}

/// A decision on its way.
struct Undelivered<L: Limit, G: Fn(&L::Snapshot)> {
    decided: Option<Decided<L>>,
    give_back: G,
}

impl<L: Limit, G: Fn(&L::Snapshot)> Drop for Undelivered<L, G> {
    fn drop(&mut self) {
        if let Some(Ok(verdict)) = &self.decided
            && verdict.admitted
        {
            (self.give_back)(&verdict.snapshot);
        }
    }
}
