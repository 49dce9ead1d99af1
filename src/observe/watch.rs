//! What a layer or a limiter does for its observer; nothing if it has none.

use std::time::{Duration, Instant};

use super::{Event, Observe};

/// An observer, or none.
#[doc(hidden)]
pub trait Watch<K> {
    /// Whether there is no observer, so that no event is made.
    const IS_SILENT: bool;

    /// The time at which the store was asked, if that is measured.
    type Stopwatch: Default + Send + 'static;

    /// Starts to measure, if it is wanted.
    fn start(&self) -> Self::Stopwatch;

    /// The time since then.
    fn elapsed(stopwatch: &Self::Stopwatch) -> Option<Duration>;

    /// Calls the observer.
    fn tell(&self, event: &Event<'_, K>);
}

/// No observer: the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Silent;

impl<K> Watch<K> for Silent {
    const IS_SILENT: bool = true;

    type Stopwatch = ();

    #[inline]
    fn start(&self) {}

    #[inline]
    fn elapsed((): &()) -> Option<Duration> {
        None
    }

    #[inline]
    fn tell(&self, _event: &Event<'_, K>) {}
}

/// An observer sees each request of a layer, or each call of a limiter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observed<O>(pub(crate) O);

impl<K, O: Observe<K>> Watch<K> for Observed<O> {
    const IS_SILENT: bool = false;

    type Stopwatch = Option<Instant>;

    #[inline]
    fn start(&self) -> Option<Instant> {
        self.0.times_store().then(Instant::now)
    }

    #[inline]
    fn elapsed(stopwatch: &Option<Instant>) -> Option<Duration> {
        stopwatch.as_ref().map(Instant::elapsed)
    }

    #[inline]
    fn tell(&self, event: &Event<'_, K>) {
        self.0.observe(event);
    }
}
