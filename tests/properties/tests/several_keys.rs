//! Several keys in one check do what a plain model says: for each limit a map from key to state.
//! All of them are looked at; if all admit, each is charged alone.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    Decision, EachOf, RateLimiter,
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
    history::LAST,
    numbers::{Numbers, numbers},
    replay::wait_of,
    subject::{Bucket, at_once, instant},
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
                Call::Check(_) => {
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

/// The public face, for any number of keys.
trait Real {
    fn ask(&self, keys: &Keys, call: Call<'_>) -> Option<Decision>;
    /// How many keys have an entry.
    fn entries(&self) -> usize;
}

struct InMemory<L, K>(L, K);

/// How a limiter is opened, and what it should do.
struct Subject {
    name: &'static str,
    open: Box<dyn Fn(ManualClock) -> Box<dyn Real>>,
    /// A state of each of its limits.
    fresh: Vec<Box<dyn Bucket>>,
}

macro_rules! places {
    ($open:ident, $($A:ident $algorithm:ident $key:ty, $place:tt);+) => {
        /// A limiter over these algorithms, and what it should do.
        fn $open<$($A: Scripted),+>(name: &'static str, ($($algorithm,)+): ($($A,)+)) -> Subject {
            type AllKeys = EachOf<($(Option<$key>,)+)>;
            type Limits<$($A),+> = EachOf<($($A,)+)>;
            type Store<$($A),+> = LocalStore<Limits<$($A),+>, AllKeys, ManualClock>;
            fn keys(keys: &Keys) -> AllKeys {
                EachOf(($(keys[$place],)+))
            }
            impl<$($A: Scripted),+> Real
                for InMemory<RateLimiter<Limits<$($A),+>, Store<$($A),+>>, Store<$($A),+>>
            {
                fn ask(&self, of: &Keys, call: Call<'_>) -> Option<Decision> {
                    let keys = keys(of);
                    match call {
                        Call::Check(cost) => return at_once(self.0.check_cost(&keys, cost)).ok(),
                        Call::Refund(cost) => at_once(self.0.refund(&keys, cost)).unwrap(),
                        Call::Reset => at_once(self.0.reset(&keys)).unwrap(),
                        _ => return at_once(self.0.peek(&keys)).ok(),
                    }
                    None
                }
                fn entries(&self) -> usize {
                    self.1.usage().keys
                }
            }
            let limits = EachOf(($($algorithm.clone(),)+));
            Subject {
                name,
                open: Box::new(move |clock| {
                    let store = LocalStore::builder().clock(clock).max_keys(16).build();
                    Box::new(InMemory(RateLimiter::new(limits.clone(), store.clone()), store))
                }),
                fresh: vec![$(tollgate_properties::subject::Subject::without_limiter(name, $algorithm, []).bucket),+],
            }
        }
    };
}

places!(pair, A a u8, 0; B b u8, 1);
places!(triple, A a u8, 0; B b u8, 1; C c u8, 2);

/// Mixes of all algorithms.
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
        pair("token, fixed", (token(), fixed())),
        pair("the same twice", (log(), log())),
        pair("queue, log", (queue(), log())),
        pair("interval, buckets", (gap(), buckets())),
        pair("(gcra, sliding), first", ((gcra(), sliding()), first())),
        pair("leaky, (queue, strict)", (leaky(), (queue(), strict()))),
        pair("requests, (requests, tokens)", (requests(), (requests(), token()))),
        triple("gcra, log, interval", (gcra(), log(), gap())),
        triple("queue, sliding, fixed", (queue(), sliding(), fixed())),
        triple("strict, token, first", (strict(), token(), first())),
        triple("(fixed, interval), buckets, queue", ((fixed(), gap()), buckets(), queue())),
    ]
}

/// One step: the time moves, then something is asked of some keys.
#[derive(Debug, Clone)]
struct Step {
    turn: Turn,
    call: Call<'static>,
    keys: Keys,
}

