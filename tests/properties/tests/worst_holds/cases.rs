//! Every state that callers can bring about with holds, in small numbers.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{collections::HashMap, fmt::Debug, time::Duration};

use tollgate::{Timestamp, algorithm::*};
use tollgate_algorithms::every_additive;
use tollgate_properties::{model::*, numbers::Numbers};

/// A multiple of all periods here.
const START: u64 = 5_040_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

/// When a unit is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// When it is charged: when its hold is settled, or when nobody has settled it and its time is
    /// up.
    Settlement,
    /// When its hold is admitted, if it is spent.
    Admission,
}

#[derive(Debug, Clone, Copy)]
struct Search {
    by: By,
    /// The length of the half-open span, in microseconds.
    span: u64,
    /// How long anything may happen before the span begins.
    before: u64,
    largest_cost: u32,
    /// How much more than it holds a request may spend.
    beyond: u32,
    /// Whether the key is reset in between.
    resets: bool,
}

#[derive(Debug, Clone)]
struct Receipt<S> {
    admission: S,
    /// The number of the plan that holds.
    plan: usize,
    cost: u32,
    /// Whether it still holds units; otherwise its time is up.
    is_open: bool,
    was_counted: bool,
}

impl<S: Debug> Receipt<S> {
    /// Of an admission only the generations matter that it names.
    fn key(&self) -> (Vec<String>, usize, u32, bool, bool) {
        let text = format!("{:?}", self.admission);
        let starts = text.split("generation_start_micros: ").skip(1);
        let number = |it: &str| it.chars().take_while(char::is_ascii_digit).collect();
        (
            starts.map(number).collect(),
            self.plan,
            self.cost,
            self.is_open,
            self.was_counted,
        )
    }
}

#[derive(Clone)]
struct Node<A: KeyLimit> {
    state: A::State,
    receipts: Vec<Receipt<A::Snapshot>>,
    counted: i64,
    /// What was spent beyond a hold in the span, or before it while others held what may be
    /// settled in it: the bounds do not count it.
    beyond: i64,
    history: Vec<String>,
}

impl<A: KeyLimit<State: Debug, Snapshot: Debug>> Node<A> {
    /// All that matters for what may come. Equal receipts are next to each other.
    fn key(&mut self) -> String {
        self.receipts.sort_by_cached_key(Receipt::key);
        let receipts: Vec<_> = self.receipts.iter().map(Receipt::key).collect();
        format!("{:?}{receipts:?}", self.state)
    }

    fn note(mut self, what: impl FnOnce() -> String) -> Self {
        self.history.push(what());
        assert!(self.history.len() < 200, "no end: {:?}", self.history);
        self
    }

    fn hold(
        &self,
        plans: &[A],
        (plan, cost): (usize, u32),
        now: u64,
        counts: bool,
    ) -> Option<Self> {
        let mut next = self.clone();
        let (admitted, admission) = plans[plan].step(&mut next.state, cost, at(now));
        let was_counted = counts && plan == COUNTED;
        next.counted += if was_counted { i64::from(cost) } else { 0 };
        next.receipts.push(Receipt {
            admission,
            plan,
            cost,
            is_open: true,
            was_counted,
        });
        admitted.then(|| next.note(|| format!("plan {plan} holds {cost} at {now}")))
    }

    fn settle(
        &self,
        plans: &[A],
        (index, spent): (usize, u32),
        by: By,
        (now, counts): (u64, bool),
    ) -> Self {
        let mut next = self.clone();
        let receipt = next.receipts.remove(index);
        let (plan, cost) = (receipt.plan, receipt.cost);
        let (rule, counts) = (&plans[plan], counts && plan == COUNTED);
        let ending = Ending::Settled { held: cost, spent };
        rule.end(&mut next.state, &receipt.admission, ending, at(now));
        let covered = if receipt.is_open { spent.min(cost) } else { 0 };
        let beyond = i64::from(spent.saturating_sub(cost));
        if counts && by == By::Settlement {
            next.counted += i64::from(covered) + beyond;
            next.beyond += beyond;
        } else if next.receipts.iter().any(|others| others.is_open) {
            next.beyond += beyond;
        }
        if receipt.was_counted && receipt.is_open {
            next.counted -= i64::from(cost - covered);
        }
        let late = if receipt.is_open { "" } else { ", late" };
        next.note(|| format!("plan {plan}: {spent} of {cost} at {now}{late}"))
    }

