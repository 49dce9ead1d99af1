//! Several keys in one check do what a plain model says: for each limit a map from key to state.
//! All of them are looked at; if all admit, each is charged alone.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    Decision, EachOf,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, MinInterval, Scripted, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
    clock::ManualClock,
    store::LocalStore,
};
use tollgate_properties::{
    call::Call,
    cases, for_so_many,
    history::{History, forward_history_with_debits},
    numbers::{Numbers, numbers},
    replay::wait_of,
    shared::over,
    subject::{self, Bucket, at_once, instant},
};

type Keys = Vec<Option<u8>>;

/// What one limit knows.
struct Place {
    /// The state of a key that was never seen.
    fresh: Box<dyn Bucket>,
    known: BTreeMap<u8, Box<dyn Bucket>>,
}

struct Model(Vec<Place>);

impl Model {
    /// The states of the keys that are present.
    fn states(&self, keys: &Keys) -> Vec<&dyn Bucket> {
        let mut states: Vec<&dyn Bucket> = Vec::new();
        for (place, key) in self.0.iter().zip(keys) {
            states.extend(key.map(|key| &**place.known.get(&key).unwrap_or(&place.fresh)));
        }
        states
    }

    /// What each limit says, all together.
    fn told(told: Vec<Decision>) -> Decision {
        let each = told.iter().flat_map(|told| told.policies().to_vec());
        let mut each: Vec<_> = each.collect();
        match each.len() {
            1 => Decision::of_one(each.remove(0)),
            _ => Decision::of_all(each),
        }
    }

    /// What they say if none is charged. A limit that admits what another one refuses is asked
    /// about nothing.
    fn looked(&self, keys: &Keys, cost: u32, now: i128) -> (bool, Decision) {
        let states = self.states(keys);
        let told = |state: &&dyn Bucket| {
            let told = state.peek(cost, now);
            match told.is_admitted() {
                true => state.peek(0, now),
                false => told,
            }
        };
        let told: Vec<_> = states.iter().map(told).collect();
        let all_admit = told.iter().all(Decision::is_admitted);
        (all_admit, Self::told(told))
    }

    /// Charges, gives back or forgets, each key alone.
    fn each(&mut self, keys: &Keys, call: Call<'_>, now: i128) -> Vec<Decision> {
        let mut told = Vec::new();
        for (Place { fresh, known }, key) in self.0.iter_mut().zip(keys) {
            let Some(key) = key else { continue };
            match call {
                Call::Debit(0) => {}
                Call::Check(_) | Call::Debit(_) => {
                    let state = known.entry(*key).or_insert_with(|| fresh.fork());
                    told.extend(state.ask(call, now).map(|told| told.decision));
                }
                Call::Reset => drop(known.remove(key)),
                call => drop(known.get_mut(key).map(|state| state.ask(call, now))),
            }
        }
        told
    }

    fn check(&mut self, keys: &Keys, cost: u32, now: i128) -> Decision {
        match self.looked(keys, cost, now) {
            (true, _) if cost > 0 => Self::told(self.each(keys, Call::Check(cost), now)),
            (_, told) => told,
        }
    }
}

