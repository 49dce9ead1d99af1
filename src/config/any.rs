//! An algorithm that a file chooses.

use serde::{Deserialize, Deserializer};

use crate::{
    algorithm::{Algorithm, described::Described, setters::Named},
    error::ConfigError,
};

use super::algorithm::{Choice, read};

/// Makes an enum each of these algorithms and of their states.
macro_rules! any {
    ($($can:ident $Kind:ident: $Rule:ty),+ $(,)?) => {
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
            Choice::of::<$Rule>(|given| <$Rule>::read(given).map(AnyAlgorithm::$Kind))
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

        /// Runs an expression with the algorithm, whichever it is. In the expression `Same` makes
        /// an `AnyAlgorithm` of one of its type, and `Kept` an `AnyState` of a state of it.
        macro_rules! with_algorithm {
            ($any:expr, |$rule:ident| $do:expr) => {
                match $any {
                    $($crate::config::AnyAlgorithm::$Kind($rule) => {
                        #[allow(unused_imports, reason = "not every expression makes one")]
                        use $crate::config::{AnyAlgorithm::$Kind as Same, AnyState::$Kind as Kept};
                        $do
                    })+
                }
            };
        }
        pub(crate) use with_algorithm;

        /// The same with a state of the algorithm: a store in memory has a table for each, so no
        /// other one is there.
        macro_rules! with_state {
            ($any:expr, $state:expr, |$rule:ident, $kept:ident| $do:expr) => {
                $crate::config::with_algorithm!($any, |$rule| match $state {
                    Kept($kept) => $do,
                    _ => unreachable!("a state of another algorithm"),
                })
            };
        }
        pub(crate) use with_state;
    };
}

every_rule!(any);

impl AnyAlgorithm {
    pub(crate) fn named(self, name: &str) -> Result<Self, ConfigError> {
        with_algorithm!(self, |rule| rule.try_named(name).map(Same))
    }

    pub(crate) fn shadow(self) -> Self {
        with_algorithm!(self, |rule| Same(rule.shadow()))
    }
}

impl<'de> Deserialize<'de> for AnyAlgorithm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, CHOICES)
    }
}
