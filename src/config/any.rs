//! An algorithm that a file chooses.

use std::{fmt, time::Duration};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::{
    algorithm::{self, Algorithm, InFlight, Policy, Status},
    clock::Timestamp,
    decision::LazyStatus,
    error::ConfigError,
};

use super::{
    fields::{FieldList, Fields, FromFields, Reason},
    rules::every_rule,
};

/// Makes an enum each of these algorithms and of their states.
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
        }

        /// Runs an expression with the held algorithm, whichever it is; and with its state. `wrap`
        /// makes one of the enums of its own type. Each algorithm has its own buckets, so a state
        /// always fits it: the last expression is for one that does not.
        macro_rules! with_algorithm {
            ($any:expr, |$rule:ident| $do:expr) => {
                match $any {
                    $($crate::config::AnyAlgorithm::$Kind($rule) => $do,)+
                }
            };
            ($any:expr, |$rule:ident, $wrap:ident: $Wrap:ident| $do:expr) => {
                match $any {
                    $($crate::config::AnyAlgorithm::$Kind($rule) => {
                        let $wrap = $Wrap::$Kind;
                        $do
                    })+
                }
            };
            ($any:expr, $Of:ident($of:expr) => |$rule:ident, $own:ident| $do:expr, $or:expr) => {
                match ($any, $of) {
                    $(($crate::config::AnyAlgorithm::$Kind($rule), $Of::$Kind($own)) => $do,)+
                    _ => $or,
                }
            };
            ($any:expr, $Of:ident($of:expr) => |$rule:ident, $own:ident, $wrap:ident: $Wrap:ident| $do:expr, $or:expr) => {
                match ($any, $of) {
                    $(($crate::config::AnyAlgorithm::$Kind($rule), $Of::$Kind($own)) => {
                        let $wrap = $Wrap::$Kind;
                        $do
                    })+
                    _ => $or,
                }
            };
        }
        #[cfg(feature = "redis")]
        pub(crate) use with_algorithm;
    };
}

every_rule!(any);

impl AnyAlgorithm {
    fn named(self, name: &str) -> Result<Self, ConfigError> {
        with_algorithm!(self, |rule, wrap: Self| rule.try_named(name).map(wrap))
    }
}

impl Algorithm for AnyAlgorithm {
    type State = AnyState;

    fn policy(&self) -> &Policy {
        with_algorithm!(self, |rule| rule.policy())
    }

    fn fresh(&self, at: Timestamp) -> AnyState {
        with_algorithm!(self, |rule, wrap: AnyState| wrap(rule.fresh(at)))
    }

    #[inline]
    fn judge(&self, of: &AnyState, cost: u32, now: Timestamp) -> bool {
        with_algorithm!(self, AnyState(of) => |rule, state| rule.judge(state, cost, now), false)
    }

    fn debit(&self, of: &mut AnyState, units: u64, now: Timestamp) {
        with_algorithm!(self, AnyState(of) => |rule, state| rule.debit(state, units, now), ());
    }

    fn refund(&self, of: &mut AnyState, cost: u32, now: Timestamp) {
        with_algorithm!(self, AnyState(of) => |rule, state| rule.refund(state, cost, now), ());
    }

    #[inline]
    fn is_fresh(&self, of: &AnyState, now: Timestamp) -> bool {
        with_algorithm!(self, AnyState(of) => |rule, state| rule.is_fresh(state, now), false)
    }

    #[inline]
    fn status(&self, of: &AnyState, cost: u32, admitted: bool, now: Timestamp) -> Status {
        with_algorithm!(
            self,
            AnyState(of) => |rule, state| rule.status(state, cost, admitted, now),
            self.status(&self.fresh(now), cost, admitted, now)
        )
    }

    #[inline]
    fn lazy_status(&self, of: &AnyState, cost: u32, admitted: bool, now: Timestamp) -> LazyStatus {
        with_algorithm!(
            self,
            AnyState(of) => |rule, state| rule.lazy_status(state, cost, admitted, now),
            LazyStatus::Known(self.status(of, cost, admitted, now))
        )
    }

    #[inline]
    fn step(&self, of: &mut AnyState, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        with_algorithm!(
            self,
            AnyState(of) => |rule, state| rule.step(state, cost, now),
            (false, self.lazy_status(&self.fresh(now), cost, false, now))
        )
    }

    #[inline]
    fn delay(&self, status: &LazyStatus) -> Duration {
        with_algorithm!(self, |rule| rule.delay(status))
    }

    fn inherit(&self, of: &AnyState, now: Timestamp) -> AnyState {
        with_algorithm!(
            self,
            AnyState(of) => |rule, shared, wrap: AnyState| wrap(rule.inherit(shared, now)),
            self.fresh(now)
        )
    }

    fn withdraw(&self, of: &mut AnyState, admission: &LazyStatus, cost: u32, now: Timestamp) {
        with_algorithm!(
            self,
            AnyState(of) => |rule, state| rule.withdraw(state, admission, cost, now),
            ()
        );
    }
}

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