/// Asks about these keys.
type Ask = dyn Fn(&Keys, Call<'_>) -> Option<Decision>;

/// Limits over a store in memory: asks, and says how many keys have an entry.
struct Real {
    ask: Box<Ask>,
    entries: Box<dyn Fn() -> usize>,
}

/// How it is opened, and what it should do.
struct Subject {
    name: &'static str,
    open: Box<dyn Fn(ManualClock) -> Real>,
    /// A state of each of its limits.
    fresh: Vec<Box<dyn Bucket>>,
}

fn triple<A, B, C>(name: &'static str, (a, b, c): (A, B, C)) -> Subject
where
    A: Scripted,
    B: Scripted,
    C: Scripted,
{
    let limits = EachOf((a.clone(), b.clone(), c.clone()));
    let open = move |clock| {
        let store = LocalStore::builder().clock(clock).max_keys(16).build();
        let (limits, usage) = (limits.clone(), store.clone());
        Real {
            ask: Box::new(move |keys, call| {
                let keys = EachOf((keys[0], keys[1], keys[2]));
                let asked = over(limits.clone(), store.clone(), keys);
                let told = at_once(asked.ask(call)).expect("memory never fails");
                told.map(|told| told.decision)
            }),
            entries: Box::new(move || usage.usage().keys),
        }
    };
    fn state(name: &'static str, rule: impl Scripted) -> Box<dyn Bucket> {
        subject::Subject::without_limiter(name, rule, []).bucket
    }
    Subject {
        name,
        open: Box::new(open),
        fresh: vec![state(name, a), state(name, b), state(name, c)],
    }
}

/// Mixes of all algorithms: three limits, each for a key of its own.
#[rustfmt::skip]
fn subjects(numbers: &Numbers) -> Vec<Subject> {
    let (quota, other, burst) = (numbers.quota(), numbers.other_quota(), numbers.burst);
    let (step, gap) = (numbers.precision(), numbers.interval());
    let fixed = || FixedWindow::new(quota).named("fixed");
    let first = || FixedWindow::new(other).from_first_request().named("first");
    let log = || SlidingLog::new(quota).named("log");
    let sliding = || SlidingWindow::new(other).named("sliding");
    let buckets = || SlidingBuckets::new(quota, step).named("buckets");
    let strict = || SlidingBuckets::new(quota, step).strict().named("strict");
    let token = || TokenBucket::new(quota).burst(burst).named("token");
    let leaky = || LeakyBucket::new(quota).named("leaky");
    let queue = || LeakyBucket::new(quota).capacity(burst).queue().named("queue");
    let gcra = || Gcra::new(other).named("gcra");
    let gap = || MinInterval::new(gap).named("gap");
    let requests = || TokenBucket::new(quota).per_request().named("requests");
    vec![
        triple("token, fixed, queue", (token(), fixed(), queue())),
        triple("the same thrice", (log(), log(), log())),
        triple("interval, (gcra, sliding), first", (gap(), (gcra(), sliding()), first())),
        triple("leaky, (queue, strict), buckets", (leaky(), (queue(), strict()), buckets())),
        triple("requests, (requests, tokens), log", (requests(), (requests(), token()), log())),
        triple("gcra, log, interval", (gcra(), log(), gap())),
        triple("queue, sliding, fixed", (queue(), sliding(), fixed())),
        triple("strict, token, first", (strict(), token(), first())),
        triple("(fixed, interval), buckets, queue", ((fixed(), gap()), buckets(), queue())),
    ]
}

fn keys() -> impl Strategy<Value = Keys> {
    let key = prop_oneof![1 => Just(None), 4 => (0..3_u8).prop_map(Some)];
    let keys = prop::collection::vec(key, 3);
    keys.prop_filter("somebody", |keys| keys.iter().any(Option::is_some))
}

struct Run {
    real: Real,
    model: Model,
    now: i128,
}

impl Run {
    fn looks_alike(&self, keys: &Keys) -> TestCaseResult {
        let should = |keys: &Keys| Some(self.model.looked(keys, 1, self.now).1);
        let look = Call::Look(1);
        prop_assert_eq!((self.real.ask)(keys, look), should(keys));
        for place in 0..self.model.0.len() {
            let mut alone = vec![None; 3];
            alone[place] = keys[place];
            if alone[place].is_some() {
                prop_assert_eq!((self.real.ask)(&alone, look), should(&alone));
            }
        }
        Ok(())
    }

    /// Decides as the model does, and leaves every key that was asked about as the model does; says
    /// how long to wait.
    fn step(&mut self, call: Call<'_>, keys: &Keys) -> Result<i128, TestCaseError> {
        let mut wait = 0;
        let before = (self.real.entries)();
        let decision = (self.real.ask)(keys, call);
        match (call, decision) {
            (Call::Check(cost), Some(decision)) => {
                let took_a_place = (self.real.entries)() > before;
                prop_assert_eq!(&decision, &self.model.check(keys, cost, self.now));
                prop_assert!(decision.is_admitted() || !took_a_place, "a refused key");
                wait = wait_of(&decision);
            }
            _ => drop(self.model.each(keys, call, self.now)),
        }
        self.looks_alike(keys)?;
        Ok(wait)
    }
}

fn does_what_the_model_says(
    subject: &Subject,
    numbers: &Numbers,
    (history, keys): &(History, Vec<Keys>),
) -> TestCaseResult {
    let span = i128::from(numbers.period.max(numbers.other_period));
    let clock = ManualClock::at(instant(history.start));
    let places = subject.fresh.iter().map(|state| Place {
        fresh: state.fork(),
        known: BTreeMap::new(),
    });
    let mut run = Run {
        real: (subject.open)(clock.clone()),
        model: Model(places.collect()),
        now: history.start,
    };
    let mut wait = 0;
    for (step, keys) in history.steps.iter().zip(keys) {
        run.now = step.turn.within(run.now, wait, [span; 2]);
        clock.set(instant(run.now));
        wait = run.step(step.op.call(numbers.units), keys)?;
    }
    Ok(())
}

#[test]
fn every_decision_is_the_models() {
    let happened = (
        forward_history_with_debits(),
        prop::collection::vec(keys(), 80),
    );
    let values = (numbers(), happened);
    for_so_many(cases() / 4 + 1, values, |(numbers, happened)| {
        for subject in subjects(&numbers) {
            does_what_the_model_says(&subject, &numbers, &happened)
                .map_err(|error| TestCaseError::fail(format!("{}: {error}", subject.name)))?;
        }
        Ok(())
    });
}
