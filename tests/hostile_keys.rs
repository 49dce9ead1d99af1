//! A key's own code may be hostile to `LocalStore`: its `Hash`, `Eq`, `Clone` and `Drop` may panic,
//! its `Clone` and `Drop` may call the same limiter, and all hashes may be equal. No slot is lost,
//! no bucket is opened, and nothing deadlocks.

use std::{
    cell::{Cell, RefCell},
    hash::{Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
};

use crate::in_time::in_time;
use crate::local::{MINUTE, admits, store};
use crate::ready::ready;
use crate::seen::panics;
use tollgate::{
    EachOf, Quota, RateLimiter,
    algorithm::{SlidingLog, TokenBucket},
    clock::ManualClock,
};

/// A key, or a part of a state, whose own code does what the test says, with the hash of its group.
#[derive(Debug)]
pub(crate) struct Rigged {
    group: u64,
    number: u64,
}

pub(crate) fn rigged(number: u64) -> Rigged {
    Rigged { group: 7, number }
}

/// The function of a key in which its own code does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum In {
    Hash,
    Eq,
    Clone,
    Drop,
}

type Does = Rc<dyn Fn(u64)>;

thread_local! {
    static RIGGED: RefCell<Option<(In, Does)>> = const { RefCell::new(None) };
}

fn run_own_code(place: In, number: u64) {
    let does = RIGGED.with_borrow(|rigged| match rigged {
        Some((at, does)) if *at == place => Some(Rc::clone(does)),
        _ => None,
    });
    if let Some(does) = does {
        does(number);
    }
}

/// Runs it while keys do this in that function; returns whether it panicked.
fn while_keys_do<T>(place: In, does: impl Fn(u64) + 'static, run: impl FnOnce() -> T) -> bool {
    RIGGED.set(Some((place, Rc::new(does))));
    let has_panicked = panics(run);
    let _ = RIGGED.take();
    has_panicked
}

/// Lets keys ask in that function, but for those that meanwhile come to it; returns how many asked.
pub(crate) fn asked_while(place: In, ask: impl Fn() + 'static, run: impl FnOnce()) -> usize {
    let (asked, asks) = (Rc::new(Cell::new(0)), Cell::new(false));
    let counts = Rc::clone(&asked);
    let does = move |_| {
        if !asks.replace(true) {
            ask();
            counts.set(counts.get() + 1);
            asks.set(false);
        }
    };
    assert!(!while_keys_do(place, does, run));
    asked.get()
}

/// Panics without printing, as the panic is intended.
fn panic_quietly() {
    resume_unwind(Box::new("a key's own code"));
}

fn while_keys_panic<T>(place: In, run: impl FnOnce() -> T) -> bool {
    while_keys_do(place, |_| panic_quietly(), run)
}

impl Hash for Rigged {
    fn hash<H: Hasher>(&self, state: &mut H) {
        run_own_code(In::Hash, self.number);
        self.group.hash(state);
    }
}

impl PartialEq for Rigged {
    fn eq(&self, other: &Self) -> bool {
        run_own_code(In::Eq, self.number);
        (self.group, self.number) == (other.group, other.number)
    }
}

impl Eq for Rigged {}

impl Clone for Rigged {
    fn clone(&self) -> Self {
        run_own_code(In::Clone, self.number);
        Self { ..*self }
    }
}

impl Drop for Rigged {
    fn drop(&mut self) {
        run_own_code(In::Drop, self.number);
    }
}

/// A limiter of one key, or of two at once that are equal.
#[derive(Clone)]
struct Limited {
    clock: ManualClock,
    admits: Rc<dyn Fn(&Rigged) -> bool>,
    reset: Rc<dyn Fn(&Rigged)>,
    /// The number of keys with an entry, and that of the decisions about others.
    usage: Rc<dyn Fn() -> (usize, u64)>,
}

impl Limited {
    fn admits(&self, key: &Rigged) -> bool {
        (self.admits)(key)
    }

    fn keys(&self) -> usize {
        (self.usage)().0
    }
}

/// Limits this many keys to this many units a minute.
type Of = fn(usize, u64) -> Limited;

fn of_one(max_keys: usize, units: u64) -> Limited {
    let (store, clock) = store(max_keys);
    let limiter = RateLimiter::new(SlidingLog::new(Quota::per_minute(units)), store.clone());
    let resets = limiter.clone();
    Limited {
        clock,
        admits: Rc::new(move |key| admits(&limiter, key)),
        reset: Rc::new(move |key| ready(resets.reset(key)).unwrap()),
        usage: Rc::new(move || (store.usage().keys, store.usage().overflow_decisions)),
    }
}

