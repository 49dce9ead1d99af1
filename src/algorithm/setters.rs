//! The setters that every algorithm has.

use crate::{error::ConfigError, policy::Policy};

/// An algorithm of this crate, whose policy can be named.
pub trait Named: Sized {
    fn policy_mut(&mut self) -> &mut Policy;

    fn try_named(mut self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        let policy = self.policy_mut();
        *policy = policy.clone().named(name)?;
        Ok(self)
    }
}

/// Adds them to a type whose policy is in this field, and which is generic over a type of this
/// name; and `settled` to one that is additive. (One function cannot be a method of several types.)
macro_rules! setters {
    (additive $rule:ident, $($policy:tt)+) => {
        $crate::algorithm::setters::setters!($rule, $($policy)+);

        impl $rule {
            /// Holds each request's cost while it runs, and charges what it has spent: see
            /// [`Settled`](crate::algorithm::Settled).
            #[must_use]
            pub const fn settled(self) -> $crate::algorithm::Settled<Self> {
                $crate::algorithm::Settled::new(self)
            }
        }
    };
    ($rule:ty $(where $Of:ident)?, $($policy:tt)+) => {
        $crate::algorithm::setters::named!($rule $(where $Of)?, $($policy)+);

        impl $(<$Of>)? $rule {
            /// Charges each request 1, whatever it costs; a cost of 0 stays 0. See
            /// [`Policy::per_request`](crate::algorithm::Policy::per_request).
            #[must_use]
            pub fn per_request(mut self) -> Self {
                self.$($policy)+ = self.$($policy)+.per_request();
                self
            }

            /// A dry run of the limit: it counts, and neither refuses nor delays. See
            /// [`Policy::shadow`](crate::algorithm::Policy::shadow).
            #[must_use]
            pub fn shadow(mut self) -> Self {
                self.$($policy)+ = self.$($policy)+.shadow();
                self
            }
        }
    };
}
pub(super) use setters;

/// Adds those that `InFlight` has, too.
macro_rules! named {
    ($rule:ty $(where $Of:ident)?, $($policy:tt)+) => {
        impl $(<$Of>)? $crate::algorithm::setters::Named for $rule {
            fn policy_mut(&mut self) -> &mut $crate::algorithm::Policy {
                &mut self.$($policy)+
            }
        }

        impl $(<$Of>)? $rule {
            /// Names the policy. A named policy keeps its buckets when its numbers change.
            ///
            /// # Panics
            ///
            /// The name is not 1 to 64 of the characters `A-Z a-z 0-9 _ . -`.
            #[must_use]
            #[track_caller]
            pub fn named(self, name: impl AsRef<str>) -> Self {
                $crate::error::or_panic($crate::algorithm::setters::Named::try_named(self, name))
            }
        }
    };
}
pub(super) use named;
