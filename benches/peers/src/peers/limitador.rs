//! `RateLimiter::check_rate_limited_and_update` over counters in memory, one variable for the key.

use std::{collections::HashMap, time::Duration};

use limitador::{
    RateLimiter,
    limit::{Context, Limit as Counted, Namespace},
};

use super::{Limiter, Reply, Telling};
use crate::limit::{Limit, WINDOW};

/// limitador's limiter.
pub struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    /// Lets the burst through in each window of an hour, with room for two million keys.
    pub fn new(limit: Limit) -> Self {
        Self::per_window(&[(limit.burst, WINDOW)])
    }

    /// Lets so many through in each window of whole seconds, for each of these.
    pub fn per_window(limits: &[(u32, Duration)]) -> Self {
        Self::with_room_for(2_000_000, limits)
    }

    /// The same, with room for so many keys.
    pub fn with_room_for(keys: u64, limits: &[(u32, Duration)]) -> Self {
        let limiter = RateLimiter::new(keys);
        for (most, window) in limits {
            let key = "key".try_into().expect("a variable");
            let limit = Counted::new("api", (*most).into(), window.as_secs(), vec![], vec![key]);
            limiter.add_limit(limit);
        }
        Self {
            limiter,
            namespace: "api".into(),
        }
    }

    /// A request of so many units.
    #[inline]
    pub fn admits_cost(&self, key: &str, cost: u64) -> bool {
        let values = HashMap::from([("key".to_owned(), key.to_owned())]);
        let context: Context<'_> = values.into();
        let result = self
            .limiter
            .check_rate_limited_and_update(&self.namespace, &context, cost);
        !result.expect("counters in memory").limited
    }
}

impl Limiter<String> for Limitador {
    #[inline]
    fn admits(&self, key: &String) -> bool {
        self.admits_cost(key, 1)
    }
}

impl Telling for Limitador {
    /// It tells no wait.
    fn ask(&self, key: &str) -> Reply {
        match self.admits_cost(key, 1) {
            true => Ok(()),
            false => Err(None),
        }
    }
}
