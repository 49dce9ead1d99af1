//! An algorithm with its model, made so that all algorithms fit into one list.

use std::{
    any::Any,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use tollgate::{
    Decision, PolicyDecision, RateLimiter, Timestamp,
    algorithm::{self, KeyLimit, PolicyId, Scripted},
    clock::ManualClock,
    store::{LocalStore, RedisStore},
};

use crate::{
    model::{Counts, Model},
    shared::{SharedLimiter, limiter_over},
};

/// An algorithm and what it should do.
#[derive(Debug)]
pub struct Subject {
    /// Its name in a failure.
    pub name: &'static str,
    /// The model of each member of a tuple, or its own.
    pub models: Vec<Box<dyn Model>>,
    /// A state of the real algorithm that was never charged.
    pub bucket: Box<dyn Bucket>,
}

impl Subject {
    /// An algorithm, and the models of its members.
    pub fn new<A>(name: &'static str, algorithm: A, models: impl Into<Vec<Box<dyn Model>>>) -> Self
    where
        A: Scripted,
    {
        let limiters = Limiters {
            local: local_limiter,
            shared: limiter_over,
        };
        Self::of(name, algorithm, models.into(), Some(limiters))
    }

    /// The same, but of its bucket there is no limiter: `check` does not compile with all that can
    /// be decided.
    pub fn without_limiters<A>(
        name: &'static str,
        algorithm: A,
        models: impl Into<Vec<Box<dyn Model>>>,
    ) -> Self
    where
        A: Scripted,
    {
        Self::of(name, algorithm, models.into(), None)
    }

    fn of<A: Scripted>(
        name: &'static str,
        algorithm: A,
        models: Vec<Box<dyn Model>>,
        limiters: Option<Limiters<A>>,
    ) -> Self {
        let state = algorithm.fresh(Timestamp::default());
        let bucket = Box::new(Pure {
            state,
            algorithm,
            limiters,
        });
        Self {
            name,
            models,
            bucket,
        }
    }

    /// The shortest of the members' spans.
    pub fn shortest_span(&self) -> i128 {
        let spans = self.models.iter().map(|model| model.span());
        spans.min().unwrap_or(0)
    }

    /// The longest of the members' spans.
    pub fn longest_span(&self) -> i128 {
        let spans = self.models.iter().map(|model| model.span());
        spans.max().unwrap_or(0)
    }

    /// Whether every member counts units, and none requests.
    pub fn counts_units(&self) -> bool {
        let counts_units = |model: &dyn Model| model.bound(1).counts != Counts::Requests;
        self.models.iter().all(|model| counts_units(&**model))
    }

    /// The smallest of the members' limits.
    pub fn limit(&self) -> u64 {
        let limits = self.models.iter().map(|model| model.limit());
        u64::try_from(limits.min().unwrap_or(0)).expect("a limit of 64 bits")
    }
}

/// The instant so many microseconds after the epoch.
pub fn instant(micros: i128) -> Timestamp {
    Timestamp::from_micros(u64::try_from(micros).expect("not before the epoch"))
}

/// What was decided about a request, and what its caller keeps until it ends.
#[derive(Debug)]
pub struct Admission {
    /// What was decided.
    pub decision: Decision,
    /// What each limit in shadow decided, and whether it would have refused.
    pub in_shadow: Vec<(PolicyDecision, bool)>,
    cost: u32,
    snapshot: Box<dyn Any>,
}

/// How a request ends that was admitted.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    /// It was dropped before its turn.
    Withdrawn,
    /// It has spent this share of its cost, in quarters.
    Settled(u8),
    /// It is no longer in flight.
    Over,
}

/// One state of one algorithm, without a store.
pub trait Bucket: std::fmt::Debug {
    /// A copy, to try something on.
    fn fork(&self) -> Box<dyn Bucket>;
    /// Decides, as a store does.
    fn check(&mut self, cost: u32, now: i128) -> Decision;
    /// Decides, as a store does.
    fn admit(&mut self, cost: u32, now: i128) -> Admission;
    /// Ends a request that was admitted by this algorithm, as a store does.
    fn end(&mut self, admission: &Admission, ending: Ending, now: i128);
    /// Looks, as a store does.
    fn peek(&self, cost: u32, now: i128) -> Decision;
    /// Charges, as a store does, whether it fits or not.
    fn debit(&mut self, units: u32, now: i128);
    /// Refunds, as a store does.
    fn refund(&mut self, cost: u32, now: i128);
    /// Whether it says no more than a fresh one.
    fn is_fresh(&self, now: i128) -> bool;
    /// The numbers of its state as of this instant, which is not before its last change.
    fn told(&self, at: i128) -> Vec<u64>;
    /// The state that these numbers stood for then.
    fn made_of(&self, at: i128, numbers: &[u64]) -> Option<Box<dyn Bucket>>;
    /// Becomes a fresh one, as if last seen at `at`.
    fn forget(&mut self, at: i128);
    /// A limiter of this algorithm over an empty store.
    fn limiter(&self, clock: ManualClock) -> Box<dyn Limiter>;
    /// A limiter of this algorithm for this key of a store that others share, in the buckets of the
    /// policy of `owner`, an algorithm of the same type.
    fn limiter_over(
        &self,
        store: RedisStore,
        key: String,
        owner: &dyn Bucket,
    ) -> Box<dyn SharedLimiter>;
    /// This state, under another algorithm of the same type.
    fn with_the_numbers_of(&self, other: &dyn Bucket) -> Box<dyn Bucket>;
    /// To recover its type.
    fn as_any(&self) -> &dyn Any;
}

#[derive(Clone)]
struct Pure<A: KeyLimit> {
    algorithm: A,
    state: A::State,
    limiters: Option<Limiters<A>>,
}

/// How limiters of an algorithm are made.
struct Limiters<A> {
    local: fn(A, ManualClock) -> Box<dyn Limiter>,
    shared: fn(A, PolicyId, RedisStore, String) -> Box<dyn SharedLimiter>,
}

impl<A> Clone for Limiters<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Limiters<A> {}

fn local_limiter<A: Scripted>(algorithm: A, clock: ManualClock) -> Box<dyn Limiter> {
    let store = LocalStore::builder().clock(clock).max_keys(16).build();
    Box::new(Keyed {
        limiter: RateLimiter::new(algorithm, store.clone()),
        store,
    })
}

impl<A: KeyLimit> std::fmt::Debug for Pure<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pure").finish_non_exhaustive()
    }
}

