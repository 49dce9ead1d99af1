//! What `TokenBucket`, `LeakyBucket` and `Gcra` have in common: they are three doors to one rule.

/// Makes one of them a door: its name, what it is, and the setter of its burst with what that is.
/// (One function cannot be a method of several types.)
macro_rules! door {
    ($door:ident, $name:literal, $is:literal, $burst:ident, $try_burst:ident, $burst_is:literal) => {
        $crate::algorithm::setters::setters!(additive $door, 0.policy);
        $crate::algorithm::door::burst!($door, $burst, $try_burst, $burst_is);

        impl $crate::algorithm::same_rule::SameRule for $door {
            type Rule = $crate::algorithm::debt_bucket::DebtBucket;

            #[inline]
            fn rule(&self) -> &Self::Rule {
                &self.0
            }
        }

        impl $crate::algorithm::same_rule::SameAdditiveRule for $door {}

        impl $door {
            #[doc = $is]
            ///
            /// # Panics
            ///
            /// Where [`try_new`](Self::try_new) fails, with its error as the message.
            #[track_caller]
            pub fn new(quota: $crate::quota::Quota) -> Self {
                $crate::error::or_panic(Self::try_new(quota))
            }

            #[doc = $is]
            ///
            /// # Errors
            ///
            /// The quota is so large that no tick can count it exactly.
            pub fn try_new(quota: $crate::quota::Quota) -> Result<Self, $crate::error::ConfigError> {
                $crate::algorithm::debt_bucket::DebtBucket::new($name, quota).map(Self)
            }

            /// Delays what comes on top of the burst until its turn, instead of refusing it;
            /// refuses it only if the wait would be longer than this.
            ///
            /// See [`WaitAtMost`](crate::algorithm::WaitAtMost).
            ///
            /// # Panics
            ///
            /// If the wait is so long that no tick can count it exactly.
            #[must_use]
            #[track_caller]
            pub fn wait_at_most(
                self,
                wait: std::time::Duration,
            ) -> $crate::algorithm::WaitAtMost<Self> {
                $crate::error::or_panic($crate::algorithm::WaitAtMost::of(&self.0, wait))
            }
        }

        impl $crate::algorithm::described::Described for $door {
            const NAME: &'static str = $name;

            fn fields() -> Vec<$crate::algorithm::described::Field> {
                use $crate::algorithm::described::{QUOTA, burst};
                vec![QUOTA, burst(stringify!($burst))]
            }

            fn build(given: &$crate::algorithm::described::Given) -> Result<Self, String> {
                let rule = given.make("quota", Self::try_new)?;
                given.set(rule, stringify!($burst), Self::$try_burst)
            }
        }
    };
}
pub(super) use door;

/// Adds the setters of its burst, under this name, to a bucket.
macro_rules! burst {
    ($bucket:ident, $burst:ident, $try_burst:ident, $is:literal) => {
        impl $bucket {
            #[doc = $is]
            ///
            /// With 0 every request is refused; with 1 they are let through one by one.
            ///
            /// # Panics
            ///
            #[doc = concat!("Where `", stringify!($try_burst), "` fails, with its error as the message.")]
            #[must_use]
            #[track_caller]
            pub fn $burst(self, units: u64) -> Self {
                $crate::error::or_panic(self.$try_burst(units))
            }

            #[doc = $is]
            ///
            /// # Errors
            ///
            /// It is so large that no tick can count it exactly.
            pub fn $try_burst(self, units: u64) -> Result<Self, $crate::error::ConfigError> {
                self.0.with_burst(units).map(Self)
            }
        }
    };
}
pub(super) use burst;
