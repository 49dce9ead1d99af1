//! An algorithm that a file chooses.

use std::{fmt, time::Duration};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::{
    algorithm::{
        Algorithm, ConfigId, FixedWindow, Gcra, LeakyBucket, LeakyBucketQueue, MinInterval,
        PolicyId, SlidingBuckets, SlidingLog, SlidingWindow, TokenBucket, WaitAtMost,
    },
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
    error::ConfigError,
};

use super::fields::{FieldList, Fields, FromFields, Reason};

/// Makes an enum of these algorithms, of their states and of their snapshots: it is the algorithm
/// that it holds.
macro_rules! any {
    ($($Kind:ident: $Rule:ty),+ $(,)?) => {
        /// One of the algorithms of this crate, as a file names it.
        #[derive(Debug, Clone)]
        pub(crate) enum AnyAlgorithm {
            $($Kind($Rule)),+
        }

        /// The state of a bucket under one of them.
        #[derive(Clone)]
        pub enum AnyState {
            $(
                /// The state of this algorithm.
                $Kind(<$Rule as Algorithm>::State)
            ),+
        }

        /// How a bucket stood under one of them.
        #[derive(Clone)]
        pub(crate) enum AnySnapshot {
            $($Kind(<$Rule as Algorithm>::Snapshot)),+
        }

        impl AnyAlgorithm {
            /// Which of the algorithms it is.
            pub(crate) fn number(&self) -> u64 {
                enum Number {
                    $($Kind),+
                }

                match self {
                    $(Self::$Kind(_) => Number::$Kind as u64),+
                }
            }

            /// A [step](Algorithm::step), and then what is made of it.
            ///
            /// It is made where the kind of the snapshot is known. As a value of its own a snapshot
            /// is moved from place to place: 45 instructions of a request by rules (bench
            /// `instructions`).
            #[inline(always)]
            pub(crate) fn step_then<T>(
                &self,
                state: &mut AnyState,
                (cost, now): (u32, Timestamp),
                then: impl FnOnce(bool, AnySnapshot) -> T,
            ) -> T {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => {
                        let (admitted, snapshot) = rule.step(state, cost, now);
                        then(admitted, AnySnapshot::$Kind(snapshot))
                    })+
                    _ => then(false, self.snapshot(&self.fresh(now), cost, false, now)),
                }
            }

            fn named(self, name: &str) -> Result<Self, ConfigError> {
                match self {
                    $(Self::$Kind(rule) => rule.try_named(name).map(Self::$Kind)),+
                }
            }
        }

        // A policy of another algorithm has buckets of its own, so the arms for a state or a
        // snapshot of another one are never taken: what they do is refuse, or nothing.
        impl Algorithm for AnyAlgorithm {
            type State = AnyState;
            type Snapshot = AnySnapshot;

            fn policy_id(&self) -> PolicyId {
                match self {
                    $(Self::$Kind(rule) => rule.policy_id()),+
                }
            }

            fn config_id(&self) -> ConfigId {
                match self {
                    $(Self::$Kind(rule) => rule.config_id()),+
                }
            }

            fn fresh(&self, at: Timestamp) -> AnyState {
                match self {
                    $(Self::$Kind(rule) => AnyState::$Kind(rule.fresh(at))),+
                }
            }

            #[inline]
            fn mend(&self, state: &mut AnyState, now: Timestamp) {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => rule.mend(state, now),)+
                    _ => {}
                }
            }

            #[inline]
            fn judge(&self, state: &AnyState, cost: u32, now: Timestamp) -> bool {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => rule.judge(state, cost, now),)+
                    _ => false,
                }
            }

            #[inline]
            fn charge(&self, state: &mut AnyState, cost: u32, now: Timestamp) {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => rule.charge(state, cost, now),)+
                    _ => {}
                }
            }

            fn debit(&self, state: &mut AnyState, units: u64, now: Timestamp) {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => rule.debit(state, units, now),)+
                    _ => {}
                }
            }

            fn refund(&self, state: &mut AnyState, cost: u32, now: Timestamp) {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => rule.refund(state, cost, now),)+
                    _ => {}
                }
            }

            #[inline]
            fn is_fresh(&self, state: &AnyState, now: Timestamp) -> bool {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => rule.is_fresh(state, now),)+
                    _ => false,
                }
            }

            fn inherit(&self, shared: &AnyState, now: Timestamp) -> AnyState {
                match (self, shared) {
                    $((Self::$Kind(rule), AnyState::$Kind(shared)) => {
                        AnyState::$Kind(rule.inherit(shared, now))
                    })+
                    _ => self.fresh(now),
                }
            }

            #[inline]
            fn snapshot(
                &self,
                state: &AnyState,
                cost: u32,
                admitted: bool,
                now: Timestamp,
            ) -> AnySnapshot {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => {
                        AnySnapshot::$Kind(rule.snapshot(state, cost, admitted, now))
                    })+
                    _ => self.snapshot(&self.fresh(now), cost, admitted, now),
                }
            }

            #[inline]
            fn look(&self, state: &AnyState, cost: u32, now: Timestamp) -> (bool, AnySnapshot) {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => {
                        let (admitted, snapshot) = rule.look(state, cost, now);
                        (admitted, AnySnapshot::$Kind(snapshot))
                    })+
                    _ => self.look(&self.fresh(now), cost, now),
                }
            }

            #[inline]
            fn step(&self, state: &mut AnyState, cost: u32, now: Timestamp) -> (bool, AnySnapshot) {
                self.step_then(state, (cost, now), |admitted, snapshot| (admitted, snapshot))
            }

            fn describe(&self, snapshot: &AnySnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
                match (self, snapshot) {
                    $((Self::$Kind(rule), AnySnapshot::$Kind(snapshot)) => {
                        rule.describe(snapshot, tell);
                    })+
                    _ => {}
                }
            }

            fn decision(&self, snapshot: &AnySnapshot) -> Decision {
                match (self, snapshot) {
                    $((Self::$Kind(rule), AnySnapshot::$Kind(snapshot)) => rule.decision(snapshot),)+
                    _ => Decision::of_no_policy(),
                }
            }

            #[inline]
            fn delay(&self, snapshot: &AnySnapshot) -> Duration {
                match (self, snapshot) {
                    $((Self::$Kind(rule), AnySnapshot::$Kind(snapshot)) => rule.delay(snapshot),)+
                    _ => Duration::ZERO,
                }
            }

            fn withdraw(
                &self,
                state: &mut AnyState,
                admission: &AnySnapshot,
                cost: u32,
                now: Timestamp,
            ) {
                match (self, state, admission) {
                    $((Self::$Kind(rule), AnyState::$Kind(state), AnySnapshot::$Kind(admission)) => {
                        rule.withdraw(state, admission, cost, now);
                    })+
                    _ => {}
                }
            }
        }

        /// Does the same with the algorithm that is held, whichever it is: `$wrap` makes an
        /// [`AnySnapshot`] of its snapshot. Or, of an algorithm and a snapshot of it, with both.
        #[cfg(feature = "redis")]
        macro_rules! with_algorithm {
            ($any:expr, |$rule:ident, $wrap:ident| $do:expr) => {
                match $any {
                    $($crate::config::AnyAlgorithm::$Kind($rule) => {
                        let $wrap = $crate::config::AnySnapshot::$Kind;
                        $do
                    })+
                }
            };
            ($any:expr, $snapshot:expr, |$rule:ident, $own:ident| $do:expr) => {
                match ($any, $snapshot) {
                    $((
                        $crate::config::AnyAlgorithm::$Kind($rule),
                        $crate::config::AnySnapshot::$Kind($own),
                    ) => $do,)+
                    _ => {}
                }
            };
        }
        #[cfg(feature = "redis")]
        pub(crate) use with_algorithm;
    };
}