/// Makes the two keys without running their own code, neither now nor when they are dropped.
fn asks_with_two<T>(
    key: &Rigged,
    ask: impl FnOnce(&EachOf<(Option<Rigged>, Option<Rigged>)>) -> T,
) -> T {
    let copy = || Some(Rigged { ..*key });
    let two = EachOf((copy(), copy()));
    let asked = catch_unwind(AssertUnwindSafe(|| ask(&two)));
    let rigged = RIGGED.take();
    drop(two);
    RIGGED.set(rigged);
    asked.unwrap_or_else(|panic| resume_unwind(panic))
}

fn of_two(max_keys: usize, units: u64) -> Limited {
    let (store, clock) = store(max_keys);
    let quota = Quota::per_minute(units);
    let limits = EachOf((SlidingLog::new(quota), TokenBucket::new(quota)));
    let limiter = RateLimiter::new(limits, store.clone());
    let resets = limiter.clone();
    let check = move |two: &_| ready(limiter.check(two)).unwrap().is_admitted();
    let reset = move |two: &_| ready(resets.reset(two)).unwrap();
    Limited {
        clock,
        admits: Rc::new(move |key| asks_with_two(key, &check)),
        reset: Rc::new(move |key| asks_with_two(key, &reset)),
        usage: Rc::new(move || {
            let (keys, decisions) = (store.usage().keys, store.usage().overflow_decisions);
            assert!(keys % 2 == 0 && decisions % 2 == 0, "in two places");
            (keys / 2, decisions / 2)
        }),
    }
}

#[test]
fn a_key_that_panics_leaves_every_bucket_as_it_was() {
    for of in [of_one as Of, of_two] {
        let limiter = of(2, 3);
        let (known, newcomer) = (rigged(1), rigged(2));
        assert!(limiter.admits(&known));
        for place in [In::Eq, In::Hash] {
            assert!(while_keys_panic(place, || limiter.admits(&known)));
            assert!(while_keys_panic(place, || (limiter.reset)(&known)));
        }
        for _ in 0..5 {
            // A newcomer whose key cannot be cloned takes no slot.
            assert!(while_keys_panic(In::Clone, || limiter.admits(&newcomer)));
        }
        assert_eq!(limiter.keys(), 1);
        assert_eq!((0..5).filter(|_| limiter.admits(&known)).count(), 2);
        assert_eq!((0..5).filter(|_| limiter.admits(&newcomer)).count(), 3);
        assert_eq!((limiter.usage)(), (2, 0));
    }
}

/// A way to make calls.
type Calls<'a> = dyn Fn(&dyn Fn()) + 'a;

/// Idle keys, one that is known and alive, and some new ones, all with the same hash.
struct Leaving {
    limiter: Limited,
    known: Rc<Rigged>,
    idle: Rigged,
    newcomers: Vec<Rigged>,
}

const KEYS: usize = 20;
/// So many calls about a known key sweep everything.
const UNTIL_SWEPT: usize = 10_000;

impl Leaving {
    fn new(of: Of) -> Self {
        let limiter = of(KEYS, 1_000_000);
        let known: Vec<Rigged> = (0..KEYS as u64).map(rigged).collect();
        for key in &known {
            assert!(limiter.admits(key));
        }
        limiter.clock.advance(MINUTE);
        let known = Rc::new(rigged(0));
        assert!(limiter.admits(&known));
        assert_eq!(limiter.keys(), KEYS);
        let newcomers = (0..KEYS as u64 - 1).map(|number| rigged(100 + number));
        Self {
            limiter,
            known,
            idle: rigged(1),
            newcomers: newcomers.collect(),
        }
    }

    /// Calls about a known key evict idle keys.
    fn swept(&self, call: &Calls<'_>) {
        for _ in 0..UNTIL_SWEPT {
            call(&|| assert!(self.limiter.admits(&self.known)));
        }
        assert_eq!(self.limiter.keys(), 1);
    }

    /// Newcomers to a full store replace idle keys.
    fn replaced(&self, call: &Calls<'_>) {
        for newcomer in &self.newcomers {
            call(&|| assert!(self.limiter.admits(newcomer)));
        }
        assert_eq!((self.limiter.usage)(), (KEYS, 0));
    }

