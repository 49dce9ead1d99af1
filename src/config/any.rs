//! An algorithm that a file chooses.

use std::time::Duration;

use crate::{
    algorithm::{Algorithm, Policy, Status, described::Described, every_rule},
    clock::Timestamp,
    decision::LazyStatus,
    error::ConfigError,
};

use super::algorithm::{AlgorithmMap, Choice};

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

        const CHOICES: &[Choice<AnyAlgorithm>] = &[$(
            Choice::of::<$Rule>(|given| <$Rule>::build(given).map(AnyAlgorithm::$Kind))
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
    pub(crate) fn named(self, name: &str) -> Result<Self, ConfigError> {
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

/// Reads an algorithm from a map. `of` says what the map belongs to, for messages.
pub(crate) fn any_algorithm(of: &str) -> AlgorithmMap<'_, AnyAlgorithm> {
    let choices = CHOICES;
    AlgorithmMap { of, choices }
}
