//! The worst case of a rule in small numbers, found by visiting every state that callers can bring
//! about.

use std::{collections::HashMap, fmt::Debug};

use tollgate::algorithm::{Ending, KeyLimit};

use crate::{model::Counts, subject::instant};

/// What the callers may do, and what is counted.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// The length of the half-open span, in microseconds.
    pub span: u64,
    /// Costs of 1 up to this.
    pub largest_cost: u32,
    /// How long anything may happen before the span begins.
    pub before: u64,
    /// What is counted.
    pub counts: Counts,
    /// Whether requests that are delayed may be dropped.
    pub withdrawals: bool,
    /// Whether charges may be refunded later, one after the other. What is refunded is then not
    /// counted, nor what was refunded in the span and charged before it.
    pub refunds: bool,
}

impl Search {
    /// Units at the instant of their admission, in a span of this length.
    pub fn units(span: u64, largest_cost: u64) -> Self {
        Self {
            span,
            largest_cost: u32::try_from(largest_cost).expect("a small cost"),
            before: 2 * span + 1,
            counts: Counts::Units,
            withdrawals: false,
            refunds: false,
        }
    }
}

/// The most that was counted, and a history that leads to it.
#[derive(Debug, Clone, Default)]
pub struct Worst {
    /// The most.
    pub most: u64,
    /// How much more was counted because of charges from before the span that were refunded in it.
    pub refunded: u64,
    /// When the span begins.
    pub from: u64,
    /// How it comes about.
    pub history: Vec<Event>,
}

/// At which instant what happened to a request of which cost.
pub type Event = (u64, &'static str, u32);

#[derive(Clone)]
struct Waiting<A: KeyLimit> {
    release: u64,
    cost: u32,
    admission: A::Snapshot,
}

/// A charge that is going to be refunded.
#[derive(Debug, Clone, Copy)]
struct Refundable {
    cost: u32,
    was_counted: bool,
    /// Not at once, which would be as if nothing had been charged.
    is_older_than_now: bool,
}

#[derive(Clone)]
struct Node<A: KeyLimit> {
    state: A::State,
    waiting: Vec<Waiting<A>>,
    refundable: Option<Refundable>,
    counted: u64,
    /// What was refunded in the span and charged before it.
    refunded: u64,
    history: Vec<Event>,
}

impl<A: KeyLimit> Node<A> {
    /// What was counted without what a refund allows; of equals, more with more refunds.
    fn rank(&self) -> (i128, u64) {
        (
            i128::from(self.counted) - i128::from(self.refunded),
            self.refunded,
        )
    }
}

type Layer<A> = HashMap<String, Node<A>>;

/// The worst case over all spans that begin within `before` of a fresh state.
pub fn worst<A>(rule: &A, search: Search) -> Worst
where
    A: KeyLimit<State: Debug, Snapshot: Debug>,
{
    let mut worst = Worst::default();
    let mut highest = (0, 0);
    for from in 0..=search.before {
        let begin = Node {
            state: rule.fresh(instant(0)),
            waiting: Vec::new(),
            refundable: None,
            counted: 0,
            refunded: 0,
            history: Vec::new(),
        };
        let mut layer: Layer<A> = HashMap::from([(String::new(), begin)]);
        for now in 0..from + search.span {
            layer = tick(rule, search, layer, from, now);
        }
        let most = layer.into_values().max_by_key(Node::rank);
        let most = most.expect("at least one state");
        if most.rank() > highest {
            highest = most.rank();
            worst = Worst {
                most: most.counted - most.refunded,
                refunded: most.refunded,
                from,
                history: most.history,
            };
        }
    }
    worst
}

/// All states at the end of this microsecond, each with the most that was counted on any way to it.
fn tick<A>(rule: &A, search: Search, before: Layer<A>, from: u64, now: u64) -> Layer<A>
where
    A: KeyLimit<State: Debug, Snapshot: Debug>,
{
    let counts = now >= from;
    let weight = |cost: u32| match search.counts {
        _ if !counts => 0,
        Counts::Requests => 1,
        Counts::Units | Counts::Releases => u64::from(cost),
    };
    let mut layer: Layer<A> = HashMap::new();
    let mut open: Vec<Node<A>> = Vec::new();
    for mut node in before.into_values() {
        let released = node.waiting.iter().filter(|waiting| waiting.release <= now);
        node.counted += released.map(|waiting| weight(waiting.cost)).sum::<u64>();
        node.waiting.retain(|waiting| waiting.release > now);
        if let Some(refundable) = &mut node.refundable {
            refundable.is_older_than_now = true;
        }
        if rule.is_fresh(&node.state, instant(now.into())) {
            node.state = rule.fresh(instant(now.into()));
        }
        open.push(node);
    }
    while let Some(node) = open.pop() {
        let waiting = node
            .waiting
            .iter()
            .map(|it| (it.release, it.cost, &it.admission));
        let waiting: Vec<_> = waiting.collect();
        let key = format!("{:?}{waiting:?}{:?}", node.state, node.refundable);
        if layer
            .get(&key)
            .is_some_and(|known| known.rank() >= node.rank())
        {
            continue;
        }
        for cost in 1..=search.largest_cost {
            let admitted = admit(rule, &node, cost, now, weight(cost));
            if search.refunds && node.refundable.is_none() {
                let refundable = Some(Refundable {
                    cost,
                    was_counted: counts,
                    is_older_than_now: false,
                });
                open.extend(admitted.clone().map(|node| Node { refundable, ..node }));
            }
            open.extend(admitted);
        }
        if let Some(refundable) = node.refundable.filter(|of| of.is_older_than_now) {
            open.push(refund(
                rule,
                &node,
                refundable,
                now,
                weight(refundable.cost),
            ));
        }
        if search.withdrawals {
            open.extend((0..node.waiting.len()).map(|index| withdraw(rule, &node, index, now)));
        }
        layer.insert(key, node);
    }
    layer
}

fn admit<A: KeyLimit>(
    rule: &A,
    node: &Node<A>,
    cost: u32,
    now: u64,
    weight: u64,
) -> Option<Node<A>> {
    let at = instant(now.into());
    let mut next = node.clone();
    let (admitted, admission) = rule.step(&mut next.state, cost, at);
    if !admitted {
        return None;
    }
    let delay = u64::try_from(rule.delay_of(&admission).as_micros()).expect("a short delay");
    match delay {
        0 => next.counted += weight,
        _ => next.waiting.push(Waiting {
            release: now + delay,
            cost,
            admission,
        }),
    }
    next.history.push((now, "admitted", cost));
    assert!(next.history.len() < 1_000, "no end of admissions at {now}");
    Some(next)
}

fn refund<A: KeyLimit>(
    rule: &A,
    node: &Node<A>,
    Refundable {
        cost, was_counted, ..
    }: Refundable,
    now: u64,
    weight: u64,
) -> Node<A> {
    let at = instant(now.into());
    let mut next = node.clone();
    rule.refund(&mut next.state, cost, at);
    next.refundable = None;
    match was_counted {
        true => next.counted -= weight,
        false => next.refunded += weight,
    }
    next.history.push((now, "refunded", cost));
    next
}

fn withdraw<A: KeyLimit>(rule: &A, node: &Node<A>, index: usize, now: u64) -> Node<A> {
    let mut next = node.clone();
    let dropped = next.waiting.remove(index);
    let ending = Ending::Withdrawn { cost: dropped.cost };
    let at = instant(now.into());
    rule.end(&mut next.state, &dropped.admission, ending, at);
    next.history.push((now, "dropped", dropped.cost));
    next
}