any!(
    TokenBucket: TokenBucket,
    Gcra: Gcra,
    LeakyBucket: LeakyBucket,
    LeakyBucketQueue: LeakyBucketQueue,
    FixedWindow: FixedWindow,
    SlidingLog: SlidingLog,
    SlidingWindow: SlidingWindow,
    SlidingBuckets: SlidingBuckets,
    MinInterval: MinInterval,
    DelayingTokenBucket: WaitAtMost<TokenBucket>,
    DelayingGcra: WaitAtMost<Gcra>,
    DelayingLeakyBucket: WaitAtMost<LeakyBucket>,
);

/// Reads an algorithm from a map, with the name that it is given there. It holds what the map
/// belongs to, for messages.
pub(crate) struct AnyOf<'a>(pub(crate) &'a str);

/// An algorithm, and the name that it is given.
pub(crate) struct Read {
    algorithm: AnyAlgorithm,
    name: Option<String>,
}

impl Read {
    pub(crate) fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// The algorithm under its own name, or else this one, and that name.
    pub(crate) fn named(self, other: &str) -> Result<(AnyAlgorithm, String), ConfigError> {
        let name = self.name.unwrap_or_else(|| other.to_owned());
        Ok((self.algorithm.named(&name)?, name))
    }
}

impl<'de> DeserializeSeed<'de> for AnyOf<'_> {
    type Value = Read;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Read, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AnyOf<'_> {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}an algorithm as a map of its fields", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
        let (mut fields, mut names) = (Fields::default(), Vec::new());
        while let Some(field) = map.next_key::<String>()? {
            if !fields.read((self.0, &field), &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
            names.push(field);
        }
        match build(&fields, &names) {
            Ok(algorithm) => Ok(Read {
                algorithm,
                name: fields.name,
            }),
            Err(Reason(why)) => Err(de::Error::custom(format_args!("{}{why}", self.0))),
        }
    }
}

