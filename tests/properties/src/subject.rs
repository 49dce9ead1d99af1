//! An algorithm with its model, made so that all algorithms fit into one list.

use std::any::Any;

use futures_util::FutureExt;
use tollgate::{
    Decision, RateLimiter, Timestamp,
    algorithm::{KeyLimit, Override, PolicyId, Scripted},
    clock::ManualClock,
    store::{Ask, LocalStore, RedisStore},
};

use crate::{
    call::{Admission, Answer, Call, decided},
    model::{Counts, Model},
    shared::{self, SharedLimiter},
};

/// An algorithm and what it should do.
#[derive(Debug)]
pub struct Subject {
    /// Its name in a failure.
    pub name: &'static str,
    /// The model of each member of a tuple, or its own.
    pub models: Models,
    /// A state of the real algorithm that was never charged.
    pub bucket: Box<dyn Bucket>,
}

impl Subject {
    /// An algorithm, and the models of its members.
    pub fn new(name: &'static str, rule: impl Scripted, models: impl Into<Models>) -> Self {
        Self::of(name, rule, models.into(), Limiters::InMemory(local_limiter))
    }

    /// The same, but there is no limiter of it.
    pub fn without_limiter(
        name: &'static str,
        rule: impl Scripted,
        models: impl Into<Models>,
    ) -> Self {
        Self::of(name, rule, models.into(), Limiters::None)
    }

    /// The same, but its limiters are in Redis.
    pub fn over_redis(name: &'static str, rule: impl Scripted, models: impl Into<Models>) -> Self {
        Self::of(name, rule, models.into(), Limiters::OverRedis(shared::over))
    }