    /// What nobody has settled is spent when its time is up; one receipt of it is kept.
    fn end_generations(&mut self, plans: &[A], now: u64, counts: bool) {
        let rule = &plans[COUNTED];
        // A refund of nothing spends what has ended.
        let mut spent = self.state.clone();
        rule.refund(&mut spent, 0, at(now));
        for receipt in &mut self.receipts {
            if receipt.is_open && !rule.holds(&spent, &receipt.admission) {
                receipt.is_open = false;
                if counts && receipt.plan == COUNTED {
                    self.counted += i64::from(receipt.cost);
                }
            }
        }
        self.keep_one_that_is_gone();
        if plans.iter().all(|plan| plan.is_fresh(&self.state, at(now))) {
            self.state = rule.fresh(at(now));
        }
    }

    fn keep_one_that_is_gone(&mut self) {
        let gone = self.receipts.iter().filter(|it| !it.is_open).count();
        let mut too_many = gone.saturating_sub(1);
        self.receipts.retain(|it| {
            let keep = it.is_open || too_many == 0;
            too_many -= usize::from(!keep);
            keep
        });
    }

    /// A key that is reset is as one that was never seen: the bound begins anew, and what is held
    /// is gone.
    fn reset(&self, rule: &A, now: u64) -> Self {
        let mut next = self.clone();
        next.state = rule.fresh(at(now));
        (next.counted, next.beyond) = (0, 0);
        for receipt in &mut next.receipts {
            (receipt.is_open, receipt.was_counted) = (false, false);
        }
        next.keep_one_that_is_gone();
        next.note(|| format!("reset at {now}"))
    }

    /// What the bounds count; of equals, more with more beyond it.
    fn rank(&self) -> (i64, i64) {
        (self.counted - self.beyond, self.beyond)
    }
}

/// The number of the plan whose units are counted.
const COUNTED: usize = 0;

/// States, each by its key.
type Layer<A> = HashMap<String, Node<A>>;

/// The most that the bound of the first of these plans counts in any span, and how it comes about.
fn worst<A>(plans: &[A], search: Search) -> (i64, Vec<String>)
where
    A: KeyLimit<State: Debug, Snapshot: Debug>,
{
    let mut worst = (0, Vec::new());
    let begin = Node {
        state: plans[COUNTED].fresh(at(0)),
        receipts: Vec::new(),
        counted: 0,
        beyond: 0,
        history: Vec::new(),
    };
    let mut before: Layer<A> = HashMap::from([(String::new(), begin)]);
    for from in 0..=search.before {
        let mut layer = before.clone();
        for now in from..from + search.span {
            layer = tick(plans, search, layer, now, true);
        }
        let most = layer.into_values().max_by_key(Node::rank);
        let most = most.expect("a state");
        if most.rank().0 > worst.0 {
            worst = (most.rank().0, most.history);
        }
        before = tick(plans, search, before, from, false);
    }
    worst
}

/// All states at the end of this microsecond, each with the most that was counted on any way to it.
fn tick<A>(plans: &[A], search: Search, before: Layer<A>, now: u64, counts: bool) -> Layer<A>
where
    A: KeyLimit<State: Debug, Snapshot: Debug>,
{
    let counts_of = |by| counts && search.by == by;
    let mut layer: Layer<A> = HashMap::new();
    let mut open: Vec<Node<A>> = before.into_values().collect();
    for node in &mut open {
        node.end_generations(plans, now, counts_of(By::Settlement));
    }
    if search.resets {
        let held = open.iter().filter(|node| !node.receipts.is_empty());
        let reset: Vec<_> = held.map(|node| node.reset(&plans[COUNTED], now)).collect();
        open.extend(reset);
    }
    while let Some(mut node) = open.pop() {
        let key = node.key();
        if layer
            .get(&key)
            .is_some_and(|known| known.rank() >= node.rank())
        {
            continue;
        }
        for plan in 0..plans.len() {
            for cost in 1..=search.largest_cost {
                open.extend(node.hold(plans, (plan, cost), now, counts_of(By::Admission)));
            }
        }
        for (index, receipt) in node.receipts.iter().enumerate() {
            if index > 0 && node.receipts[index - 1].key() == receipt.key() {
                continue;
            }
            for spent in 0..=receipt.cost + search.beyond {
                open.push(node.settle(plans, (index, spent), search.by, (now, counts)));
            }
        }
        layer.insert(key, node);
    }
    layer
}

