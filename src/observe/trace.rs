//! The outcomes of requests and calls, in the spans and the log of `tracing`.

use std::{
    collections::HashSet,
    fmt::{self, Debug},
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{Span, field::display};

use crate::decision::Decision;

use super::{Event, Observe, Outcome};

/// How many keys are remembered, so that each is logged once in a period.
const MAX_KEYS: usize = 1_000;

/// A longer key is cut off after this many characters.
const MAX_KEY_LEN: usize = 200;

/// Records the outcome of a request or call in the current span, and logs a refusal at most once in
/// each minute for each key.
///
/// - **Span**: these fields are recorded if the current span declares them (as
///   [`tracing::field::Empty`](https://docs.rs/tracing/latest/tracing/field/struct.Empty.html)):
///   `tollgate.outcome`, `tollgate.passes`, `tollgate.cost`, `tollgate.key`, and of the decision
///   `tollgate.policy` (the one that binds), `tollgate.remaining`, and `tollgate.wait_seconds`: the
///   wait of a refused request, the delay of an admitted one, or how long a call [has
///   waited](Event::waited).
/// - **Log**: an event named `observe.refused`, at level `info`, with target `tollgate::observe`
///   and the fields `key`, `policy`, `outcome`, `cost`, `wait_seconds` and `not_logged`: how many
///   refusals, of all keys, were left out since the last line. The outcome is `refused`,
///   `degraded`, or `shadow_refused` where the limit is not
///   [enforced](crate::RateLimitLayer::enforce) or in [shadow](crate::algorithm::Policy::shadow).
/// - **Memory** is bounded: a hash for each of a thousand keys. When a thousand keys were logged
///   within one period, refusals of other keys are not logged.
/// - **Keys** are printed by `Debug`, so what that hides stays hidden. Control characters are
///   escaped, so that a key cannot start a new line. A key is cut off after 200 characters.
///
/// Clones share these hashes. Store errors are logged by the store.
///
/// # Example: refusals in the log, and the outcome in the request's span
///
/// ```
/// use std::time::Duration;
/// use axum::{Router, extract::Request, routing::get};
/// use tollgate::{Quota, RateLimitLayer};
/// use tollgate::{algorithm::TokenBucket, key::PeerIp, observe::Trace, store::LocalStore};
/// use tower::ServiceBuilder;
///
/// let quota = TokenBucket::new(Quota::per_second(20));
/// let limit = RateLimitLayer::new(quota, LocalStore::new(), PeerIp::new())
///     .observe(Trace::new().every(Duration::from_secs(10)));
/// // With tower-http a `TraceLayer` around it makes the span:
/// // .make_span_with(|_: &Request| info_span!("request", tollgate.outcome = field::Empty))
/// let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
/// # let _ = app;
/// ```
#[derive(Clone)]
pub struct Trace {
    period: Duration,
    /// Randomly seeded, so that nobody can choose a key with the hash of another.
    hasher: RandomState,
    logged: Arc<Mutex<Logged>>,
}

/// Which keys were logged within the period.
#[derive(Default)]
struct Logged {
    /// When the period began, if anything was logged.
    since: Option<Instant>,
    keys: HashSet<u64>,
    left_out: u64,
}

impl Trace {
    /// Logs a refusal at most once in each minute for each key.
    pub fn new() -> Self {
        Self {
            period: Duration::from_secs(60),
            hasher: RandomState::new(),
            logged: Arc::default(),
        }
    }

    /// Logs a refusal at most once in each `period` for each key. A period begins with a refusal.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Debug + Hash> Observe<K> for Trace {
    fn observe(&self, event: &Event<'_, K>) {
        event.describe_shadows(&mut |policy, would_refuse| {
            if let (Some(key), true) = (event.key(), would_refuse) {
                let refused = (policy.policy(), Outcome::ShadowRefused);
                self.log(key, event.cost(), refused, None);
            }
        });
        let decision = event.decision();
        record(&Span::current(), event, decision.as_ref());
        if let (Some(key), Some(decision)) = (event.key(), &decision)
            && !decision.is_admitted()
        {
            let refused = (decision.policy(), event.outcome());
            self.log(key, event.cost(), refused, event.wait(decision));
        }
    }
}

impl Trace {
    fn log<K: Debug + Hash>(
        &self,
        key: &K,
        cost: u32,
        (policy, outcome): (&str, Outcome),
        wait: Option<Duration>,
    ) {
        if !tracing::enabled!(target: "tollgate::observe", tracing::Level::INFO) {
            return;
        }
        let hash = self.hasher.hash_one(key);
        let logged = self.logged.lock();
        let mut logged = logged.unwrap_or_else(PoisonError::into_inner);
        let is_due = logged.is_due(hash, self.period, Instant::now());
        // Unlock before the subscriber is called.
        drop(logged);
        if let Some(not_logged) = is_due {
            tracing::info!(
                name: "observe.refused",
                target: "tollgate::observe",
                key = %printed(key),
                policy = %one_line(policy),
                outcome = outcome.name(),
                cost,
                wait_seconds = wait.map(|wait| wait.as_secs_f64()),
                not_logged,
                "a request is over its limit"
            );
        }
    }
}

impl Logged {
    /// If a refusal of this key is to be logged now, how many refusals were left out before it.
    fn is_due(&mut self, key: u64, period: Duration, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= period {
            self.since = Some(now);
            self.keys.clear();
        }
        if self.keys.len() >= MAX_KEYS || !self.keys.insert(key) {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Records the fields that the span declares.
fn record<K: Debug>(span: &Span, event: &Event<'_, K>, decision: Option<&Decision>) {
    if span.is_disabled() {
        return;
    }
    span.record("tollgate.outcome", event.outcome().name());
    span.record("tollgate.passes", event.passes());
    span.record("tollgate.cost", event.cost());
    // Printing it costs more than the rest.
    if let Some(key) = event.key().filter(|_| span.has_field("tollgate.key")) {
        span.record("tollgate.key", display(printed(key)));
    }
    if let Some(decision) = decision {
        span.record("tollgate.policy", one_line(decision.policy()));
        span.record("tollgate.remaining", decision.remaining());
        if let Some(wait) = event.wait(decision) {
            span.record("tollgate.wait_seconds", wait.as_secs_f64());
        }
    }
}

/// The `Debug` form of a key, on one line and not too long.
fn printed(key: &impl Debug) -> String {
    one_line(&format!("{key:?}"))
}

/// A text up to a length, whose control characters are escaped.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (index, character) in text.chars().enumerate() {
        // Line and paragraph separators, and what turns the direction of a line.
        let breaks = matches!(character, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
        match character {
            _ if index == MAX_KEY_LEN => {
                line.push('…');
                break;
            }
            _ if breaks || character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    #[test]
    fn a_key_is_logged_once_in_a_period_and_the_rest_is_counted() {
        let (mut logged, start) = (Logged::default(), Instant::now());
        let mut is_due = |key, seconds| {
            let now = start + Duration::from_secs(seconds);
            logged.is_due(key, PERIOD, now)
        };
        assert_eq!(
            [is_due(1, 0), is_due(1, 0), is_due(1, 59)],
            [Some(0), None, None]
        );
        assert_eq!(is_due(2, 59), Some(2));
        assert_eq!(
            [is_due(1, 60), is_due(2, 118), is_due(1, 119)],
            [Some(0), Some(0), None]
        );
        assert_eq!(is_due(1, 120), Some(1));
    }

    #[test]
    fn a_flood_of_keys_takes_no_more_memory_and_is_logged_no_more() {
        let (mut logged, start) = (Logged::default(), Instant::now());
        let due = (0..100_000).filter(|key| logged.is_due(*key, PERIOD, start).is_some());
        assert_eq!(due.count(), MAX_KEYS);
        assert_eq!(logged.keys.len(), MAX_KEYS);
        assert!(logged.keys.capacity() <= 2 * MAX_KEYS);
        let left_out = 100_000 - MAX_KEYS as u64;
        assert_eq!(logged.is_due(7, PERIOD, start + PERIOD), Some(left_out));
        assert_eq!(logged.keys.len(), 1);
    }

    #[test]
    fn a_clock_that_steps_back_logs_nothing_twice() {
        let (mut logged, start) = (Logged::default(), Instant::now());
        assert_eq!(logged.is_due(1, PERIOD, start + PERIOD), Some(0));
        assert_eq!(logged.is_due(1, PERIOD, start), None);
    }

    #[test]
    fn a_key_stays_on_its_line() {
        struct Hostile(&'static str);

        impl Debug for Hostile {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }

        for (key, line) in [
            ("a\nINFO b", "a\\nINFO b"),
            ("\r\t\0\u{1b}[31m\u{7f}", "\\r\\t\\u{0}\\u{1b}[31m\\u{7f}"),
            (
                "\u{85}\u{2028}\u{2029}\u{202e}",
                "\\u{85}\\u{2028}\\u{2029}\\u{202e}",
            ),
            ("é 日本 \"q\"", "é 日本 \"q\""),
        ] {
            assert_eq!(printed(&Hostile(key)), line);
            assert!(
                printed(&key)
                    .chars()
                    .all(|character| !character.is_control())
            );
        }
        assert_eq!(one_line(&"x".repeat(MAX_KEY_LEN)), "x".repeat(MAX_KEY_LEN));
        let long = one_line(&"\n".repeat(10 * MAX_KEY_LEN));
        assert_eq!(long, "\\n".repeat(MAX_KEY_LEN) + "…");
    }
}
