//! One set of rules, which decides about every request of a log; and the counts of its decisions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ahash::RandomState;
use http::Request;
use playground::bound::Counts as Counted;
use tollgate::{PolicyDecision, rules::Rules};

use crate::{
    asked::Asked,
    decide::{Decided, Decider, Outcome},
    extensions::ExtensionSources,
    key_text::HeaderValues,
    rules_file::{LimitInfo, Scale},
    shown::cut,
    tally::{Counts, Details, LimitCounts, details::bound_of},
};

/// What all scenarios share.
#[derive(Debug)]
pub struct Setting {
    /// The limits of the file.
    pub limits: Vec<LimitInfo>,
    /// Where extensions come from.
    pub extensions: ExtensionSources,
    /// How header fields are shown.
    pub header_values: HeaderValues,
    /// The most keys of each limit.
    pub max_keys: usize,
}

/// Rules, and what they decided so far.
#[derive(Debug)]
pub struct Scenario {
    /// The factor of the quotas, bursts and capacities of the file.
    pub scale: Scale,
    /// How many were refused.
    pub counts: Counts,
    /// Who was refused, and when; `None` if the quotas are scaled.
    pub details: Option<Details>,
    setting: Arc<Setting>,
    decider: Decider,
    places: HashMap<Box<str>, usize, RandomState>,
    hasher: RandomState,
    in_shadow: Vec<(usize, Verdict)>,
}

/// The decision of one limit about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passes { delay_micros: u64 },
    WouldRefuse(Wait),
    Refuses(Wait),
    RefusedByOthers,
    NotAsked,
}

/// The wait in microseconds; `None` if the request never fits.
type Wait = Option<u64>;

impl Scenario {
    /// Nothing decided yet.
    ///
    /// # Errors
    ///
    /// No key is allowed.
    pub fn new(
        setting: &Arc<Setting>,
        rules: Rules,
        scale: Scale,
        wants_details: bool,
    ) -> Result<Self, String> {
        let decider = Decider::new(rules, setting.max_keys).map_err(|error| error.to_string())?;
        let limits = &setting.limits;
        let places = limits.iter().enumerate();
        Ok(Self {
            scale,
            counts: Counts::new(limits.len(), setting.max_keys),
            details: wants_details.then(|| Details::new(limits)),
            decider,
            places: places
                .map(|(place, limit)| (limit.name.as_str().into(), place))
                .collect(),
            hasher: RandomState::new(),
            in_shadow: Vec::new(),
            setting: Arc::clone(setting),
        })
    }

    /// Decides about a request, and counts it.
    pub fn ask(&mut self, asked: &Asked) {
        let outcome = self.decider.decide(&asked.request, asked.at_micros);
        let now = self.decider.now_micros();
        self.counts.requests += 1;
        if let Some(details) = &mut self.details {
            details.came(now);
        }
        match outcome {
            Outcome::NoRule => self.counts.without_rule += 1,
            Outcome::Rejected(rejection) => {
                let why = (rejection.status().as_u16(), rejection.message().to_owned());
                *self.counts.rejected.entry(why).or_insert(0) += 1;
                if let Some(details) = &mut self.details {
                    details.over_time.at(now).refused_otherwise += 1;
                }
            }
            Outcome::Decided(decided) => self.count(&decided, &asked.request, now),
        }
    }