/// How the time moves. Parts are in 255ths of twice the longer period.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Ticks(u8),
    Part(u8),
    ToTheEndOfTheWait,
    JustBeforeIt,
}

fn keys() -> impl Strategy<Value = Keys> {
    let key = prop_oneof![1 => Just(None), 4 => (0..3_u8).prop_map(Some)];
    let keys = prop::collection::vec(key, 3);
    keys.prop_filter("somebody", |keys| keys[..2].iter().any(Option::is_some))
}

fn cost() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 8 => Just(1_u32), 4 => 2..9_u32, 1 => Just(u32::MAX)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let turn = prop_oneof![
        6 => (0..6_u8).prop_map(Turn::Ticks),
        3 => any::<u8>().prop_map(Turn::Part),
        2 => Just(Turn::ToTheEndOfTheWait),
        1 => Just(Turn::JustBeforeIt),
    ];
    let call = prop_oneof![
        11 => cost().prop_map(Call::Check),
        1 => (0..5_u32).prop_map(Call::Refund),
        1 => Just(Call::Reset),
    ];
    let step = (turn, call, keys())
        .prop_map(|(turn, call, keys)| Step { turn, call, keys })
        .boxed();
    prop_oneof![9 => prop::collection::vec(step.clone(), 1..20), 1 => prop::collection::vec(step, 40..80)]
}

struct Run {
    clock: ManualClock,
    real: Box<dyn Real>,
    model: Model,
    now: i128,
}

impl Run {
    fn at(&mut self, now: i128) {
        self.now = now.clamp(0, LAST);
        self.clock.set(instant(self.now));
    }

    fn looks_alike(&self, keys: &Keys) -> TestCaseResult {
        let should = |keys: &Keys| Some(self.model.looked(keys, 1, self.now).1);
        let look = Call::Look(1);
        prop_assert_eq!(self.real.ask(keys, look), should(keys));
        for place in 0..self.model.0.len() {
            let mut alone = vec![None; 3];
            alone[place] = keys[place];
            if alone[place].is_some() {
                prop_assert_eq!(self.real.ask(&alone, look), should(&alone));
            }
        }
        Ok(())
    }

    /// Decides as the model does, and leaves every key that was asked about as the model does; says
    /// how long to wait.
    fn step(&mut self, call: Call<'_>, keys: &Keys) -> Result<i128, TestCaseError> {
        let mut wait = 0;
        let before = self.real.entries();
        let decision = self.real.ask(keys, call);
        match (call, decision) {
            (Call::Check(cost), Some(decision)) => {
                let took_a_place = self.real.entries() > before;
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
    steps: &[Step],
) -> TestCaseResult {
    let span = i128::from(numbers.period.max(numbers.other_period));
    let start = 1_700_000_000_000_000;
    let clock = ManualClock::at(instant(start));
    let places = subject.fresh.iter().map(|state| Place {
        fresh: state.fork(),
        known: BTreeMap::new(),
    });
    let mut run = Run {
        real: (subject.open)(clock.clone()),
        model: Model(places.collect()),
        clock,
        now: start,
    };
    let mut wait = 0;
    for step in steps {
        let moved = match step.turn {
            Turn::Ticks(ticks) => i128::from(ticks),
            Turn::Part(part) => 2 * span * i128::from(part) / 255,
            Turn::ToTheEndOfTheWait => wait,
            Turn::JustBeforeIt => (wait - 1).max(0),
        };
        run.at(run.now + moved);
        wait = run.step(step.call, &step.keys)?;
    }
    Ok(())
}

#[test]
fn every_decision_is_the_models() {
    for_so_many(cases() / 4 + 1, (numbers(), steps()), |(numbers, steps)| {
        for subject in subjects(&numbers) {
            does_what_the_model_says(&subject, &numbers, &steps)
                .map_err(|error| TestCaseError::fail(format!("{}: {error}", subject.name)))?;
        }
        Ok(())
    });
}