    /// A reset removes a key.
    fn reset(&self, call: &Calls<'_>) {
        call(&|| (self.limiter.reset)(&self.idle));
        assert_eq!(self.limiter.keys(), KEYS - 1);
    }
}

#[test]
fn a_key_that_leaves_may_ask_the_limiter_that_it_leaves() {
    fn run(of: Of, leave: impl Fn(&Leaving, &Calls<'_>)) {
        let leaving = Leaving::new(of);
        let asked = Cell::new(0);
        leave(&leaving, &|call| {
            let (limiter, known) = (leaving.limiter.clone(), Rc::clone(&leaving.known));
            // A check of two keys clones them, and those clones are dropped too.
            let ask = move || {
                limiter.admits(&known);
            };
            asked.set(asked.get() + asked_while(In::Drop, ask, call));
        });
        assert!(asked.get() > 0, "no key left");
    }
    for of in [of_one as Of, of_two] {
        in_time(move || {
            run(of, Leaving::swept);
            run(of, Leaving::replaced);
            run(of, |leaving, call| {
                call(&|| (leaving.limiter.reset)(&leaving.known));
                // It came back at once.
                assert_eq!(leaving.limiter.keys(), KEYS);
            });
        });
    }
}

#[test]
fn a_key_that_is_copied_may_ask_the_limiter() {
    for of in [of_one as Of, of_two] {
        in_time(move || {
            let limiter = of(2, 9);
            let asked = limiter.clone();
            let ask = move || assert!(asked.admits(&rigged(1)));
            let copied = || assert!(limiter.admits(&rigged(2)));
            assert!(asked_while(In::Clone, ask, copied) > 0);
            assert_eq!(limiter.keys(), 2);
        });
    }
}

#[test]
fn a_key_whose_drop_panics_leaves_its_place_to_others() {
    fn run(of: Of, leave: fn(&Leaving, &Calls<'_>)) {
        let leaving = Leaving::new(of);
        let panics = Cell::new(0);
        leave(&leaving, &|call| {
            let old = |number| {
                if (1..100).contains(&number) {
                    panic_quietly();
                }
            };
            let panicked = while_keys_do(In::Drop, old, call);
            panics.set(panics.get() + usize::from(panicked));
        });
        assert!(panics.get() > 0);
        // Exactly as many keys have an entry as there are slots.
        for newcomer in &leaving.newcomers {
            assert!(leaving.limiter.admits(newcomer));
        }
        assert!(leaving.limiter.admits(&leaving.known));
        let limiter = &leaving.limiter;
        assert_eq!((limiter.usage)(), (KEYS, 0));
        assert!(limiter.admits(&rigged(1_000)));
        assert_eq!((limiter.usage)(), (KEYS, 1));
    }
    for of in [of_one as Of, of_two] {
        run(of, Leaving::swept);
        run(of, Leaving::replaced);
        run(of, Leaving::reset);
    }
}

#[test]
fn keys_that_collide_on_purpose_are_decided_about_as_all_others() {
    const KEYS: u64 = 1_000;
    let (store, clock) = store(KEYS as usize);
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_minute(3)), store.clone());
    let all: Vec<Rigged> = (0..2 * KEYS).map(rigged).collect();
    let (known, newcomers) = all.split_at(KEYS as usize);
    let granted = |keys: &[Rigged]| -> usize {
        let of_each = |key| (0..5).filter(|_| admits(&limiter, key)).count();
        keys.iter().map(of_each).sum()
    };
    assert_eq!(granted(known), 3 * known.len());
    let usage = store.usage();
    assert_eq!((usage.keys, usage.overflow_decisions), (known.len(), 0));
    // There is no room for others: they share three units.
    assert_eq!(granted(newcomers), 3);
    assert_eq!(granted(known), 0);
    // They have become idle, and are evicted while another one calls.
    clock.advance(MINUTE);
    for _ in 0..400_000 {
        admits(&limiter, &all[0]);
    }
    assert_eq!(store.usage().keys, 1);
    let with_a_place = &newcomers[..newcomers.len() / 2];
    assert_eq!(granted(with_a_place), 3 * with_a_place.len());
    assert!(store.usage().keys <= known.len());
    ready(limiter.reset(&with_a_place[0])).unwrap();
    assert_eq!(granted(with_a_place), 3);
}
