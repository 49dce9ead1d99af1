//! Units that are held and settled later: random histories of holds of all sizes, settled early,
//! late, with less and with more, or never; with resets, debits and clocks that step back.

use std::{fmt::Debug, time::Duration};

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{Timestamp, algorithm::*, store::Ask};
use tollgate_algorithms::for_every_additive;
use tollgate_properties::{
    for_all,
    numbers::{Held, held},
};

/// What happens, one after the other.
#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    BackBy(u64),
    Hold(u32),
    /// Settles one of the holds, chosen by the first number, with this share of it, in quarters.
    Settle(usize, u32),
    Debit(u32),
    Reset,
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..=4_u64).prop_map(Step::Wait),
        1 => (0..=40_u64).prop_map(Step::Wait),
        1 => (0..=40_u64).prop_map(Step::BackBy),
        6 => (0..=5_u32).prop_map(Step::Hold),
        5 => (0..8_usize, 0..=9_u32).prop_map(|(which, quarters)| Step::Settle(which, quarters)),
        1 => (1..=9_u32).prop_map(Step::Debit),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..40)
}

/// A hold that may still be settled.
struct Receipt<S> {
    admission: S,
    cost: u32,
    /// Its number.
    generation: usize,
}

/// A generation as the docs say it: it takes holds for one time, and ends after two.
struct Generation {
    start: u64,
    held: u64,
    has_ended: bool,
}

const START: u64 = 1_000_000;

