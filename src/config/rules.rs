use std::time::Duration;

use serde::{Deserialize, Deserializer, de::DeserializeSeed};

use crate::{
    algorithm::{
        FixedWindow, Gcra, InFlight, LeakyBucket, LeakyBucketQueue, MinInterval, SlidingBuckets,
        SlidingLog, SlidingWindow, TokenBucket, WaitAtMost,
    },
    error::ConfigError,
    quota::Quota,
};

use super::{
    algorithm::{AlgorithmFields, Fields, FromFields, Kind, in_field, required},
    fields::InMap,
};

/// Calls the macro `$then` with all algorithms that a file can choose, each as `Kind: its type`.
#[cfg(feature = "rules")]
macro_rules! every_rule {
    ($then:ident) => {
        $then!(
            TokenBucket: algorithm::TokenBucket,
            Gcra: algorithm::Gcra,
            LeakyBucket: algorithm::LeakyBucket,
            LeakyBucketQueue: algorithm::LeakyBucketQueue,
            FixedWindow: algorithm::FixedWindow,
            SlidingLog: algorithm::SlidingLog,
            SlidingWindow: algorithm::SlidingWindow,
            SlidingBuckets: algorithm::SlidingBuckets,
            MinInterval: algorithm::MinInterval,
            DelayingTokenBucket: algorithm::WaitAtMost<algorithm::TokenBucket>,
            DelayingGcra: algorithm::WaitAtMost<algorithm::Gcra>,
            DelayingLeakyBucket: algorithm::WaitAtMost<algorithm::LeakyBucket>,
        );
    };
}
#[cfg(feature = "rules")]
pub(super) use every_rule;

/// An algorithm: its name in the field `algorithm`, its fields beside that and `name`, and how it
/// is built from them.
macro_rules! rule {
    ($rule:ty, $name:literal, [$($field:literal),+], |$fields:ident| $build:expr) => {
        impl FromFields for $rule {
            const NAME: &'static str = $name;
            const FIELDS: &'static [&'static str] = &["algorithm", $($field,)+ "name"];

            fn unnamed($fields: &Fields) -> Result<Self, String> {
                $build
            }

            fn build(fields: &Fields) -> Result<Self, String> {
                let rule = Self::unnamed(fields)?;
                with("name", fields.name.as_deref(), rule, Self::try_named)
            }
        }

        #[doc = concat!("From a map of", $(" `", $field, "`,",)+ " and, if you like, `name` and `algorithm = \"", $name, "\"`.")]
        ///
        /// An unknown field, a missing one or one with a wrong value is an error that names it.
        impl<'de> Deserialize<'de> for $rule {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                const ONLY: &[Kind<$rule>] = &[Kind {
                    name: <$rule>::NAME,
                    fields: <$rule>::FIELDS,
                    build: <$rule>::build,
                }];
                let read = InMap(AlgorithmFields::new("", ONLY)).deserialize(deserializer);
                read.map(|(rule, _)| rule)
            }
        }
    };
}

rule!(TokenBucket, "token-bucket", ["quota", "burst"], |fields| {
    let rule = of_quota::<Self, _>(fields, Self::try_new)?;
    with("burst", fields.burst, rule, Self::try_burst)
});

rule!(Gcra, "gcra", ["quota", "burst"], |fields| {
    let rule = of_quota::<Self, _>(fields, Self::try_new)?;
    with("burst", fields.burst, rule, Self::try_burst)
});

rule!(
    LeakyBucket,
    "leaky-bucket",
    ["quota", "capacity"],
    |fields| leaky_bucket::<Self>(fields)
);

rule!(
    WaitAtMost<TokenBucket>,
    "token-bucket",
    ["quota", "burst", "wait-at-most"],
    |fields| waiting(fields, TokenBucket::try_wait_at_most)
);

rule!(
    WaitAtMost<Gcra>,
    "gcra",
    ["quota", "burst", "wait-at-most"],
    |fields| waiting(fields, Gcra::try_wait_at_most)
);

rule!(
    WaitAtMost<LeakyBucket>,
    "leaky-bucket",
    ["quota", "capacity", "wait-at-most"],
    |fields| waiting(fields, LeakyBucket::try_wait_at_most)
);

rule!(
    LeakyBucketQueue,
    "leaky-bucket-queue",
    ["quota", "capacity"],
    |fields| leaky_bucket::<Self>(fields).map(LeakyBucket::queue)
);

rule!(
    FixedWindow,
    "fixed-window",
    ["quota", "from-first-request"],
    |fields| {
        let rule = of_quota::<Self, _>(fields, Self::try_new)?;
        Ok(match fields.from_first_request {
            Some(true) => rule.from_first_request(),
            _ => rule,
        })
    }
);

rule!(SlidingLog, "sliding-log", ["quota"], |fields| {
    of_quota::<Self, _>(fields, Self::try_new)
});

rule!(SlidingWindow, "sliding-window", ["quota"], |fields| {
    of_quota::<Self, _>(fields, Self::try_new)
});

rule!(
    SlidingBuckets,
    "sliding-buckets",
    ["quota", "precision", "strict"],
    |fields| {
        let quota = required::<Self, _>(fields.quota, "quota")?;
        let precision = required::<Self, _>(fields.precision, "precision")?;
        let rule = Self::try_new(quota, precision);
        let field = match rule {
            Err(ConfigError::QuotaTooLarge { .. }) => "quota",
            _ => "precision",
        };
        let rule = rule.map_err(in_field(field))?;
        Ok(match fields.strict {
            Some(true) => rule.strict(),
            _ => rule,
        })
    }
);

rule!(MinInterval, "min-interval", ["interval"], |fields| {
    let interval = required::<Self, _>(fields.interval, "interval")?;
    Self::try_new(interval).map_err(in_field("interval"))
});

rule!(
    InFlight,
    "in-flight",
    ["requests", "held-at-most"],
    |fields| {
        let rule = Self::new(required::<Self, _>(fields.requests, "requests")?);
        let held_at_most = fields.held_at_most;
        with("held-at-most", held_at_most, rule, Self::try_held_at_most)
    }
);

/// An algorithm of the field `quota`; `R` is the kind that messages name.
fn of_quota<R: FromFields, A>(
    fields: &Fields,
    build: impl FnOnce(Quota) -> Result<A, ConfigError>,
) -> Result<A, String> {
    build(required::<R, _>(fields.quota, "quota")?).map_err(in_field("quota"))
}

/// Sets what an optional field says.
fn with<A, T>(
    field: &str,
    value: Option<T>,
    rule: A,
    set: impl FnOnce(A, T) -> Result<A, ConfigError>,
) -> Result<A, String> {
    match value {
        Some(value) => set(rule, value).map_err(in_field(field)),
        None => Ok(rule),
    }
}

/// A leaky bucket from its fields; `R` is the kind that messages name.
fn leaky_bucket<R: FromFields>(fields: &Fields) -> Result<LeakyBucket, String> {
    let rule = of_quota::<R, _>(fields, LeakyBucket::try_new)?;
    with("capacity", fields.capacity, rule, LeakyBucket::try_capacity)
}

/// An algorithm whose callers wait.
fn waiting<R: FromFields, W>(
    fields: &Fields,
    wait_at_most: impl FnOnce(R, Duration) -> Result<W, ConfigError>,
) -> Result<W, String> {
    let wait = required::<R, _>(fields.wait_at_most, "wait-at-most")?;
    wait_at_most(R::unnamed(fields)?, wait).map_err(in_field("wait-at-most"))
}

#[cfg(all(test, feature = "rules"))]
mod tests;
