//! The keys and the arguments of a script: numbers are doubles. `frame.lua` lists them.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;

use crate::{
    algorithm::{Ending, Member, Override, PolicyId, Script, Scripted},
    key::{KeyParts, PortableKey},
    store::Ask,
};

use super::{Shared, reply::value_of_override, script::Op, scripts::Scripts};

/// Room for the arguments of a script about one limit.
const ARGUMENTS_LEN: usize = 128;

/// One of the limits, and its key.
#[derive(Clone)]
pub(crate) struct KeyQuery {
    pub(super) scripts: Arc<Scripts>,
    /// The key of the state, then those of its lists.
    pub(super) keys: Vec<Bytes>,
    /// The numbers of the algorithm, then how each member holds.
    pub(super) parameters: Vec<u64>,
    /// How many units all of its policies let through at once.
    pub(super) limit: u64,
    /// The shortest period of those that are no buckets, in microseconds.
    pub(super) window: u64,
    /// Whether any member holds its cost, and does not charge it at once.
    pub(super) holds: bool,
    pub(super) place: InFlightCount,
}

impl Shared {
    pub(super) fn query<A: Scripted, K: PortableKey>(
        &self,
        limit: &A,
        key: &K,
        policy: PolicyId,
    ) -> KeyQuery {
        let scripts = self.script_cache.scripts(limit);
        let mut parameters = Vec::with_capacity(8);
        limit.parameters(&mut |number| parameters.push(number));
        let own = parameters.len();
        limit.holding(&mut |number| parameters.push(number));
        let (mut at_once, mut window) = (u64::MAX, u64::MAX);
        let mut members = scripts.script.members().iter();
        limit.each_policy(&mut |policy| {
            at_once = at_once.min(policy.limit());
            if members.next().is_some_and(|member| !member.holds_parts) {
                window = window.min(policy.window_micros());
            }
        });
        let mut held_at_most = parameters[own..].iter().step_by(2);
        KeyQuery {
            holds: held_at_most.any(|&at_most| at_most > 0),
            keys: self.keys(policy, &scripts, key),
            parameters,
            limit: at_once,
            window,
            place: InFlightCount::LOOK,
            scripts,
        }
    }

    /// The key of a bucket, and those of its lists, all in one slot.
    fn keys<K: PortableKey>(&self, policy: PolicyId, scripts: &Scripts, key: &K) -> Vec<Bytes> {
        let id = URL_SAFE_NO_PAD.encode(policy.as_u64().to_be_bytes());
        let (layout, id) = (scripts.layout.as_bytes(), id.as_bytes());
        let mut start = Vec::with_capacity(self.key_start.len() + layout.len() + 96);
        for part in [&self.key_start[..], layout, b":", id, b":"] {
            start.extend_from_slice(part);
        }
        let mut parts = KeyParts::after(start, &self.digest_key);
        key.write_to(&mut parts);
        let mut bucket = parts.into_bytes();
        bucket.push(b'}');
        let mut keys = vec![Bytes::from(bucket)];
        for number in 1..=scripts.lists {
            let list = [&keys[0][..], number.to_string().as_bytes()].concat();
            keys.push(Bytes::from(list));
        }
        keys
    }

    /// The first argument of a script about these.
    pub(super) fn arguments(&self, queries: &[KeyQuery], units: Units<'_>) -> Bytes {
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push(&mut numbers, units.op() as u8 as f64);
        // Without a clock of its own the server's counts.
        let now = self.clock.as_ref().map(|now| now().as_micros() as f64);
        push(&mut numbers, now.unwrap_or(-1.0));
        let mut holding = Vec::new();
        for query in queries {
            holding.push(push_members(&mut numbers, query, units));
        }
        for &number in holding.into_iter().flatten() {
            push(&mut numbers, number as f64);
        }
        numbers.into()
    }
}

/// How much longer what overrides a limit is kept where callers' clocks say when it is over.
const MARGIN_MS: u64 = 60_000;

impl Shared {
    /// The arguments of `SET` for what decides instead of a limit. Redis forgets it by itself.
    pub(super) fn override_arguments(&self, overriding: Override) -> Vec<Bytes> {
        let until = overriding.until;
        let (option, millis) = match &self.clock {
            None => ("PXAT", until.as_micros().div_ceil(1_000).max(1)),
            Some(now) => {
                let left = until.as_micros().saturating_sub(now().as_micros());
                ("PX", left.div_ceil(1_000) + MARGIN_MS)
            }
        };
        let value = value_of_override(overriding).into();
        vec![value, option.into(), millis.to_string().into()]
    }
}

/// What each member is charged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Units<'a> {
    /// The cost of a request.
    Asked(Ask),
    /// Units, whether they fit or not.
    Debit(u32),
    /// Units that are given back.
    Refund(u32),
    /// A cost that is taken back from those members that its admission has charged, if the value
    /// is still the one that this charge has written.
    TakenBack(u32, &'a [f64], &'a Bytes),
    /// What was spent of what was held, or what a queue gives back; other members are charged
    /// nothing. With the numbers of the admission: see [`Scripted::admission`].
    Ended(Ending, &'a [f64]),
    /// A request in flight that ends, or nothing: a renewal.
    InFlight(i8),
}