/// Plays the steps on a settled algorithm, beside the algorithm alone, which is charged what is
/// settled, when it is settled, and what nobody has settled at the end of its generation.
struct Played<A: Additive> {
    settled: Settled<A>,
    alone: A,
    held_at_most: u64,
    now: u64,
    state: <Settled<A> as KeyLimit>::State,
    plain: A::State,
    receipts: Vec<Receipt<<Settled<A> as Limit>::Snapshot>>,
    generations: Vec<Generation>,
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

impl<A: Additive> Played<A>
where
    A::State: Debug,
{
    fn new(alone: A, held_at_most: u64) -> Self {
        let settled = Settled::new(alone.clone()).held_at_most(Duration::from_micros(held_at_most));
        Self {
            state: settled.fresh(at(START)),
            plain: alone.fresh(at(START)),
            settled,
            alone,
            held_at_most,
            now: START,
            receipts: Vec::new(),
            generations: Vec::new(),
        }
    }

    /// Charges to the algorithm alone what ended generations still held.
    fn end_generations(&mut self) {
        for generation in &mut self.generations {
            let end = generation.start + 2 * self.held_at_most;
            if !generation.has_ended && generation.held > 0 && end <= self.now {
                generation.has_ended = true;
                self.alone.debit(&mut self.plain, generation.held, at(end));
            }
        }
    }

    fn held(&self) -> u64 {
        let running = self.generations.iter().filter(|one| !one.has_ended);
        running.map(|one| one.held).sum()
    }

    /// Says whether it was held, by both.
    fn hold(&mut self, cost: u32) -> (bool, bool) {
        self.end_generations();
        let now = at(self.now);
        let fits = cost == 0
            || self.alone.fits(
                &self.plain,
                self.alone.amount(self.held() + u64::from(cost)),
                now,
            );
        let (admitted, admission) = self.settled.step(&mut self.state, cost, now);
        if admitted && cost > 0 {
            // What nobody holds is as good as gone.
            let last = self.generations.last().filter(|_| self.held() > 0);
            let is_open = last
                .is_some_and(|last| !last.has_ended && self.now < last.start + self.held_at_most);
            if !is_open {
                self.generations.push(Generation {
                    start: self.now,
                    held: 0,
                    has_ended: false,
                });
            }
            let generation = self.generations.len() - 1;
            self.generations[generation].held += u64::from(cost);
            self.receipts.push(Receipt {
                admission,
                cost,
                generation,
            });
        }
        (admitted, fits)
    }

    fn settle(&mut self, which: usize, quarters: u32) {
        self.end_generations();
        let now = at(self.now);
        if self.receipts.is_empty() {
            return;
        }
        let receipt = self.receipts.remove(which % self.receipts.len());
        let spent = receipt.cost * quarters / 4;
        let held = receipt.cost;
        let ending = Ending::Settled { held, spent };
        (self.settled).end(&mut self.state, &receipt.admission, ending, now);
        let generation = &mut self.generations[receipt.generation];
        let charged = match generation.has_ended {
            true => spent.saturating_sub(receipt.cost),
            false => {
                generation.held -= u64::from(receipt.cost);
                spent
            }
        };
        if charged > 0 {
            self.alone.debit(&mut self.plain, charged.into(), now);
        }
    }

    fn play(&mut self, step: Step) -> (bool, bool) {
        match step {
            Step::Wait(micros) => self.now += micros,
            Step::BackBy(micros) => self.now -= micros,
            Step::Hold(cost) => return self.hold(cost),
            Step::Settle(which, quarters) => self.settle(which, quarters),
            Step::Debit(units) => {
                self.end_generations();
                let now = at(self.now);
                self.settled.debit(&mut self.state, units.into(), now);
                self.alone.debit(&mut self.plain, units.into(), now);
            }
            Step::Reset => {
                // A generation that begins within the same microsecond cannot be told from the one
                // before.
                self.now += 1;
                self.state = self.settled.fresh(at(self.now));
                self.plain = self.alone.fresh(at(self.now));
                for generation in &mut self.generations {
                    generation.has_ended = true;
                }
            }
        }
        (true, true)
    }
}

/// A hold is admitted if, and only if, the algorithm alone would admit it and all that is held; and
/// its decision is true. The state is fresh once nothing is held and that of the rule alone is.
fn decides_as_the_algorithm_alone<A: Additive<State: Debug>>(
    name: &str,
    mut played: Played<A>,
    steps: &[Step],
) -> TestCaseResult {
    for (index, step) in steps.iter().enumerate() {
        let (admitted, fits) = played.play(*step);
        prop_assert_eq!(admitted, fits, "{}: step {} of {:?}", name, index, steps);
        if let Step::Hold(cost) = *step {
            played.what_is_told_is_true(name, cost)?;
        }
        played.end_generations();
        let Played { settled, alone, .. } = &played;
        let is_fresh = settled.is_fresh(&played.state, at(played.now));
        let should = played.held() == 0 && alone.is_fresh(&played.plain, at(played.now));
        prop_assert_eq!(is_fresh, should, "{}: step {} of {:?}", name, index, steps);
    }
    Ok(())
}

impl<A: Additive<State: Debug>> Played<A> {
    /// A look tells the same as a refusal: what is left, and how long to wait if all that is held
    /// is spent now.
    fn what_is_told_is_true(&self, name: &str, cost: u32) -> TestCaseResult {
        let now = at(self.now);
        let seen = Ask::Look(cost).decide(&self.settled, &mut self.state.clone(), now);
        let (admitted, told) = (seen.admitted, self.settled.decision_of(&seen.snapshot));
        let held = self.held();
        let remaining = told.remaining();
        let fits = |units: u64| self.alone.fits(&self.plain, self.alone.amount(units), now);
        let are_left = remaining == 0 || fits(held + remaining);
        prop_assert!(are_left, "{}: {:?}", name, told);
        prop_assert!(!fits(held + remaining + 1), "{}: {:?}", name, told);
        let mut spent = self.plain.clone();
        if held > 0 {
            self.alone.debit(&mut spent, held, now);
        }
        let later = |units: u64, micros: u64| {
            let amount = self.alone.amount(units);
            self.alone.fits(&spent, amount, at(self.now + micros))
        };
        let policy = &told.policies()[0];
        for (wait, units) in [
            (policy.replenished_after(), remaining + 1),
            (policy.reset_after(), policy.limit()),
        ] {
            if remaining < policy.limit() {
                let wait = u64::try_from(wait.as_micros()).unwrap();
                let is_exact = wait > 0 && !later(units, wait - 1) && later(units, wait);
                prop_assert!(is_exact, "{}: {} µs for {}: {:?}", name, wait, units, told);
            }
        }
        if admitted {
            return Ok(());
        }
        let later = |micros: u64| later(cost.into(), micros);
        match told.retry_after() {
            Some(wait) => {
                let wait = u64::try_from(wait.as_micros()).unwrap();
                prop_assert!(wait > 0, "{}: {:?}", name, told);
                prop_assert!(!later(wait - 1), "{}: before {} µs: {:?}", name, wait, told);
                prop_assert!(later(wait), "{}: after {} µs: {:?}", name, wait, told);
            }
            None => prop_assert!(told.never_fits() && !later(10_000), "{}: {:?}", name, told),
        }
        Ok(())
    }
}

/// A look tells what a request would be told that is refused, or that costs nothing.
fn looks_as_it_decides<A: Additive<State: Debug>>(
    name: &str,
    mut played: Played<A>,
    steps: &[Step],
) -> TestCaseResult {
    for step in steps {
        played.play(*step);
        let (settled, now) = (&played.settled, at(played.now));
        for cost in [0, 1, 3, 1_000] {
            let asks = [Ask::Look(cost), Ask::Charge(cost)];
            let [seen, told] = asks.map(|ask| ask.decide(settled, &mut played.state.clone(), now));
            let admitted = told.admitted;
            prop_assert_eq!(seen.admitted, admitted, "{}: {} in {:?}", name, cost, steps);
            if !admitted || cost == 0 {
                let [seen, told] = [seen, told].map(|one| settled.decision_of(&one.snapshot));
                prop_assert_eq!(seen, told, "{}: {} in {:?}", name, cost, steps);
            }
        }
    }
    Ok(())
}

/// However the clock goes a look is true; the decisions are, as long as it does not step back.
#[test]
fn a_hold_is_admitted_if_it_fits_beside_all_that_is_held_and_a_look_says_so() {
    for_all((held(1..=5), any_steps()), |(held, steps)| {
        let forward = steps.iter().copied();
        let forward = forward.filter(|step| !matches!(step, Step::BackBy(_)));
        let forward: Vec<_> = forward.collect();
        let Held { numbers, at_most } = held;
        let (quota, burst, precision) = (numbers.quota(), numbers.burst, numbers.precision());
        for_every_additive!(quota, burst, precision, |name, rule| {
            looks_as_it_decides(name, Played::new(rule.clone(), at_most), &steps)?;
            decides_as_the_algorithm_alone(name, Played::new(rule, at_most), &forward)?
        });
        Ok(())
    });
}
