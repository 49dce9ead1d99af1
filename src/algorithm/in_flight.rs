//! Requests in flight. In memory the places that are taken are counted; over Redis each process has
//! a lease, see `in_flight.lua`.

use std::time::Duration;

use crate::{
    algorithm::{Ending, KeyLimit, Limit, Policy, Script, ScriptReply, Scripted, limit::OneKey},
    clock::Timestamp,
    decision::{Counts, Judgement, PolicyDecision, Status},
    error::{ConfigError, or_panic},
};

use super::{
    described::{Described, Field, Given, Kind, SpanText},
    setters::named,
    settled::{DEFAULT_HELD_AT_MOST_MICROS, held_at_most_micros},
};

/// If it were shorter, a renewal that is a little late would lose places.
const MIN_HELD_AT_MOST_MICROS: u64 = 100_000;

/// Lets a request through while fewer than n of its key are in flight, and answers it with 429
/// otherwise.
///
/// Each request takes one place, whatever it costs (one of cost 0 takes none), and gives it back
/// when it has ended: in a [layer](crate::RateLimitLayer) when the body of its response has ended,
/// or was dropped because the caller hung up, or when its handler has panicked, failed or was
/// dropped before that. Elsewhere [`RateLimiter::hold`](crate::RateLimiter::hold) takes a place,
/// and its [`Hold`](crate::Hold) gives it back when it is settled or dropped. A `check` could not
/// give it back: such a program does not build.
///
/// - **Bound**: at most n requests of a key are in flight at any instant, on all machines together.
///   n is chosen for each request, where plans differ. With an n of 0 nothing is let through.
/// - **Waits**: nobody knows when a request ends, so a refusal has no `Retry-After`, and yet
///   [`never_fits`](crate::Decision::never_fits) is `false`. The fields say
///   `qu="concurrent-requests"`.
/// - **Memory**: 32 bytes per key.
/// - **Not for** a rate: a caller whose requests end at once may send any number of them. Put both
///   into a tuple: `(InFlight::new(5), TokenBucket::new(quota))`.
///
/// ![Four at once, each of which runs for 300 ms: the next goes when one has ended][in_flight]
///
/// **Bodies** are axum's, tonic's, or a boxed one of `http-body-util`: they are boxed once more, to
/// give the place back at their end. A body that is whole in memory (`Full`, `String`) has ended
/// when the response is there.
///
/// **Upgrades**: the body of a 101 ends at once. A WebSocket stays in flight if the handler takes
/// the [`Hold`](crate::Hold) from the extensions of its request and moves it into the task of the
/// socket: the place is given back when the last clone is dropped.
///
/// **In memory** a place is kept for as long as it is taken, however long. While a store is full of
/// live keys, new keys [share n places](crate::store::LocalStore).
///
/// **Over Redis** places outlive their process for at most
/// [`held_at_most`](Self::held_at_most), and then come free; they are renewed while it lives.
///
/// Source: the semaphore of E. W. Dijkstra (EWD 35, 1962), with a count for each key; the names of
/// its fields are those of draft-ietf-httpapi-ratelimit-headers-11.
///
/// # Example: two at once
///
/// ```
/// use tollgate::{RateLimiter, algorithm::InFlight, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limiter = RateLimiter::new(InFlight::new(2), LocalStore::new());
/// let first = limiter.hold("bob", 1).await?.expect("it is the first");
/// let _second = limiter.hold("bob", 1).await?.expect("it is the second");
///
/// let refused = limiter.hold("bob", 1).await?.unwrap_err();
/// assert_eq!((refused.retry_after(), refused.never_fits()), (None, false));
///
/// drop(first);
/// assert_eq!(limiter.peek("bob").await?.remaining(), 1);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
///
/// # Example: a check has nothing that would give its place back
///
/// ```compile_fail,E0080
/// use tollgate::{RateLimiter, algorithm::InFlight, store::LocalStore};
///
/// let limiter = RateLimiter::new(InFlight::new(2), LocalStore::new());
/// let _ = limiter.check("bob").now();
/// ```
///
/// # Example: in a layer
///
/// ```
/// use axum::{Router, body::Body, http::Request, routing::get};
/// use tollgate::{RateLimitLayer, algorithm::InFlight, key::Global, store::LocalStore};
/// use tower::ServiceExt;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limit = RateLimitLayer::new(InFlight::new(1), LocalStore::new(), Global);
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
/// let request = || Request::get("/").body(Body::empty()).unwrap();
///
/// let response = app.clone().oneshot(request()).await.unwrap();
/// let refused = app.clone().oneshot(request()).await.unwrap();
/// assert_eq!(refused.status(), 429, "the body of the first one has not ended");
/// let policy = &refused.headers()["ratelimit-policy"];
/// assert_eq!(policy, r#""in-flight-1";q=1;qu="concurrent-requests""#);
///
/// drop(response);
/// assert_eq!(app.oneshot(request()).await.unwrap().status(), 200);
/// # });
/// ```
#[doc = include_str!("../docs/pictures/in_flight.md")]
#[derive(Debug, Clone)]
pub struct InFlight {
    policy: Policy,
    max: u64,
    held_at_most_micros: u64,
}

