//! How full and how healthy a store is, as metrics.

/// What the `usage()` of a store returns.
pub trait StoreUsage {
    /// Records it with this value of the label `limit`.
    fn record(&self, limit: &str);
}

#[cfg(feature = "local")]
impl StoreUsage for crate::store::LocalUsage {
    fn record(&self, limit: &str) {
        let label = || limit.to_owned();
        metrics::gauge!("tollgate.store.keys", "limit" => label()).set(self.keys as f64);
        let overflow = metrics::counter!("tollgate.store.overflow", "limit" => label());
        overflow.absolute(self.overflow_decisions);
    }
}

#[cfg(feature = "redis")]
impl StoreUsage for crate::store::RedisUsage {
    fn record(&self, limit: &str) {
        let label = || limit.to_owned();
        for (outcome, decisions) in [
            ("admitted", self.admitted),
            ("refused", self.refused),
            ("unavailable", self.unavailable),
            ("misconfigured", self.misconfigured),
            ("invalid", self.invalid),
        ] {
            let counter = metrics::counter!("tollgate.redis.decisions", "limit" => label(), "outcome" => outcome);
            counter.absolute(decisions);
        }
        for (name, count) in [
            ("tollgate.redis.joined", self.joined),
            ("tollgate.redis.remembered", self.remembered),
            ("tollgate.redis.leased", self.leased),
            ("tollgate.redis.units_leased", self.units_leased),
            ("tollgate.redis.units_given_back", self.units_given_back),
            ("tollgate.redis.units_lost", self.units_lost),
            ("tollgate.redis.reconnects", self.reconnects),
        ] {
            metrics::counter!(name, "limit" => label()).absolute(count);
        }
        let held = metrics::gauge!("tollgate.redis.units_held", "limit" => label());
        held.set(self.units_held as f64);
        metrics::gauge!("tollgate.redis.in_flight", "limit" => label()).set(self.in_flight as f64);
        if let Some(answered) = self.last_answer {
            let age = metrics::gauge!("tollgate.redis.last_answer.age", "limit" => label());
            age.set(answered.elapsed().as_secs_f64());
        }
    }
}
