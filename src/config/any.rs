//! An algorithm that a file chooses.

use std::{fmt, time::Duration};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::{
    algorithm::{self, Algorithm, InFlight, PolicyId},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
    error::ConfigError,
};

use super::{
    fields::{FieldList, Fields, FromFields, Reason},
    rules::every_rule,
};

/// Makes an enum each of these algorithms, of their states and of their snapshots. The enum
/// implements `Algorithm` by the algorithm that it holds.
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

        /// A snapshot of one of them.
        #[derive(Clone)]
        pub(crate) enum AnySnapshot {
            $($Kind(<$Rule as Algorithm>::Snapshot)),+
        }

        const KINDS: &[Kind] = &[$(
            Kind {
                name: <$Rule>::NAME,
                fields: <$Rule>::FIELDS,
                build: |fields| <$Rule>::build(fields).map(AnyAlgorithm::$Kind),
            }
        ),+];

        impl AnyAlgorithm {
            /// The number of the algorithm in the list.
            pub(crate) fn number(&self) -> u64 {
                enum Number {
                    $($Kind),+
                }

                match self {
                    $(Self::$Kind(_) => Number::$Kind as u64),+
                }
            }

            fn named(self, name: &str) -> Result<Self, ConfigError> {
                match self {
                    $(Self::$Kind(rule) => rule.try_named(name).map(Self::$Kind)),+
                }
            }
        }

        // Each algorithm has its own buckets, so a state or snapshot always fits the algorithm. The
        // arms for one that does not fit refuse, or do nothing.
        impl Algorithm for AnyAlgorithm {
            type State = AnyState;
            type Snapshot = AnySnapshot;

            fn policy_id(&self) -> PolicyId {
                match self {
                    $(Self::$Kind(rule) => rule.policy_id()),+
                }
            }

            fn fresh(&self, at: Timestamp) -> AnyState {
                match self {
                    $(Self::$Kind(rule) => AnyState::$Kind(rule.fresh(at))),+
                }
            }

            #[inline]
            fn judge(&self, state: &AnyState, cost: u32, now: Timestamp) -> bool {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => rule.judge(state, cost, now),)+
                    _ => false,
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
            fn step(&self, state: &mut AnyState, cost: u32, now: Timestamp) -> (bool, AnySnapshot) {
                match (self, state) {
                    $((Self::$Kind(rule), AnyState::$Kind(state)) => {
                        let (admitted, snapshot) = rule.step(state, cost, now);
                        (admitted, AnySnapshot::$Kind(snapshot))
                    })+
                    _ => (false, self.snapshot(&self.fresh(now), cost, false, now)),
                }
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

        /// Runs an expression with the held algorithm, whichever it is; `$wrap` makes an
        /// [`AnySnapshot`] of its snapshot. Or with an algorithm and a snapshot of it.
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

every_rule!(any);

/// Reads an algorithm and its name from a map. The text says what the map belongs to, for messages.
pub(crate) struct AnyOf<'a>(pub(crate) &'a str);

/// An algorithm, and its name in the file.
pub(crate) struct Read {
    algorithm: AnyAlgorithm,
    name: Option<String>,
}

impl Read {
    pub(crate) fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// The algorithm with its own name, or with this one if it has none; and that name.
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

/// One of the algorithms, as it is built.
struct Kind {
    name: &'static str,
    fields: &'static [&'static str],
    build: fn(&Fields) -> Result<AnyAlgorithm, Reason>,
}

impl Kind {
    /// The one that these fields name. Of two with the same name, one has callers that wait.
    fn of(fields: &Fields) -> Result<&'static Self, Reason> {
        let Some(name) = fields.algorithm.as_deref() else {
            let all = all_names();
            return Err(Reason(format!("the limit needs `algorithm`, one of {all}")));
        };
        let named = || KINDS.iter().filter(|kind| kind.name == name);
        let wait = fields.wait_at_most.is_some();
        let kind = named().find(|kind| kind.fields.contains(&"wait-at-most") == wait);
        // Where nobody can wait, the field is the mistake.
        kind.or_else(|| named().next()).ok_or_else(|| {
            Reason(match name {
                InFlight::NAME => {
                    format!("`algorithm` is {name:?}, which needs a layer of its own")
                }
                _ => format!("`algorithm` is {name:?}, and not one of {}", all_names()),
            })
        })
    }
}

/// The algorithm of these fields, which has these names.
fn build(fields: &Fields, names: &[String]) -> Result<AnyAlgorithm, Reason> {
    let kind = Kind::of(fields)?;
    let is_own = |name: &&String| {
        ["algorithm", "name"].contains(&&***name) || kind.fields.contains(&&***name)
    };
    match names.iter().find(|name| !is_own(name)) {
        Some(name) => Err(Reason(format!(
            "`{name}` is not a field of a {}, which has {}",
            kind.name,
            FieldList(kind.fields)
        ))),
        None => (kind.build)(fields),
    }
}

/// What a file can name, for messages.
fn all_names() -> String {
    let mut names = Vec::new();
    for kind in KINDS {
        let name = format!("{:?}", kind.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