/// The places of a key that are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Places {
    /// When the first of them was taken: an admission is known by it, so that one of before a reset
    /// gives no place of others back.
    since_micros: u64,
    taken: u64,
    /// What was taken in the bucket that new keys share: no admission gives it back here.
    inherited: u64,
    inherited_until_micros: u64,
}

/// The places right after a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacesSnapshot {
    taken: u64,
    judgement: Judgement,
    /// By what the admission is known; 0 if it took no place.
    since_micros: u64,
}

impl Places {
    /// How many are taken in all.
    fn taken(&self, now: Timestamp) -> u64 {
        match now.as_micros() < self.inherited_until_micros {
            true => self.taken + self.inherited,
            false => self.taken,
        }
    }
}

named!(InFlight, policy);

impl Limit for InFlight {
    type Snapshot = PlacesSnapshot;
    type Keys = OneKey;

    const IN_FLIGHT: bool = true;

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        output(&self.policy);
    }

    fn describe(&self, snapshot: &PlacesSnapshot, output: &mut dyn FnMut(PolicyDecision)) {
        let remaining = self.max.saturating_sub(snapshot.taken);
        let status = Status {
            judgement: snapshot.judgement,
            ..Status::of(self.max, remaining, 0, true, |_| None)
        };
        output(PolicyDecision::new(&self.policy, status).counting(Counts::InFlight));
    }
}

impl KeyLimit for InFlight {
    type State = Places;

    fn judge(&self, places: &Places, cost: u32, now: Timestamp) -> bool {
        cost == 0 || places.taken(now) < self.max
    }

    /// Takes a place.
    fn step(&self, places: &mut Places, cost: u32, now: Timestamp) -> (bool, PlacesSnapshot) {
        let admitted = self.judge(places, cost, now);
        if admitted && cost > 0 {
            if places.taken == 0 {
                places.since_micros = now.as_micros().max(1);
            }
            places.taken += 1;
        }
        (admitted, self.snapshot(places, cost, admitted, now))
    }

    /// Changes nothing: a place is taken by a request.
    fn debit(&self, _places: &mut Places, _units: u64, _now: Timestamp) {}

    fn holds(&self, places: &Places, admission: &PlacesSnapshot) -> bool {
        places.taken > 0
            && admission.since_micros > 0
            && admission.since_micros == places.since_micros
    }

    fn end(
        &self,
        places: &mut Places,
        admission: &PlacesSnapshot,
        ending: Ending,
        _now: Timestamp,
    ) {
        let is_over = !matches!(ending, Ending::Settled { .. });
        if is_over && self.holds(places, admission) {
            places.taken -= 1;
        }
    }

    /// Changes nothing: a place is given back by its request.
    fn refund(&self, _places: &mut Places, _cost: u32, _now: Timestamp) {}

    fn is_fresh(&self, places: &Places, now: Timestamp) -> bool {
        places.taken(now) == 0
    }

    fn fresh(&self, _at: Timestamp) -> Places {
        Places::default()
    }

    /// The key owes the places of the shared bucket too, but for no longer than requests run.
    fn inherit(&self, shared: &Places, now: Timestamp) -> Places {
        Places {
            inherited: shared.taken(now),
            inherited_until_micros: now.as_micros().saturating_add(self.held_at_most_micros),
            ..self.fresh(now)
        }
    }