    fn of<A: Scripted>(
        name: &'static str,
        algorithm: A,
        models: Models,
        limiters: Limiters<A>,
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

    /// A limiter over an empty store, and its clock, which shows this instant.
    pub fn limiter_at(&self, now: i128) -> (ManualClock, Box<dyn Limiter>) {
        let clock = ManualClock::at(instant(now));
        (clock.clone(), self.bucket.limiter(clock))
    }

    /// What all numbers of one name must share, to share a state.
    pub fn shape(&self) -> Vec<Vec<i128>> {
        self.models.iter().map(|model| model.shape()).collect()
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

/// The models of the members of a tuple, or that of an algorithm alone.
pub type Models = Vec<Box<dyn Model>>;

/// The instant so many microseconds after the epoch.
pub fn instant(micros: i128) -> Timestamp {
    Timestamp::from_micros(u64::try_from(micros).expect("not before the epoch"))
}

/// One state of one algorithm, without a store.
pub trait Bucket: std::fmt::Debug {
    /// A copy, to try something on.
    fn fork(&self) -> Box<dyn Bucket>;
    /// Does what a store does.
    fn ask(&mut self, call: Call<'_>, now: i128) -> Answer;
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
    /// This algorithm over this key of a store that others share.
    fn limiter_over(&self, store: RedisStore, key: String) -> Box<dyn SharedLimiter>;
    /// Which states are its own, in a store.
    fn policy_id(&self) -> PolicyId;
    /// This state, under another algorithm of the same type.
    fn with_the_numbers_of(&self, other: &dyn Bucket) -> Box<dyn Bucket>;
    /// To recover its type.
    fn as_any(&self) -> &dyn Any;
}

impl dyn Bucket + '_ {
    /// Decides.
    pub fn check(&mut self, cost: u32, now: i128) -> Decision {
        decided(self.ask(Call::Check(cost), now))
    }

    /// Looks.
    pub fn peek(&self, cost: u32, now: i128) -> Decision {
        decided(self.fork().ask(Call::Look(cost), now))
    }
}

#[derive(Clone)]
struct Pure<A: KeyLimit> {
    algorithm: A,
    state: A::State,
    limiters: Limiters<A>,
}

/// How a limiter is made. By a pointer: a limiter that nobody asks for takes long to compile.
#[derive(Clone)]
enum Limiters<A> {
    None,
    InMemory(fn(A, ManualClock) -> Box<dyn Limiter>),
    OverRedis(fn(A, RedisStore, String) -> Box<dyn SharedLimiter>),
}

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

    fn ask(&mut self, call: Call<'_>, now: i128) -> Answer {
        let (algorithm, state, now) = (&self.algorithm, &mut self.state, instant(now));
        match call {
            Call::Check(cost) => {
                let (_, snapshot) = algorithm.step(state, cost, now);
                return Admission::of(algorithm, cost, snapshot);
            }
            Call::Look(cost) => {
                let seen = Ask::Look(cost).decide(algorithm, state, now);
                return Admission::of(algorithm, cost, seen.snapshot);
            }
            Call::Debit(units) => algorithm.debit(state, units.into(), now),
            Call::Refund(cost) => algorithm.refund(state, cost, now),
            Call::Reset => *state = algorithm.fresh(instant(0)),
            Call::Override(_) => unreachable!("a state has none"),
            Call::End(admission, ending) => {
                for told in ending.told(admission.cost) {
                    algorithm.end(state, admission.snapshot::<A>(), told, now);
                }
            }
        }
        None
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
        match self.limiters {
            Limiters::InMemory(make) => make(self.algorithm.clone(), clock),
            _ => panic!("there is no limiter in memory"),
        }
    }

    fn limiter_over(&self, store: RedisStore, key: String) -> Box<dyn SharedLimiter> {
        match self.limiters {
            Limiters::OverRedis(make) => make(self.algorithm.clone(), store, key),
            _ => panic!("there is no limiter over Redis"),
        }
    }

    fn policy_id(&self) -> PolicyId {
        self.algorithm.policy_id()
    }

    fn with_the_numbers_of(&self, other: &dyn Bucket) -> Box<dyn Bucket> {
        let other: Option<&Self> = other.as_any().downcast_ref();
        Box::new(Self {
            algorithm: other.expect("the same type").algorithm.clone(),
            ..self.clone()
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The public face, for one key.
pub trait Limiter {
    /// Asks the limiter; no request ends.
    fn ask(&self, call: Call<'_>) -> Option<Decision>;
    /// Whether the store has an entry for the key.
    fn is_known(&self) -> bool;
}

impl dyn Limiter + '_ {
    /// `check_cost`.
    pub fn check(&self, cost: u32) -> Decision {
        self.ask(Call::Check(cost)).expect("a decision")
    }

    /// `peek`.
    pub fn peek(&self) -> Decision {
        self.ask(Call::Look(1)).expect("what it would decide")
    }
}

struct Keyed<A: KeyLimit> {
    limiter: RateLimiter<A, LocalStore<A, String, ManualClock>>,
    store: LocalStore<A, String, ManualClock>,
}

const KEY: &str = "bob";

impl<A: KeyLimit> Limiter for Keyed<A> {
    fn ask(&self, call: Call<'_>) -> Option<Decision> {
        let limiter = &self.limiter;
        let written = match call {
            Call::Check(cost) => return at_once(limiter.check_cost(KEY, cost)).ok(),
            Call::Look(_) => return at_once(limiter.peek(KEY)).ok(),
            Call::Debit(units) => at_once(limiter.debit(KEY, units)),
            Call::Refund(cost) => at_once(limiter.refund(KEY, cost)),
            Call::Reset => at_once(limiter.reset(KEY)),
            Call::Override(Override {
                until,
                lets_through: true,
            }) => at_once(limiter.let_through_until(KEY, until)),
            Call::Override(told) => at_once(limiter.refuse_until(KEY, told.until)),
            Call::End(..) => unreachable!("no request ends"),
        };
        written.expect("a store that never fails");
        None
    }

    fn is_known(&self) -> bool {
        self.store.usage().keys > 0
    }
}

/// The output of a future that is ready at once: the store in memory never waits.
pub fn at_once<F: Future>(future: F) -> F::Output {
    future
        .now_or_never()
        .expect("the store in memory waits for nothing")
}
