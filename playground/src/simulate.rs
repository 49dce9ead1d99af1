//! Steps an algorithm through requests, as a store does.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use tollgate::{
    Decision, PolicyDecision, Timestamp,
    algorithm::{Ending, KeyLimit},
    store::Ask,
};

/// A request; times are in microseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it comes.
    pub at: u64,
    /// What it costs.
    pub cost: u32,
    /// Who sends it.
    pub caller: u32,
    /// Which bucket it is counted in.
    pub bucket: u32,
    /// How long it runs, for limits on requests in flight and for holds.
    pub runs_micros: u64,
    /// What it has spent when it ends, for holds.
    pub spends: u32,
}

impl Request {
    /// A request that costs 1 and ends at once.
    pub fn at(at: u64) -> Self {
        Self {
            at,
            cost: 1,
            caller: 0,
            bucket: 0,
            runs_micros: 0,
            spends: 1,
        }
    }
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Whether it is admitted.
    pub is_admitted: bool,
    /// How long it is delayed, if it is admitted.
    pub delay_micros: u64,
    /// The most units at once; for a tuple, the least of its members'.
    pub limit: u64,
    /// What is left.
    pub remaining: u64,
    /// The wait after which the same cost is admitted, if it was refused.
    pub retry_after_micros: Option<u64>,
    /// Whether its cost can never fit.
    pub never_fits: bool,
    /// How long until the bucket is as good as fresh.
    pub reset_after_micros: u64,
    /// The decisions of the members of a tuple, in order; empty for a single limit.
    pub members: Vec<Decided>,
}

/// The instants at which to read what a bucket has left.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    /// Which bucket.
    pub bucket: u32,
    /// The instants, in ascending order; each is read after the decisions at that instant.
    pub at: Vec<u64>,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// One for each request.
    pub decided: Vec<Decided>,
    /// What was left, one value for each instant.
    pub left: Vec<u64>,
}

/// Decides about all requests, which are in ascending order of time.
pub fn simulate<A: KeyLimit>(rule: &A, requests: &[Request], looks: &Looks) -> Run {
    let mut buckets = Buckets {
        rule,
        states: HashMap::new(),
        ends: BTreeMap::new(),
    };
    let mut run = Run::default();
    let mut instants = looks.at.iter().copied().peekable();
    for (index, request) in requests.iter().enumerate() {
        while let Some(at) = instants.next_if(|at| *at < request.at) {
            run.left.push(buckets.left(looks.bucket, at));
        }
        run.decided.push(buckets.decide(index, request));
    }
    for at in instants {
        run.left.push(buckets.left(looks.bucket, at));
    }
    run
}

/// What an admitted request gives back or is charged when it ends.
struct End<S> {
    bucket: u32,
    admission: S,
    held_and_spent: (u32, u32),
}

struct Buckets<'a, A: KeyLimit> {
    rule: &'a A,
    states: HashMap<u32, A::State>,
    /// By the instant of the end; then as they came.
    ends: BTreeMap<(u64, usize), End<A::Snapshot>>,
}

impl<A: KeyLimit> Buckets<'_, A> {
    fn decide(&mut self, index: usize, request: &Request) -> Decided {
        self.end_all_until(request.at);
        let (rule, now) = (self.rule, Timestamp::from_micros(request.at));
        let state = self.states.entry(request.bucket);
        let state = state.or_insert_with(|| rule.fresh(now));
        let (is_admitted, snapshot) = rule.step(state, request.cost, now);
        let decision = rule.decision_of(&snapshot);
        let delay_micros = match is_admitted {
            true => in_micros(rule.delay_of(&snapshot)),
            false => 0,
        };
        if is_admitted && (A::SETTLES || A::IN_FLIGHT) {
            let end = End {
                bucket: request.bucket,
                admission: snapshot,
                held_and_spent: (request.cost, request.spends),
            };
            let at = request.at + delay_micros + request.runs_micros;
            self.ends.insert((at, index), end);
        }
        Decided::of(&decision, delay_micros)
    }

    fn left(&mut self, bucket: u32, at: u64) -> u64 {
        self.end_all_until(at);
        let now = Timestamp::from_micros(at);
        let state = self.states.entry(bucket);
        let state = state.or_insert_with(|| self.rule.fresh(now));
        let seen = Ask::Look(1).decide(self.rule, state, now);
        self.rule.decision_of(&seen.snapshot).remaining()
    }

    fn end_all_until(&mut self, now: u64) {
        while let Some(first) = self.ends.first_entry()
            && first.key().0 <= now
        {
            let ((at, _), end) = first.remove_entry();
            let Some(state) = self.states.get_mut(&end.bucket) else {
                continue;
            };
            let at = Timestamp::from_micros(at);
            if A::SETTLES {
                let (held, spent) = end.held_and_spent;
                let settled = Ending::Settled { held, spent };
                self.rule.end(state, &end.admission, settled, at);
            }
            if A::IN_FLIGHT {
                self.rule.end(state, &end.admission, Ending::Over, at);
            }
        }
    }
}