    fn count(&mut self, decided: &Decided, request: &Request<()>, now: u64) {
        let decision = (!decided.goes_at_once()).then(|| decided.decision());
        self.in_shadow.clear();
        let (places, in_shadow) = (&self.places, &mut self.in_shadow);
        let limits = &self.setting.limits;
        decided.shadows(&mut |policy, refuses| {
            if let Some(place) = places.get(policy.policy()).copied() {
                let verdict = match refuses {
                    true => {
                        Verdict::WouldRefuse(wait_in_shadow(&policy, decided.cost, &limits[place]))
                    }
                    false => Verdict::Passes {
                        delay_micros: in_micros(policy.delay()),
                    },
                };
                in_shadow.push((place, verdict));
            }
        });
        let would_refuse =
            |(_, verdict): &(usize, Verdict)| matches!(verdict, Verdict::WouldRefuse(_));
        let would_be_refused = self.in_shadow.iter().any(would_refuse);
        let delayed = decided.is_admitted && decision.is_some();
        self.counts.admitted += u64::from(decided.is_admitted);
        self.counts.refused += u64::from(!decided.is_admitted);
        self.counts.would_be_refused += u64::from(would_be_refused);
        if let Some(details) = &mut self.details {
            let bin = details.over_time.at(now);
            bin.delayed += u64::from(delayed);
            bin.refused += u64::from(!decided.is_admitted);
            bin.would_be_refused += u64::from(would_be_refused);
        }
        let mut enforced = decision.as_ref().map(|it| it.policies().iter());
        for (name, key) in decided.key.keys_by_limit() {
            let Some(place) = self.places.get(name).copied() else {
                continue;
            };
            let limit = &self.setting.limits[place];
            let verdict = match (limit.in_shadow, &mut enforced) {
                (true, _) => {
                    let mut shadows = self.in_shadow.iter();
                    let own = shadows.find(|(of, _)| *of == place);
                    own.map_or(Verdict::NotAsked, |(_, verdict)| *verdict)
                }
                (false, None) => Verdict::Passes { delay_micros: 0 },
                // They are in the order of the file, as the keys are.
                (false, Some(policies)) => match policies.next() {
                    Some(policy) => verdict_of(policy, decided.is_admitted),
                    None => Verdict::NotAsked,
                },
            };
            let key_hash = self.hasher.hash_one(key);
            let counts = &mut self.counts.limits[place];
            counts.add(verdict, key_hash);
            if let Verdict::Refuses(_) = verdict {
                self.counts.callers_refused.add(key_hash);
            }
            let Some(details) = &mut self.details else {
                continue;
            };
            let details = &mut details.limits[place];
            let setting = &*self.setting;
            let shown = || {
                let (extensions, headers) = (&setting.extensions, setting.header_values);
                cut(limit.key.show(key, request, extensions, headers))
            };
            let bin = details.over_time.at(now);
            bin.requests += 1;
            match verdict {
                Verdict::Passes { delay_micros } => {
                    bin.delayed += u64::from(delay_micros > 0);
                    details.passed((now, delay_micros), key_hash, decided.cost, shown);
                }
                Verdict::Refuses(wait) | Verdict::WouldRefuse(wait) => {
                    match verdict {
                        Verdict::Refuses(_) => bin.refused += 1,
                        _ => bin.would_be_refused += 1,
                    }
                    match wait {
                        Some(micros) => details.waits.add(micros),
                        None => details.never_fit += 1,
                    }
                    details.top.add(key_hash, shown);
                }
                Verdict::RefusedByOthers | Verdict::NotAsked => bin.refused_otherwise += 1,
            }
        }
    }

    /// How many keys have a bucket, and how many decisions were made by the overflow bucket.
    pub fn keys_and_shared_decisions(&self) -> (usize, u64) {
        self.decider.keys_and_shared_decisions()
    }

    /// What all scenarios share.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }
}

impl LimitCounts {
    fn add(&mut self, verdict: Verdict, key_hash: u64) {
        self.requests += 1;
        match verdict {
            Verdict::Refuses(_) => self.refused += 1,
            Verdict::WouldRefuse(_) => self.would_be_refused += 1,
            Verdict::RefusedByOthers | Verdict::NotAsked => self.refused_by_others += 1,
            Verdict::Passes { .. } => {}
        }
        if let Verdict::Refuses(_) | Verdict::WouldRefuse(_) = verdict {
            self.callers_refused.add(key_hash);
        }
    }
}

fn verdict_of(policy: &PolicyDecision, is_admitted: bool) -> Verdict {
    match (policy.is_admitted(), is_admitted) {
        (false, _) => Verdict::Refuses(policy.retry_after().map(in_micros)),
        (true, false) => Verdict::RefusedByOthers,
        (true, true) => Verdict::Passes {
            delay_micros: in_micros(policy.delay()),
        },
    }
}

/// How long a request would have to wait, until one more unit is admitted. That is exact for a cost
/// of 1; a larger cost may have to wait longer, which a limit in shadow does not report.
fn wait_in_shadow(policy: &PolicyDecision, cost: u32, limit: &LimitInfo) -> Wait {
    let counts_units = || bound_of(limit, 1).is_some_and(|bound| bound.counts == Counted::Units);
    let never_fits = u64::from(cost) > policy.limit() && counts_units();
    (!never_fits).then(|| in_micros(policy.replenished_after()))
}

fn in_micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
