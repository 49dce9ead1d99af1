//! A subscriber to a `LocalStore`'s events.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tracing::{Event, Metadata, Subscriber, span};

/// Calls the store at each of its events.
pub(crate) struct Curious<F> {
    pub(crate) ask: F,
    /// How many events there were.
    pub(crate) told: Arc<AtomicUsize>,
}

impl<F: Fn() + 'static + Send + Sync> Subscriber for Curious<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        assert_eq!(event.metadata().target(), "tollgate::local_store");
        self.told.fetch_add(1, Ordering::Relaxed);
        (self.ask)();
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