/// The algorithm of these fields, which has these names.
fn build(fields: &Fields, names: &[String]) -> Result<AnyAlgorithm, Reason> {
    use AnyAlgorithm as Any;

    let delays = fields.wait_at_most.is_some();
    match (fields.algorithm.as_deref(), delays) {
        (Some("token-bucket"), false) => of(fields, names).map(Any::TokenBucket),
        (Some("token-bucket"), true) => of(fields, names).map(Any::DelayingTokenBucket),
        (Some("gcra"), false) => of(fields, names).map(Any::Gcra),
        (Some("gcra"), true) => of(fields, names).map(Any::DelayingGcra),
        (Some("leaky-bucket"), false) => of(fields, names).map(Any::LeakyBucket),
        (Some("leaky-bucket"), true) => of(fields, names).map(Any::DelayingLeakyBucket),
        (Some("leaky-bucket-queue"), _) => of(fields, names).map(Any::LeakyBucketQueue),
        (Some("fixed-window"), _) => of(fields, names).map(Any::FixedWindow),
        (Some("sliding-log"), _) => of(fields, names).map(Any::SlidingLog),
        (Some("sliding-window"), _) => of(fields, names).map(Any::SlidingWindow),
        (Some("sliding-buckets"), _) => of(fields, names).map(Any::SlidingBuckets),
        (Some("min-interval"), _) => of(fields, names).map(Any::MinInterval),
        (Some("in-flight"), _) => Err(Reason(
            "`algorithm` is \"in-flight\", which is for a layer of its own".to_owned(),
        )),
        (Some(other), _) => Err(Reason(format!(
            "`algorithm` is {other:?}, and not one of {ALGORITHMS}"
        ))),
        (None, _) => Err(Reason(format!(
            "the limit needs `algorithm`, one of {ALGORITHMS}"
        ))),
    }
}

const ALGORITHMS: &str = "\"token-bucket\", \"gcra\", \"leaky-bucket\", \"leaky-bucket-queue\", \"fixed-window\", \
                          \"sliding-log\", \"sliding-window\", \"sliding-buckets\", \"min-interval\"";

fn of<R: FromFields>(fields: &Fields, names: &[String]) -> Result<R, Reason> {
    let is_own =
        |name: &&String| ["algorithm", "name"].contains(&&***name) || R::FIELDS.contains(&&***name);
    match names.iter().find(|name| !is_own(name)) {
        Some(name) => Err(Reason(format!(
            "`{name}` is not a field of a {}, which has {}",
            R::NAME,
            FieldList(R::FIELDS)
        ))),
        None => R::build(fields),
    }
}
