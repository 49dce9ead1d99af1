//! Decides about requests as a layer with the same rules does.

use http::Request;
use tollgate::{
    Decision, Timestamp,
    algorithm::Limit,
    clock::ManualClock,
    key::MissingKey,
    rules::{RuleKey, RuleLimits, Rules},
    store::{Answer, Ask, LocalStore, Store, Verdict},
};

type Snapshot = <RuleLimits as Limit>::Snapshot;

/// Rules, and the buckets that they are charged to, at the instants of a log.
#[derive(Debug)]
pub struct Decider {
    rules: Rules,
    store: LocalStore<RuleLimits, RuleKey, ManualClock>,
    clock: ManualClock,
    now_micros: u64,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// No rule matches it: it passes.
    NoRule,
    /// It has no key and must have one, or no rule matches it and the file refuses those.
    Rejected(MissingKey),
    /// The decision of its limits.
    Decided(Decided),
}

/// What the limits of a request have decided.
pub struct Decided {
    /// The key, whose buckets it is charged to.
    pub key: RuleKey,
    /// What it costs.
    pub cost: u32,
    /// Whether it is let through.
    pub is_admitted: bool,
    snapshot: Snapshot,
}

impl Decider {
    /// Empty buckets, for at most this many keys of each limit.
    ///
    /// # Errors
    ///
    /// `max_keys` is 0.
    pub fn new(rules: Rules, max_keys: usize) -> Result<Self, tollgate::ConfigError> {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let store = LocalStore::builder().clock(clock.clone());
        Ok(Self {
            rules,
            store: store.try_max_keys(max_keys)?.build(),
            clock,
            now_micros: 0,
        })
    }

    /// Decides about a request that came at this instant, or now if that is later: time does not
    /// step back.
    pub fn decide(&mut self, request: &Request<()>, at_micros: u64) -> Outcome {
        self.now_micros = self.now_micros.max(at_micros);
        self.clock.set(Timestamp::from_micros(self.now_micros));
        let key = match self.rules.extract(request) {
            Ok(Some(key)) => key,
            Ok(None) => return Outcome::NoRule,
            Err(rejection) => return Outcome::Rejected(rejection),
        };
        let cost = key.cost();
        let Answer::Now(Ok(Verdict {
            admitted, snapshot, ..
        })) = self.store.decide(&RuleLimits, &key, Ask::Charge(cost))
        else {
            unreachable!("a store in memory answers at once, and does not fail");
        };
        Outcome::Decided(Decided {
            key,
            cost,
            is_admitted: admitted,
            snapshot,
        })
    }

    /// When the latest request came.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// How many keys have a bucket, with idle ones that are not evicted yet; and how many decisions
    /// were made by the overflow bucket.
    pub fn keys_and_shared_decisions(&self) -> (usize, u64) {
        let usage = self.store.usage();
        (usage.keys, usage.overflow_decisions)
    }
}

impl Decided {
    /// Whether the request is admitted without a delay.
    pub fn goes_at_once(&self) -> bool {
        self.is_admitted && RuleLimits.delay_of(&self.snapshot).is_zero()
    }

    /// What each limit that is enforced has decided.
    pub fn decision(&self) -> Decision {
        RuleLimits.decision_of(&self.snapshot)
    }

    /// Calls `output` with the decision of each limit in shadow, unless the request was refused.
    pub fn shadows(&self, output: &mut dyn FnMut(tollgate::PolicyDecision, bool)) {
        if self.is_admitted {
            RuleLimits.shadows_of(&self.snapshot, output);
        }
    }
}

impl std::fmt::Debug for Decided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decided")
            .field("key", &self.key)
            .field("cost", &self.cost)
            .field("decision", &self.decision())
            .finish()
    }
}
