//! Requests in flight: random histories in which they begin, end in some way, or are forgotten by a
//! reset, under a clock that jumps anywhere.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Hold, RateLimiter, Timestamp, algorithm::InFlight, clock::ManualClock, store::LocalStore,
};
use tollgate_properties::{for_all, subject::at_once};

const START: u64 = 1 << 50;
const KEYS: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    BackBy(u64),
    /// A request of this key, under one of the plans, of this cost.
    Begin(usize, usize, u32),
    /// Ends one of those in flight, in one of the ways.
    End(usize, How),
    Reset(usize),
}

#[derive(Debug, Clone, Copy)]
enum How {
    Dropped,
    Settled(u32),
    /// By two clones, one after the other.
    Twice,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let how = prop_oneof![
        Just(How::Dropped),
        (0..=5_u32).prop_map(How::Settled),
        Just(How::Twice)
    ];
    let step = prop_oneof![
        2 => (0..=9_u64).prop_map(Step::Wait),
        1 => (0..=1_u64 << 46).prop_map(Step::Wait),
        1 => (0..=1_u64 << 46).prop_map(Step::BackBy),
        8 => (0..KEYS, 0..2_usize, prop_oneof![Just(0), Just(1), Just(u32::MAX)])
            .prop_map(|(key, plan, cost)| Step::Begin(key, plan, cost)),
        7 => (0..8_usize, how).prop_map(|(which, how)| Step::End(which, how)),
        1 => (0..KEYS).prop_map(Step::Reset),
    ];
    prop::collection::vec(step, 1..60)
}

/// A request in flight: of which key, and since which reset of it.
struct Running {
    hold: Hold,
    key: usize,
    era: usize,
}

impl Running {
    fn end(self, how: How) {
        match how {
            How::Dropped => drop(self.hold),
            How::Settled(units) => drop(self.hold.settle(units)),
            How::Twice => {
                let clone = self.hold.clone();
                drop(clone.settle(0));
                drop((clone, self.hold));
            }
        }
    }
}

type Limiter = RateLimiter<InFlight, LocalStore<InFlight, usize, ManualClock>>;

fn limiters(plans: [u64; 2], max_keys: usize) -> ([Limiter; 2], ManualClock) {
    let clock = ManualClock::at(Timestamp::from_micros(START));
    let store = LocalStore::builder().clock(clock.clone());
    let store = store.max_keys(max_keys).build();
    let limiter = |n| RateLimiter::new(InFlight::new(n).named("at-once"), store.clone());
    (plans.map(limiter), clock)
}

fn held<S>(limiter: &RateLimiter<InFlight, S>, key: usize, cost: u32) -> Option<Hold>
where
    S: tollgate::store::Store<InFlight, usize>,
{
    let held = at_once(limiter.hold(&key, cost));
    held.expect("memory never fails").ok()
}

#[test]
fn a_request_is_admitted_if_and_only_if_fewer_than_n_of_its_key_are_in_flight() {
    let values = ((0..=4_u64, 0..=4_u64), steps());
    for_all(values, |((first, second), steps)| {
        let plans = [first, second];
        let (limiters, clock) = limiters(plans, 100);
        let (mut now, mut running) = (START, Vec::<Running>::new());
        let (mut in_flight, mut eras) = ([0; KEYS], [0; KEYS]);
        for step in steps {
            match step {
                Step::Wait(micros) => now += micros,
                Step::BackBy(micros) => now -= micros.min(now - 1),
                Step::Begin(key, plan, cost) => {
                    let fits = cost == 0 || in_flight[key] < plans[plan];
                    let hold = held(&limiters[plan], key, cost);
                    prop_assert_eq!(hold.is_some(), fits, "{:?}: {:?}", step, in_flight);
                    if let Some(hold) = hold.filter(|_| cost > 0) {
                        in_flight[key] += 1;
                        let era = eras[key];
                        running.push(Running { hold, key, era });
                    }
                }
                Step::End(which, how) if !running.is_empty() => {
                    let ended = running.swap_remove(which % running.len());
                    in_flight[ended.key] -= u64::from(eras[ended.key] == ended.era);
                    ended.end(how);
                }
                Step::End(..) => {}
                Step::Reset(key) => {
                    limiters[0].reset(&key).now();
                    // One that begins within the same microsecond cannot be told from one before
                    // the reset.
                    now += 1;
                    (in_flight[key], eras[key]) = (0, eras[key] + 1);
                }
            }
            clock.set(Timestamp::from_micros(now));
            for (limiter, n) in limiters.iter().zip(plans) {
                for (key, taken) in in_flight.iter().enumerate() {
                    let peeked = limiter.peek(&key).now();
                    prop_assert_eq!(peeked.remaining(), n.saturating_sub(*taken), "{:?}", step);
                    prop_assert_eq!(peeked.retry_after(), None);
                    prop_assert_eq!(peeked.never_fits(), n == 0);
                }
            }
        }
        drop(running);
        for (limiter, n) in limiters.iter().zip(plans) {
            for key in 0..KEYS {
                prop_assert_eq!(limiter.peek(&key).now().remaining(), n, "a place is lost");
            }
        }
        Ok(())
    });
}

#[test]
fn in_a_full_store_too_no_place_is_lost() {
    let values = (1..=4_u64, 1..=2_usize, steps());
    for_all(values, |(n, max_keys, steps)| {
        let (limiters, clock) = limiters([n, n], max_keys);
        let (mut now, mut latest, mut running) = (START, START, Vec::<Running>::new());
        for step in steps {
            match step {
                Step::Wait(micros) => now += micros,
                Step::BackBy(micros) => now -= micros.min(now - 1),
                Step::Begin(key, plan, cost) => {
                    if let Some(hold) = held(&limiters[plan], key, cost).filter(|_| cost > 0) {
                        running.push(Running { hold, key, era: 0 });
                    }
                    // Keys that share places have n together; a key with an entry has n of its own.
                    let of_one = |key| running.iter().filter(|one| one.key == key).count() as u64;
                    let most = (0..KEYS).map(of_one).max().unwrap_or(0);
                    prop_assert!(most <= 2 * n, "{} of one key", most);
                }
                Step::End(which, how) if !running.is_empty() => {
                    running.swap_remove(which % running.len()).end(how);
                }
                Step::End(..) | Step::Reset(_) => {}
            }
            latest = latest.max(now);
            clock.set(Timestamp::from_micros(now));
        }
        drop(running);
        // A key keeps the shared places that it has taken over for a minute at most.
        clock.set(Timestamp::from_micros(latest));
        clock.advance(Duration::from_secs(60));
        for key in 0..KEYS {
            let remaining = limiters[0].peek(&key).now().remaining();
            prop_assert_eq!(remaining, n, "a place is lost");
        }
        Ok(())
    });
}