/// Quotas and how long is held at most: `(n, period, held_at_most)`.
pub(crate) const NUMBERS: [(u64, u64, u64); 4] = [(1, 1, 1), (1, 3, 1), (2, 2, 1), (2, 3, 2)];

const LARGEST_COST: u32 = 2;

pub(crate) fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Looks for the worst case by settlement and by admission, with what is spent beyond a hold and
/// without; counts the cases, and in how many the bound is reached.
#[derive(Default)]
pub(crate) struct Cases {
    pub(crate) all: u32,
    pub(crate) reached: u32,
}

impl Cases {
    #[track_caller]
    pub(crate) fn stays_within<A>(&mut self, what: &str, rule: &A, times: (u64, u64), bound: i128)
    where
        A: KeyLimit<State: Debug, Snapshot: Debug>,
    {
        self.stays_within_in_turn(what, std::slice::from_ref(rule), false, times, bound);
    }

    /// The first of these plans, while others are asked in turn, and the key may be reset.
    #[track_caller]
    fn stays_within_in_turn<A>(
        &mut self,
        what: &str,
        plans: &[A],
        resets: bool,
        (period, at_most): (u64, u64),
        bound: i128,
    ) where
        A: KeyLimit<State: Debug, Snapshot: Debug>,
    {
        let both = [By::Settlement, By::Admission];
        // Of several plans there are five times as many states with what is spent beyond a hold.
        let beyond = if plans.len() > 1 { 0..=0 } else { 0..=1 };
        let ways = |by| beyond.clone().map(move |beyond| (by, beyond));
        for (by, beyond) in both.into_iter().flat_map(ways) {
            let search = Search {
                by,
                span: period,
                before: 2 * at_most + period,
                largest_cost: LARGEST_COST,
                beyond,
                resets,
            };
            let (most, history) = worst(plans, search);
            assert!(
                i128::from(most) <= bound,
                "{what}, period {period}, held for {at_most}, {search:?}: {most} and not {bound}: {history:?}"
            );
            self.all += 1;
            self.reached += u32::from(i128::from(most) == bound);
        }
    }

    /// Every algorithm of the list with the numbers of these plans, if they share a state: the
    /// first one's bound.
    pub(crate) fn of_every_algorithm(&mut self, plans: &[Numbers], resets: bool, at_most: u64) {
        let numbers = plans[COUNTED];
        let times = (numbers.period, at_most);
        macro_rules! stays_within_its_bound {
            (($quota:ident, $burst:ident, $precision:ident, $interval:ident)
             $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {$(
                let settled = |plan: &Numbers| {
                    let ($quota, $burst) = (plan.quota(), plan.burst);
                    let $precision = plan.precision();
                    let _ = ($burst, $precision);
                    Settled::new($algorithm).held_at_most(micros(at_most))
                };
                let shape = |plan: &Numbers| $model($(plan.$number),*).shape();
                let rules: Vec<_> = plans.iter().map(settled).collect();
                let share = plans.iter().all(|plan| shape(plan) == shape(&numbers));
                let bound = match ($name, plans.len()) {
                    // What another plan charges may open the window of a plan that holds all of it.
                    ("window from first request", 2..) => fixed_window(numbers.units, numbers.period),
                    _ => $model($(numbers.$number),*),
                };
                let most = bound.bound(LARGEST_COST.into()).most;
                if share {
                    self.stays_within_in_turn($name, &rules, resets, times, most);
                }
            )+};
        }
        every_additive!(stays_within_its_bound, quota, burst, precision);
    }

    #[track_caller]
    pub(crate) fn are_all_reached(&self) {
        let (reached, all) = (self.reached, self.all);
        assert!(all > 0 && reached == all, "{reached} of {all}");
    }
}
