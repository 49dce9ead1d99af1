//! What `TokenBucket`, `LeakyBucket` and `Gcra` have in common: they are three doors to one rule.

/// Adds it to one of them: one function cannot be a method of several types.
macro_rules! door {
    ($door:ident) => {
        impl $crate::algorithm::same_rule::SameRule for $door {
            type Rule = $crate::algorithm::debt_bucket::DebtBucket;

            #[inline]
            fn rule(&self) -> &Self::Rule {
                &self.0
            }
        }

        impl $crate::algorithm::same_rule::SameAdditiveRule for $door {}

        impl $door {
            /// Delays what comes on top of the burst until its turn, instead of refusing it;
            /// refuses it only if the wait would be longer than this.
            ///
            /// See [`WaitAtMost`](crate::algorithm::WaitAtMost).
            ///
            /// # Panics
            ///
            /// Where [`try_wait_at_most`](Self::try_wait_at_most) fails, with its error as the
            /// message.
            #[must_use]
            #[track_caller]
            pub fn wait_at_most(
                self,
                wait: std::time::Duration,
            ) -> $crate::algorithm::WaitAtMost<Self> {
                self.try_wait_at_most(wait)
                    .unwrap_or_else(|error| panic!("{error}"))
            }

            /// Delays what comes on top of the burst until its turn, instead of refusing it;
            /// refuses it only if the wait would be longer than this.
            ///
            /// # Errors
            ///
            /// The wait is so long that no tick can count it exactly.
            pub fn try_wait_at_most(
                self,
                wait: std::time::Duration,
            ) -> Result<$crate::algorithm::WaitAtMost<Self>, $crate::error::ConfigError> {
                $crate::algorithm::WaitAtMost::of(&self.0, wait)
            }

            /// Holds each request's cost while it runs, and charges what it has spent: see
            /// [`Settled`](crate::algorithm::Settled).
            #[must_use]
            pub const fn settled(self) -> $crate::algorithm::Settled<Self> {
                $crate::algorithm::Settled::new(self)
            }
        }
    };
}
pub(super) use door;
