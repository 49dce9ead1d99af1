use std::marker::PhantomData;

use serde::{Deserialize, Deserializer};

use crate::{
    algorithm::{
        FixedWindow, Gcra, InFlight, LeakyBucket, LeakyBucketQueue, MinInterval, SlidingBuckets,
        SlidingLog, SlidingWindow, TokenBucket, WaitAtMost,
    },
    error::ConfigError,
};

use super::fields::{FieldError, Fields, FromFields, MapVisitor, Reason, required};

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
    ($rule:ty, $name:literal, [$($field:literal),+], $build:expr) => {
        impl FromFields for $rule {
            const NAME: &'static str = $name;
            const FIELDS: &'static [&'static str] = &[$($field),+];

            fn build(fields: &Fields) -> Result<Self, Reason> {
                let build: fn(&Fields) -> Result<Self, Reason> = $build;
                build(fields)
            }

            fn named(self, name: &str) -> Result<Self, ConfigError> {
                self.try_named(name)
            }
        }

        #[doc = concat!("From a map of", $(" `", $field, "`,",)+ " and, if you like, `name` and `algorithm = \"", $name, "\"`.")]
        ///
        /// An unknown field, a missing one or one with a wrong value is an error that names it.
        impl<'de> Deserialize<'de> for $rule {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(MapVisitor(PhantomData))
            }
        }
    };
}

rule!(TokenBucket, "token-bucket", ["quota", "burst"], |fields| {
    let quota = required::<TokenBucket, _>(fields.quota, "quota")?;
    let rule = TokenBucket::try_new(quota).in_field("quota")?;
    match fields.burst {
        Some(units) => rule.try_burst(units).in_field("burst"),
        None => Ok(rule),
    }
});

rule!(Gcra, "gcra", ["quota", "burst"], |fields| {
    let quota = required::<Gcra, _>(fields.quota, "quota")?;
    let rule = Gcra::try_new(quota).in_field("quota")?;
    match fields.burst {
        Some(units) => rule.try_burst(units).in_field("burst"),
        None => Ok(rule),
    }
});

rule!(
    LeakyBucket,
    "leaky-bucket",
    ["quota", "capacity"],
    leaky_bucket::<LeakyBucket>
);

rule!(
    WaitAtMost<TokenBucket>,
    "token-bucket",
    ["quota", "burst", "wait-at-most"],
    |fields| {
        let wait = required::<TokenBucket, _>(fields.wait_at_most, "wait-at-most")?;
        let rule = TokenBucket::build(fields)?;
        rule.try_wait_at_most(wait).in_field("wait-at-most")
    }
);

rule!(
    WaitAtMost<Gcra>,
    "gcra",
    ["quota", "burst", "wait-at-most"],
    |fields| {
        let wait = required::<Gcra, _>(fields.wait_at_most, "wait-at-most")?;
        let rule = Gcra::build(fields)?;
        rule.try_wait_at_most(wait).in_field("wait-at-most")
    }
);

rule!(
    WaitAtMost<LeakyBucket>,
    "leaky-bucket",
    ["quota", "capacity", "wait-at-most"],
    |fields| {
        let wait = required::<LeakyBucket, _>(fields.wait_at_most, "wait-at-most")?;
        let rule = LeakyBucket::build(fields)?;
        rule.try_wait_at_most(wait).in_field("wait-at-most")
    }
);

rule!(
    LeakyBucketQueue,
    "leaky-bucket-queue",
    ["quota", "capacity"],
    |fields| { leaky_bucket::<LeakyBucketQueue>(fields).map(LeakyBucket::queue) }
);

rule!(
    FixedWindow,
    "fixed-window",
    ["quota", "from-first-request"],
    |fields| {
        let quota = required::<FixedWindow, _>(fields.quota, "quota")?;
        let rule = FixedWindow::try_new(quota).in_field("quota")?;
        match fields.from_first_request {
            Some(true) => Ok(rule.from_first_request()),
            _ => Ok(rule),
        }
    }
);

rule!(SlidingLog, "sliding-log", ["quota"], |fields| {
    let quota = required::<SlidingLog, _>(fields.quota, "quota")?;
    SlidingLog::try_new(quota).in_field("quota")
});

rule!(SlidingWindow, "sliding-window", ["quota"], |fields| {
    let quota = required::<SlidingWindow, _>(fields.quota, "quota")?;
    SlidingWindow::try_new(quota).in_field("quota")
});

rule!(
    SlidingBuckets,
    "sliding-buckets",
    ["quota", "precision", "strict"],
    |fields| {
        let quota = required::<SlidingBuckets, _>(fields.quota, "quota")?;
        let precision = required::<SlidingBuckets, _>(fields.precision, "precision")?;
        let rule = SlidingBuckets::try_new(quota, precision);
        let field = match rule {
            Err(ConfigError::QuotaTooLarge { .. }) => "quota",
            _ => "precision",
        };
        let rule = rule.in_field(field)?;
        match fields.strict {
            Some(true) => Ok(rule.strict()),
            _ => Ok(rule),
        }
    }
);

rule!(MinInterval, "min-interval", ["interval"], |fields| {
    let interval = required::<MinInterval, _>(fields.interval, "interval")?;
    MinInterval::try_new(interval).in_field("interval")
});

rule!(
    InFlight,
    "in-flight",
    ["requests", "held-at-most"],
    |fields| {
        let requests = required::<InFlight, _>(fields.requests, "requests")?;
        let rule = InFlight::new(requests);
        match fields.held_at_most {
            Some(time) => rule.try_held_at_most(time).in_field("held-at-most"),
            None => Ok(rule),
        }
    }
);

/// A leaky bucket from its fields; `R` is the kind that messages name.
fn leaky_bucket<R: FromFields>(fields: &Fields) -> Result<LeakyBucket, Reason> {
    let quota = required::<R, _>(fields.quota, "quota")?;
    let rule = LeakyBucket::try_new(quota).in_field("quota")?;
    match fields.capacity {
        Some(units) => rule.try_capacity(units).in_field("capacity"),
        None => Ok(rule),
    }
}

#[cfg(all(test, feature = "rules"))]
mod tests;
