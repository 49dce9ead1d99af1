//! Several keys in one check do what a plain model says: for each limit a map from key to state,
//! stepped by hand, part by part: `step` charges before the other limits are asked.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    Decision, EachOf, PolicyDecision, RateLimiter,
    algorithm::{
        FixedWindow, Gcra, KeyLimit, LeakyBucket, MinInterval, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
    clock::ManualClock,
    store::LocalStore,
};
use tollgate_properties::{
    cases, for_so_many,
    history::LAST,
    numbers::{Numbers, numbers},
    replay::wait_of,
    subject::{at_once, instant},
};

type Keys = Vec<Option<u8>>;

/// What the limit of one key should do.
trait Place {
    /// Whether it admits the cost of this key.
    fn admits(&self, key: u8, cost: u32, now: i128) -> bool;
    /// Charges.
    fn charge(&mut self, key: u8, cost: u32, now: i128);
    /// What it says after a decision that all limits made together.
    fn told(&self, key: u8, cost: u32, all_admit: bool, now: i128) -> Vec<PolicyDecision>;
    /// Gives back.
    fn refund(&mut self, key: u8, cost: u32, now: i128);
    /// Forgets.
    fn reset(&mut self, key: u8);
}

struct Plain<A: KeyLimit> {
    algorithm: A,
    states: BTreeMap<u8, A::State>,
}

impl<A: KeyLimit> Plain<A> {
    fn state(&self, key: u8) -> A::State {
        let fresh = || self.algorithm.fresh(instant(0));
        self.states.get(&key).cloned().unwrap_or_else(fresh)
    }
}

impl<A: KeyLimit> Place for Plain<A> {
    fn admits(&self, key: u8, cost: u32, now: i128) -> bool {
        let state = self.state(key);
        self.algorithm.judge(&state, cost, instant(now))
    }

    fn charge(&mut self, key: u8, cost: u32, now: i128) {
        let mut state = self.state(key);
        self.algorithm.charge(&mut state, cost, instant(now));
        self.states.insert(key, state);
    }

    fn told(&self, key: u8, cost: u32, all_admit: bool, now: i128) -> Vec<PolicyDecision> {
        let state = self.state(key);
        // A limit that admits what another one refuses was not charged, as by a cost of 0.
        let spared = !all_admit && self.admits(key, cost, now);
        let (cost, admitted) = if spared { (0, true) } else { (cost, all_admit) };
        let snapshot = (self.algorithm).snapshot(&state, cost, admitted, instant(now));
        let mut told = Vec::new();
        (self.algorithm).describe(&snapshot, &mut |policy| told.push(policy));
        told
    }

    fn refund(&mut self, key: u8, cost: u32, now: i128) {
        if let Some(state) = self.states.get_mut(&key) {
            self.algorithm.refund(state, cost, instant(now));
        }
    }

    fn reset(&mut self, key: u8) {
        self.states.remove(&key);
    }
}

fn plain<A: KeyLimit>(algorithm: A) -> Box<dyn Place> {
    Box::new(Plain {
        algorithm,
        states: BTreeMap::new(),
    })
}

struct Model(Vec<Box<dyn Place>>);

impl Model {
    fn present(&self, keys: &Keys) -> impl Iterator<Item = (&dyn Place, u8)> {
        let places = self.0.iter().zip(keys.clone());
        places.filter_map(|(place, key)| Some((&**place, key?)))
    }

    fn each(&mut self, keys: &Keys, mut write: impl FnMut(&mut dyn Place, u8)) {
        for (place, key) in self.0.iter_mut().zip(keys) {
            if let Some(key) = key {
                write(&mut **place, *key);
            }
        }
    }

    fn admits(&self, keys: &Keys, cost: u32, now: i128) -> bool {
        (self.present(keys)).all(|(place, key)| place.admits(key, cost, now))
    }

    fn told(&self, keys: &Keys, cost: u32, all_admit: bool, now: i128) -> Decision {
        let told = self.present(keys);
        let told = told.flat_map(|(place, key)| place.told(key, cost, all_admit, now));
        let mut told: Vec<_> = told.collect();
        match told.len() {
            1 => Decision::of_one(told.remove(0)),
            _ => Decision::of_all(told),
        }
    }