impl<A: Scripted> Bucket for Pure<A> {
    fn fork(&self) -> Box<dyn Bucket> {
        Box::new(self.clone())
    }

    fn check(&mut self, cost: u32, now: i128) -> Decision {
        let (_, snapshot) = self.algorithm.step(&mut self.state, cost, instant(now));
        self.algorithm.decision_of(&snapshot)
    }

    fn admit(&mut self, cost: u32, now: i128) -> Admission {
        let (_, snapshot) = self.algorithm.step(&mut self.state, cost, instant(now));
        let mut in_shadow = Vec::new();
        (self.algorithm).shadows_of(&snapshot, &mut |policy, would_refuse| {
            in_shadow.push((policy, would_refuse));
        });
        Admission {
            decision: self.algorithm.decision_of(&snapshot),
            in_shadow,
            cost,
            snapshot: Box::new(snapshot),
        }
    }

    fn end(&mut self, admission: &Admission, ending: Ending, now: i128) {
        let (algorithm, state, now) = (&self.algorithm, &mut self.state, instant(now));
        let snapshot = admission.snapshot.downcast_ref();
        let snapshot: &A::Snapshot = snapshot.expect("an admission by the same algorithm");
        let held = admission.cost;
        let ending = match ending {
            Ending::Withdrawn => algorithm::Ending::Withdrawn { cost: held },
            Ending::Settled(quarters) => {
                let spent = u64::from(admission.cost) * u64::from(quarters) / 4;
                let spent = u32::try_from(spent).unwrap_or(u32::MAX);
                algorithm::Ending::Settled { held, spent }
            }
            Ending::Over => algorithm::Ending::Over,
        };
        algorithm.end(state, snapshot, ending, now);
    }

