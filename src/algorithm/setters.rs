//! The setters that every algorithm has.

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
        $crate::algorithm::setters::named!(
            $crate::algorithm::PerRequest<$rule> $(where $Of)?,
            0 . $($policy)+
        );

        impl $(<$Of>)? $rule {
            /// Charges each request 1, whatever it costs; a cost of 0 stays 0. See
            /// [`PerRequest`](crate::algorithm::PerRequest).
            #[must_use]
            pub fn per_request(mut self) -> $crate::algorithm::PerRequest<Self> {
                self.$($policy)+ = self.$($policy)+.per_request();
                $crate::algorithm::PerRequest(self)
            }
        }
    };
}
pub(super) use setters;

/// Adds those that it has when it counts requests, too, and that `InFlight` has.
macro_rules! named {
    ($rule:ty $(where $Of:ident)?, $($policy:tt)+) => {
        impl $(<$Of>)? $rule {
            /// Names the policy. A named policy keeps its buckets when its numbers change.
            ///
            /// # Panics
            ///
            /// Where [`try_named`](Self::try_named) fails, with its error as the message.
            #[must_use]
            #[track_caller]
            pub fn named(self, name: impl AsRef<str>) -> Self {
                self.try_named(name).unwrap_or_else(|error| panic!("{error}"))
            }

            /// Names the policy. A named policy keeps its buckets when its numbers change.
            ///
            /// # Errors
            ///
            /// The name is not 1 to 64 of the characters `A-Z a-z 0-9 _ . -`.
            pub fn try_named(
                mut self,
                name: impl AsRef<str>,
            ) -> Result<Self, $crate::error::ConfigError> {
                self.$($policy)+ = self.$($policy)+.named(name)?;
                Ok(self)
            }

            /// Rehearses the limit: it counts, and neither refuses nor delays. See
            /// [`Shadow`](crate::algorithm::Shadow).
            #[must_use]
            pub const fn shadow(self) -> $crate::algorithm::Shadow<Self> {
                $crate::algorithm::Shadow::of(self)
            }
        }
    };
}
pub(super) use named;