    fn check(&mut self, keys: &Keys, cost: u32, now: i128) -> Decision {
        let admitted = self.admits(keys, cost, now);
        if admitted && cost > 0 {
            self.each(keys, |place, key| place.charge(key, cost, now));
        }
        self.told(keys, cost, admitted, now)
    }

    fn peek(&self, keys: &Keys, now: i128) -> Decision {
        let admitted = self.admits(keys, 1, now);
        self.told(keys, u32::from(!admitted), admitted, now)
    }
}

/// The public face, for any number of keys.
trait Real {
    fn check(&self, keys: &Keys, cost: u32) -> Decision;
    fn peek(&self, keys: &Keys) -> Decision;
    fn refund(&self, keys: &Keys, cost: u32);
    fn reset(&self, keys: &Keys);
    /// How many keys have an entry.
    fn entries(&self) -> usize;
}

struct InMemory<L, K>(L, K);

/// How a limiter is opened, and what it should do.
struct Subject {
    name: &'static str,
    open: Box<dyn Fn(ManualClock) -> Box<dyn Real>>,
    model: Box<dyn Fn() -> Model>,
}

macro_rules! places {
    ($open:ident, $($A:ident $algorithm:ident $key:ty, $place:tt);+) => {
        /// A limiter over these algorithms, and what it should do.
        fn $open<$($A: KeyLimit),+>(name: &'static str, ($($algorithm,)+): ($($A,)+)) -> Subject {
            type AllKeys = EachOf<($(Option<$key>,)+)>;
            type Limits<$($A),+> = EachOf<($($A,)+)>;
            type Store<$($A),+> = LocalStore<Limits<$($A),+>, AllKeys, ManualClock>;
            fn keys(keys: &Keys) -> AllKeys {
                EachOf(($(keys[$place],)+))
            }
            impl<$($A: KeyLimit),+> Real
                for InMemory<RateLimiter<Limits<$($A),+>, Store<$($A),+>>, Store<$($A),+>>
            {
                fn check(&self, of: &Keys, cost: u32) -> Decision {
                    at_once(self.0.check_cost(&keys(of), cost)).unwrap()
                }
                fn peek(&self, of: &Keys) -> Decision {
                    at_once(self.0.peek(&keys(of))).unwrap()
                }
                fn refund(&self, of: &Keys, cost: u32) {
                    at_once(self.0.refund(&keys(of), cost)).unwrap();
                }
                fn reset(&self, of: &Keys) {
                    at_once(self.0.reset(&keys(of))).unwrap();
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
                model: Box::new(move || Model(vec![$(plain($algorithm.clone())),+])),
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
    op: Op,
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

#[derive(Debug, Clone, Copy)]
enum Op {
    Check(u32),
    Refund(u32),
    Reset,
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
    let op = prop_oneof![
        11 => cost().prop_map(Op::Check),
        1 => (0..5_u32).prop_map(Op::Refund),
        1 => Just(Op::Reset),
    ];
    let step = (turn, op, keys())
        .prop_map(|(turn, op, keys)| Step { turn, op, keys })
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
        prop_assert_eq!(self.real.peek(keys), self.model.peek(keys, self.now));
        for place in 0..self.model.0.len() {
            let mut alone = vec![None; 3];
            alone[place] = keys[place];
            if alone[place].is_some() {
                prop_assert_eq!(self.real.peek(&alone), self.model.peek(&alone, self.now));
            }
        }
        Ok(())
    }

    /// Decides as the model does, and leaves every key that was asked about as the model does; says
    /// how long to wait.
    fn step(&mut self, op: Op, keys: &Keys) -> Result<i128, TestCaseError> {
        let (now, mut wait) = (self.now, 0);
        match op {
            Op::Check(cost) => {
                let before = self.real.entries();
                let decision = self.real.check(keys, cost);
                prop_assert_eq!(&decision, &self.model.check(keys, cost, now));
                let took_a_place = self.real.entries() > before;
                prop_assert!(decision.is_admitted() || !took_a_place, "a refused key");
                wait = wait_of(&decision);
            }
            Op::Refund(cost) => {
                self.real.refund(keys, cost);
                (self.model).each(keys, |place, key| place.refund(key, cost, now));
            }
            Op::Reset => {
                self.real.reset(keys);
                self.model.each(keys, |place, key| place.reset(key));
            }
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
    let mut run = Run {
        real: (subject.open)(clock.clone()),
        model: (subject.model)(),
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
        wait = run.step(step.op, &step.keys)?;
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