/// What this process says of its requests in flight: see `in_flight.lua`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InFlightCount {
    pub(super) process: f64,
    pub(super) number: f64,
    pub(super) running: f64,
}

impl InFlightCount {
    /// That of a call which changes nothing.
    pub(super) const LOOK: Self = Self {
        process: 0.0,
        number: (1_u64 << 53) as f64,
        running: -1.0,
    };
}

/// Whether an admission has a place in flight.
pub(super) fn has_a_place(script: &Script, admission: &[f64]) -> bool {
    (admissions(script, admission))
        .any(|(member, _, own)| member.in_flight && own.iter().sum::<f64>() > 0.0)
}

/// The numbers of each member's admission.
fn admissions<'a>(
    script: &'a Script,
    admission: &'a [f64],
) -> impl Iterator<Item = (&'a Member, bool, &'a [f64])> {
    let members = script.members();
    let (charged, mut numbers) = admission.split_at(members.len().min(admission.len()));
    (0..).zip(members).map(move |(at, member)| {
        let count = match (member.settled || member.in_flight, member.withdraws) {
            (true, _) => 1,
            (_, true) => 2,
            _ => 0,
        };
        let own = numbers.split_off(..count).unwrap_or_default();
        let was_charged = !member.in_shadow || charged.get(at) == Some(&1.0);
        (member, was_charged, own)
    })
}

impl<'a> Units<'a> {
    /// What the script does with them.
    fn op(self) -> Op {
        match self {
            Self::Asked(ask) if ask.charge() == 0 => Op::Look,
            Self::Asked(_) => Op::Decide,
            Self::Debit(_) | Self::Refund(_) | Self::InFlight(_) => Op::Change,
            Self::TakenBack(..) => Op::TakeBack,
            Self::Ended(..) => Op::Settle,
        }
    }

    /// The numbers of the admission that it is about.
    fn admission(self) -> &'a [f64] {
        match self {
            Self::TakenBack(_, admission, _) | Self::Ended(_, admission) => admission,
            _ => &[],
        }
    }

    /// What a member is charged.
    fn of(self, member: &Member, was_charged: bool) -> f64 {
        let units = |units: u32| f64::from(units_of(member, units));
        match self {
            Self::Asked(ask) => units(ask.cost()),
            Self::Debit(debit) if !member.in_flight => units(debit),
            Self::Refund(refund) if !member.keeps_refunds => -units(refund),
            Self::TakenBack(..) | Self::Ended(..) if !was_charged => 0.0,
            Self::TakenBack(cost, ..) if !member.keeps_refunds || member.withdraws => -units(cost),
            Self::Ended(Ending::Settled { spent, .. }, _) if member.settled => units(spent),
            Self::Ended(Ending::Withdrawn { cost }, _) if member.withdraws => -units(cost),
            Self::InFlight(change) if member.in_flight => f64::from(change),
            _ => 0.0,
        }
    }

    /// What the admission left that a member settles or gives back.
    fn left(self, member: &Member, was_charged: bool, admission: &[f64]) -> [f64; 2] {
        let held = match self {
            Self::Ended(Ending::Settled { held, .. }, _) => held,
            Self::Ended(Ending::Withdrawn { cost }, _) => cost,
            _ => return [0.0; 2],
        };
        match *admission {
            [generation] if was_charged => [generation, units_of(member, held).into()],
            [tick, debt] => [tick, debt],
            _ => [0.0; 2],
        }
    }
}

/// What a member counts of so many units.
pub(super) fn units_of(member: &Member, units: u32) -> u32 {
    match member.per_request {
        true => units.min(1),
        false => units,
    }
}

/// What each member is charged for each of these costs, for a script that decides about several.
pub(super) fn costs_of_each(queries: &[KeyQuery], costs: &[u32]) -> Bytes {
    let members = || (queries.iter()).flat_map(|query| query.scripts.script.members());
    let of_members = |&cost: &u32| members().map(move |it| units_of(it, cost));
    let each = costs.iter().flat_map(of_members);
    each.flat_map(u32::to_le_bytes).collect()
}

/// What each member is charged, and its numbers; those of holding are left.
fn push_members<'q>(numbers: &mut Vec<u8>, query: &'q KeyQuery, units: Units<'_>) -> &'q [u64] {
    let (script, place, mut parameters) = (&query.scripts.script, query.place, &*query.parameters);
    for (member, was_charged, admission) in admissions(script, units.admission()) {
        push(numbers, units.of(member, was_charged));
        let own = parameters.split_off(..member.parameters.len());
        (own.into_iter().flatten()).for_each(|&number| push(numbers, number as f64));
        if member.in_flight {
            push(numbers, place.process);
            push(numbers, place.number);
            push(numbers, place.running);
        }
        if member.settled || member.withdraws {
            let left = units.left(member, was_charged, admission);
            left.into_iter().for_each(|number| push(numbers, number));
        }
    }
    parameters
}

fn push(arguments: &mut Vec<u8>, number: f64) {
    arguments.extend_from_slice(&number.to_le_bytes());
}