    fn peek(&self, cost: u32, now: i128) -> Decision {
        let (_, snapshot) = self.algorithm.look(&self.state, cost, instant(now));
        self.algorithm.decision_of(&snapshot)
    }

    fn debit(&mut self, units: u32, now: i128) {
        (self.algorithm).debit(&mut self.state, units.into(), instant(now));
    }

    fn refund(&mut self, cost: u32, now: i128) {
        self.algorithm.refund(&mut self.state, cost, instant(now));
    }

    fn is_fresh(&self, now: i128) -> bool {
        self.algorithm.is_fresh(&self.state, instant(now))
    }

    fn told(&self, at: i128) -> Vec<u64> {
        let mut numbers = Vec::new();
        let mut tell = |number| numbers.push(number);
        self.algorithm.numbers(&self.state, instant(at), &mut tell);
        numbers
    }

    fn made_of(&self, at: i128, numbers: &[u64]) -> Option<Box<dyn Bucket>> {
        let state = self.algorithm.state(instant(at), numbers)?;
        Some(Box::new(Self {
            state,
            ..self.clone()
        }))
    }

    fn forget(&mut self, at: i128) {
        self.state = self.algorithm.fresh(instant(at));
    }

    fn limiter(&self, clock: ManualClock) -> Box<dyn Limiter> {
        (self.limiters().local)(self.algorithm.clone(), clock)
    }

    fn limiter_over(
        &self,
        store: RedisStore,
        key: String,
        owner: &dyn Bucket,
    ) -> Box<dyn SharedLimiter> {
        let owner = Self::of_the_same_type(owner).algorithm.policy_id();
        (self.limiters().shared)(self.algorithm.clone(), owner, store, key)
    }

    fn with_the_numbers_of(&self, other: &dyn Bucket) -> Box<dyn Bucket> {
        Box::new(Self {
            algorithm: Self::of_the_same_type(other).algorithm.clone(),
            ..self.clone()
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<A: Scripted> Pure<A> {
    fn limiters(&self) -> Limiters<A> {
        self.limiters.expect("a subject with limiters")
    }

    fn of_the_same_type(other: &dyn Bucket) -> &Self {
        let other = other.as_any().downcast_ref();
        other.expect("the same type")
    }
}

/// The public face, for one key.
pub trait Limiter {
    /// `check_cost`.
    fn check(&self, cost: u32) -> Decision;
    /// `peek`.
    fn peek(&self) -> Decision;
    /// `debit`.
    fn debit(&self, units: u32);
    /// `refund`.
    fn refund(&self, cost: u32);
    /// `reset`.
    fn reset(&self);
    /// Whether the store has an entry for the key.
    fn is_known(&self) -> bool;
}

struct Keyed<A: KeyLimit> {
    limiter: RateLimiter<A, LocalStore<A, String, ManualClock>>,
    store: LocalStore<A, String, ManualClock>,
}

const KEY: &str = "bob";

impl<A: KeyLimit> Limiter for Keyed<A> {
    fn check(&self, cost: u32) -> Decision {
        at_once(self.limiter.check_cost(KEY, cost)).expect("a store that never fails")
    }

    fn peek(&self) -> Decision {
        at_once(self.limiter.peek(KEY)).expect("a store that never fails")
    }

    fn debit(&self, units: u32) {
        at_once(self.limiter.debit(KEY, units)).expect("a store that never fails");
    }

    fn refund(&self, cost: u32) {
        at_once(self.limiter.refund(KEY, cost)).expect("a store that never fails");
    }

    fn reset(&self) {
        at_once(self.limiter.reset(KEY)).expect("a store that never fails");
    }

    fn is_known(&self) -> bool {
        self.store.usage().keys > 0
    }
}

/// The output of a future that is ready at once: the store in memory never waits.
pub fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store in memory waited"),
    }
}