impl Decided {
    fn of(decision: &Decision, delay_micros: u64) -> Self {
        let members = match decision.policies() {
            [_] => Vec::new(),
            policies => policies.iter().map(Self::of_member).collect(),
        };
        let least = members.iter().map(|member: &Self| member.limit).min();
        Self {
            is_admitted: decision.is_admitted(),
            delay_micros,
            limit: least.unwrap_or(decision.limit()),
            remaining: decision.remaining(),
            retry_after_micros: decision.retry_after().map(in_micros),
            never_fits: decision.never_fits(),
            reset_after_micros: in_micros(decision.reset_after()),
            members,
        }
    }

    fn of_member(policy: &PolicyDecision) -> Self {
        Self {
            is_admitted: policy.is_admitted(),
            delay_micros: in_micros(policy.delay()),
            limit: policy.limit(),
            remaining: policy.remaining(),
            retry_after_micros: policy.retry_after().map(in_micros),
            never_fits: policy.never_fits(),
            reset_after_micros: in_micros(policy.reset_after()),
            members: Vec::new(),
        }
    }

    /// The decision of this member, or of the single limit.
    pub fn of_the_member(&self, member: usize) -> &Self {
        self.members.get(member).unwrap_or(self)
    }
}

fn in_micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tollgate::{
        Quota,
        algorithm::{InFlight, LeakyBucket, TokenBucket},
    };

    use super::*;
    use crate::span::SECOND;

    fn run<A: KeyLimit>(rule: &A, requests: &[Request], looks: &[u64]) -> Run {
        let at = looks.to_vec();
        simulate(rule, requests, &Looks { bucket: 0, at })
    }

    #[test]
    fn a_refused_request_is_told_the_wait_after_which_it_is_admitted() {
        let rule = TokenBucket::new(Quota::per_second(2));
        let asked = [0, 0, 0, 500_000].map(Request::at);
        let run = run(&rule, &asked, &[0, 499_999, 500_000, SECOND, 9 * SECOND]);
        let admitted: Vec<_> = run.decided.iter().map(|it| it.is_admitted).collect();
        assert_eq!(admitted, [true, true, false, true]);
        assert_eq!(run.decided[2].retry_after_micros, Some(500_000));
        assert_eq!(run.left, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn callers_in_buckets_of_their_own_do_not_share_a_limit() {
        let rule = TokenBucket::new(Quota::per_second(1));
        let mut asked = [0, 0].map(Request::at);
        assert!(!run(&rule, &asked, &[]).decided[1].is_admitted);
        asked[1].bucket = 1;
        assert!(run(&rule, &asked, &[]).decided[1].is_admitted);
    }

    #[test]
    fn a_queue_delays() {
        let rule = LeakyBucket::new(Quota::per_second(4)).queue();
        let run = run(&rule, &[0, 0, 0].map(Request::at), &[]);
        let delays: Vec<_> = run.decided.iter().map(|it| it.delay_micros).collect();
        assert_eq!(delays, [0, 250_000, 500_000]);
    }

    #[test]
    fn a_request_that_has_ended_gives_its_place_back() {
        let mut asked = [0, 1, 2].map(Request::at);
        asked[0].runs_micros = 2;
        asked[1].runs_micros = SECOND;
        let run = run(&InFlight::new(1), &asked, &[1, 2, 3]);
        let admitted: Vec<_> = run.decided.iter().map(|it| it.is_admitted).collect();
        assert_eq!(admitted, [true, false, true]);
        assert_eq!(run.decided[1].retry_after_micros, None);
        assert_eq!(run.left, [0, 1, 1]);
    }

    fn holds_of_eight_that_spend_two() -> [Request; 3] {
        [0, 1, SECOND].map(|at| {
            let mut request = Request::at(at);
            (request.cost, request.spends, request.runs_micros) = (8, 2, 1_000);
            request
        })
    }

    #[test]
    fn what_holds_units_and_a_place_gives_both_back() {
        let held = TokenBucket::new(Quota::per_hour(10)).settled();
        let rule = (held, InFlight::new(1));
        let run = run(&rule, &holds_of_eight_that_spend_two(), &[500, 1_000]);
        let admitted: Vec<_> = run.decided.iter().map(|it| it.is_admitted).collect();
        assert_eq!(admitted, [true, false, true]);
        // The least of 8 units and one place.
        assert_eq!(run.left, [0, 1]);
        let members = [0, 1].map(|member| run.decided[1].of_the_member(member).is_admitted);
        assert_eq!(members, [false, false]);
    }

    #[test]
    fn what_was_held_and_not_spent_is_free_when_the_request_ends() {
        let rule = TokenBucket::new(Quota::per_hour(10)).settled();
        let run = run(&rule, &holds_of_eight_that_spend_two(), &[500, 1_000]);
        let admitted: Vec<_> = run.decided.iter().map(|it| it.is_admitted).collect();
        assert_eq!(admitted, [true, false, true]);
        assert_eq!(run.left, [2, 8]);
    }
}
