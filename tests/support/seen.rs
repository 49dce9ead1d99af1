//! Observers that write down what they are told.

use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

use tollgate::{
    observe::{Event, Observe, Outcome},
    store::Source,
};

/// Panics at whatever has this outcome.
pub(crate) fn panics_at<K>(outcome: Outcome) -> impl Fn(&Event<'_, K>) + Clone {
    move |event: &Event<'_, K>| assert_ne!(event.outcome(), outcome, "on purpose")
}

/// Whether this panics.
pub(crate) fn panics<T>(run: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(run()))).is_err()
}

/// Writes down what it sees.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    /// What was seen since the last call of this.
    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub(crate) fn is(&self, expected: &[&str]) {
        assert_eq!(self.taken(), expected);
    }
}

impl<K: Debug> Observe<K> for Seen {
    fn observe(&self, event: &Event<'_, K>) {
        let mut line = event.outcome().to_string();
        if let Some(key) = event.key() {
            line += &format!(" {key:?} cost {}", event.cost());
        }
        if let Some(decision) = event.decision() {
            for policy in decision.policies() {
                let verb = if policy.is_admitted() { "left" } else { "over" };
                line += &format!(", {} {verb} {}", policy.policy(), policy.remaining());
            }
            let wait = decision.retry_after().unwrap_or(decision.delay());
            if wait > Duration::ZERO {
                line += &format!(", wait {wait:?}");
            }
        }
        event.describe_shadows(&mut |policy, would_refuse| {
            let verb = if would_refuse {
                "would refuse"
            } else {
                "stands"
            };
            line += &format!(", {} {verb} {}", policy.policy(), policy.remaining());
        });
        if let Some(error) = event.error() {
            line += &format!(" {:?}", error.kind());
        }
        if !event.passes() {
            line += ", answered";
        }
        assert_eq!(event.store_time(), None);
        let decided = [Outcome::Admitted, Outcome::Refused, Outcome::ShadowRefused];
        let source = decided.contains(&event.outcome()).then_some(Source::Store);
        assert_eq!(event.source(), source, "{line}");
        self.0.lock().unwrap().push(line);
    }
}