    fn snapshot(
        &self,
        places: &Places,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> PlacesSnapshot {
        let has_a_place = admitted && cost > 0;
        PlacesSnapshot {
            taken: places.taken(now),
            judgement: match admitted {
                true => Judgement::Admitted,
                false if self.max == 0 => Judgement::NeverFits,
                false => Judgement::RefusedUntilOneEnds,
            },
            since_micros: if has_a_place { places.since_micros } else { 0 },
        }
    }

    fn refused_for(&self, wait: Duration, _now: Timestamp) -> PlacesSnapshot {
        PlacesSnapshot {
            taken: self.max,
            judgement: Judgement::RefusedForMicros(wait.as_micros() as u64),
            since_micros: 0,
        }
    }
}

impl Scripted for InFlight {
    /// A store adds what it counts itself: see `in_flight.lua`.
    fn script() -> Script {
        Script::new("in_flight", include_str!("in_flight.lua"))
            .parameters(&["max", "held_at_most"])
            .state(&["taken", "bytes"])
            .with(|member| {
                member.extra = &["taken_before"];
                member.in_flight = true;
                member.per_request = true;
                member.keeps_refunds = true;
            })
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.max);
        output(self.held_at_most_micros);
    }

    fn admission(&self, admission: &Self::Snapshot, output: &mut dyn FnMut(u64)) {
        output(u64::from(admission.since_micros > 0));
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Self::State> {
        Some(Places {
            since_micros: at.as_micros().max(1),
            taken: *numbers.first()?,
            ..self.fresh(at)
        })
    }

    fn numbers(&self, places: &Places, at: Timestamp, output: &mut dyn FnMut(u64)) {
        output(places.taken(at));
        // No process has a lease.
        output(0);
    }

    fn read(&self, reply: &mut ScriptReply) -> Option<Self::Snapshot> {
        let member = reply.next()?;
        let numbers = if member.charged {
            &member.numbers
        } else {
            &member.extra
        };
        let state = self.state(member.now, numbers)?;
        Some(self.snapshot(&state, member.cost, member.admitted, member.now))
    }
}

impl InFlight {
    /// At most this many requests of a key at once.
    #[must_use]
    pub fn new(requests: u64) -> Self {
        Self {
            policy: Policy::of_number("in-flight", requests),
            max: requests,
            held_at_most_micros: DEFAULT_HELD_AT_MOST_MICROS,
        }
    }

    /// How long a process that no longer renews its places keeps them, over Redis; 60 seconds
    /// unless said otherwise.
    ///
    /// A place comes free at most that long after its process was killed or cut off. While the
    /// process lives it says four times in that time how many requests of each key are in flight. A
    /// process that is stopped for less than three quarters of that time loses no place. Where it
    /// cannot say so for longer, its requests go on, but others may take their places; once it is
    /// heard again they count, and nobody is let in until fewer than n are in flight. A node of a
    /// cluster that hangs or dies costs only the places that it has.
    ///
    /// In memory nothing is renewed, and nothing expires.
    ///
    /// # Panics
    ///
    /// If the duration is shorter than 100 ms, or longer than 35 years.
    #[must_use]
    #[track_caller]
    pub fn held_at_most(self, duration: Duration) -> Self {
        or_panic(self.try_held_at_most(duration))
    }

    fn try_held_at_most(mut self, duration: Duration) -> Result<Self, ConfigError> {
        self.held_at_most_micros = held_at_most_micros(duration, MIN_HELD_AT_MOST_MICROS)?;
        Ok(self)
    }
}

impl Described for InFlight {
    const NAME: &'static str = "in-flight";

    fn fields() -> Vec<Field> {
        vec![
            Field::new("requests", Kind::AtOnce, "5"),
            Field::new("held-at-most", Kind::Span, "60s").with_default("60s"),
        ]
    }

    fn build(given: &Given) -> Result<Self, String> {
        let rule = Self::new(given.needed("requests")?);
        given.set(rule, "held-at-most", |rule, SpanText(held)| {
            rule.try_held_at_most(held)
        })
    }
}
