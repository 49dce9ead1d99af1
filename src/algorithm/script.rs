//! The script of an algorithm, for stores that run scripts.

use crate::clock::Timestamp;

use super::{KeyLimit, Override, Policy, settled::MAX_HELD_AT_MOST_MICROS};

/// An algorithm that [`RedisStore`](crate::store) can decide: the same rule, written in Lua too.
///
/// The script is one Lua function, and must give the same decisions as the methods of
/// [`Algorithm`](super::Algorithm). The store reads the state, calls the function of each member,
/// and writes what all of them admit, with its expiry. What charges nothing is answered with the
/// stored numbers: [`Algorithm::status`](super::Algorithm::status) says what they mean.
///
/// # The function
///
/// It is called with, in this order:
///
/// - `last` and `now`: when the state was written, and now, in microseconds. `now` is never the
///   earlier one. Without a state they are the same.
/// - `cost`: in units. It is negative where units are given back.
/// - `must`: whether the cost is charged even if it does not fit, as by a
///   [debit](super::Algorithm::debit).
/// - the [parameters](Script::parameters), then the numbers of the [state](Script::state), which
///   are all 0 where nothing is stored: a state of zeros must say no more than a fresh one, at any
///   instant.
///
/// It returns `false` if the cost does not fit. Otherwise it returns `true`, the instant from which
/// on the state says no more than a fresh one, and the numbers of the state as of now, with the
/// cost. A cost of 0 always fits. It changes nothing else: it may be called more than once.
///
/// Numbers are whole, not negative and below 2<sup>53</sup>. Any `u32` may be one that `must` be
/// charged, again and again, so what counts units needs a maximum: in the example, the limit.
/// Local functions may stand before it.
///
/// It is Lua 5.1: each number is a double, there is no `//`, and what passes 2<sup>53</sup> on the
/// way is not exact either. `math.floor(a / b)` is exact for such whole numbers, and so are
/// `a % b` and `(a - a % b) / b`.
///
/// # When it is wrong
///
/// Callers get 500, and the reason is in the store's log event and in the
/// [`StoreError`](crate::StoreError) of a [`check`](crate::RateLimiter::check): make one at start.
/// Its line counts from the start of the whole script, which `redis-cli MONITOR` shows when it is
/// loaded.
///
/// That both versions decide the same is best tested by random calls of two limiters, one over a
/// `LocalStore` and one over a `RedisStore`, with the same
/// [`ManualClock`](crate::clock::ManualClock) by their builders' `.clock(..)`.
///
/// # Example: an allowance that never comes back
///
/// ```
/// use tollgate::algorithm::{Algorithm, Script, Scripted};
/// # use tollgate::{Timestamp, algorithm::{Policy, Status}};
/// # use std::time::Duration;
/// # #[derive(Debug, Clone)]
/// # struct Allowance(Policy);
/// # impl Algorithm for Allowance {
/// #     type State = u64;
/// #     fn policy(&self) -> &Policy { &self.0 }
/// #     fn fresh(&self, _at: Timestamp) -> u64 { 0 }
/// #     fn judge(&self, used: &u64, cost: u32, _now: Timestamp) -> bool { used.saturating_add(cost.into()) <= self.0.limit() }
/// #     fn debit(&self, used: &mut u64, units: u64, _now: Timestamp) { *used = used.saturating_add(units); }
/// #     fn refund(&self, used: &mut u64, cost: u32, _now: Timestamp) { *used = used.saturating_sub(u64::from(cost)); }
/// #     fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool { *used == 0 }
/// #     fn status(&self, used: &u64, cost: u32, admitted: bool, _now: Timestamp) -> Status {
/// #         let (limit, left) = (self.0.limit(), self.0.limit().saturating_sub(*used));
/// #         Status::of(limit, left, u64::from(cost), admitted, |units| (units <= left).then_some(0))
/// #     }
/// # }
///
/// const ALLOWANCE: &str = "
/// local function allowance(last, now, cost, must, limit, used)
///   if used + cost > limit and cost > 0 and not must then return false end
///   local a_century = 100 * 365 * 86400 * 1000000
///   return true, now + a_century, math.max(math.min(used + cost, limit), 0)
/// end
/// ";
///
/// impl Scripted for Allowance {
///     fn script() -> Script {
///         Script::new("allowance", ALLOWANCE).parameters(&["limit"]).state(&["used"])
///     }
///     fn parameters(&self, output: &mut dyn FnMut(u64)) {
///         output(self.0.limit());
///     }
///     fn state(&self, _at: Timestamp, numbers: &[u64]) -> Option<u64> {
///         numbers.first().copied().filter(|used| *used <= self.0.limit())
///     }
///     fn numbers(&self, used: &u64, _at: Timestamp, output: &mut dyn FnMut(u64)) {
///         output(*used);
///     }
/// }
///
/// let trial = Allowance(Policy::new("allowance", &[3], Duration::ZERO));
/// assert_eq!(trial.state(Timestamp::from_micros(0), &[2]), Some(2));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no script, so Redis cannot decide by it",
    label = "not an algorithm that Redis can run",
    note = "implement `tollgate::algorithm::Scripted` for `{Self}`: its rule once more, in a few lines of Lua; every algorithm of `tollgate::algorithm` has it, and so has a tuple of those that have it"
)]
pub trait Scripted: KeyLimit {
    /// The script; the same for all values of the type.
    fn script() -> Script;

    /// Calls `output` with the values of the script's parameters, in their order.
    fn parameters(&self, output: &mut dyn FnMut(u64));

    /// The state that these numbers stood for at this instant, in the order of [`Script::state`];
    /// `None` if they make no sense.
    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Self::State>;

    /// Calls `output` with the numbers of a state as of this instant, so that a store can keep it
    /// anywhere. [`state`](Self::state) reads them back, by this value or by another one of the
    /// same policy. The instant is no earlier than the last change of the state.
    ///
    /// The stores of this crate call it for members of tuples and what is settled.
    fn numbers(&self, state: &Self::State, at: Timestamp, output: &mut dyn FnMut(u64));

    /// Calls `output`, for each member, with how long it holds units at most (0: it charges them at
    /// once), and with how long what is held matters after that, in microseconds.
    #[doc(hidden)]
    fn holding(&self, output: &mut dyn FnMut(u64)) {
        self.each_policy(&mut |policy| {
            output(0);
            output(retention_micros(policy));
        });
    }

    /// Calls `output` with the numbers by which an admission is taken back or settled.
    #[doc(hidden)]
    fn admission(&self, _admission: &Self::Snapshot, _output: &mut dyn FnMut(u64)) {}

    /// Reads the snapshot from the script's reply; `None` if the reply makes no sense.
    #[doc(hidden)]
    fn read(&self, reply: &mut ScriptReply) -> Option<Self::Snapshot> {
        let member = reply.next()?;
        let mut state = self.state(member.at, &member.numbers)?;
        for (units, at) in member.held_units() {
            self.debit_held(&mut state, units, at);
        }
        Some(self.snapshot(&state, member.cost, member.admitted, member.now))
    }
}

/// How long a state may need to recover: twice what the policy says, since a window slides. A year,
/// if it says nothing.
pub(super) fn retention_micros(policy: &Policy) -> u64 {
    match policy.window_micros().saturating_mul(2) {
        0 => A_YEAR_MICROS,
        micros => micros.min(MAX_HELD_AT_MOST_MICROS),
    }
}

const A_YEAR_MICROS: u64 = 31_622_400_000_000;

/// The names of numbers, in their order.
pub(crate) type Names = &'static [&'static str];

/// The Lua with which Redis decides by an algorithm, or by several in a tuple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    members: Vec<Member>,
}

/// The script of an algorithm that is no tuple: a function, and what its numbers are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) function: &'static str,
    pub(crate) source: &'static str,
    pub(crate) parameters: Names,
    pub(crate) state: Names,
    /// The numbers that it replies beside its state where nothing was charged.
    pub(crate) extra: Names,
    /// What it returns after these when it is asked, for when it is charged, if it keeps a list.
    pub(crate) kept: Names,
    /// Whether units are never given back.
    pub(crate) keeps_refunds: bool,
    /// Whether a request that is dropped before its turn gives it back.
    pub(crate) withdraws: bool,
    /// Whether its units are held, and settled later.
    pub(crate) settled: bool,
    /// Whether what it holds is counted in parts of a unit, as its debt is.
    pub(crate) holds_parts: bool,
    /// Whether it sees a cost of 1 instead of every larger one.
    pub(crate) per_request: bool,
    /// Whether it counts requests in flight. A part of its state is a text, the leases of the
    /// processes, with as many bytes as the last number says.
    pub(crate) in_flight: bool,
    /// Whether it never refuses, and is charged only where it fits.
    pub(crate) in_shadow: bool,
    pub(crate) charged_last: bool,
    /// Whether its rule is [additive](super::Additive), so that processes can hold units to spend
    /// them without asking.
    pub(crate) can_be_leased: bool,
}

impl Script {
    /// A script with neither parameters nor state. `function` is the name of its function in the
    /// source, in the characters `a-z 0-9 _`; it is a part of the names of its keys, so a state
    /// that was kept under another name is not read.
    pub fn new(function: &'static str, source: &'static str) -> Self {
        let member = Member {
            function,
            source,
            ..Member::default()
        };
        Self {
            members: vec![member],
        }
    }

    /// Names its parameters.
    #[must_use]
    pub fn parameters(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.parameters = names)
    }

    /// Names the numbers of its state.
    #[must_use]
    pub fn state(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.state = names)
    }

    /// Marks a rule whose charge cannot be taken back, as that of a queue that has announced a
    /// turn: it is charged after the others. It matters for keys in several slots of a cluster:
    /// other charges are taken back if a later key refuses.
    #[must_use]
    pub fn charged_last(self) -> Self {
        self.with(|member| member.charged_last = true)
    }

    /// Keeps a list under a key of its own. It is two functions: the one that only asks has the
    /// name of the other with `_ask` behind it and is called before. It returns what is replied,
    /// then what is kept until it is charged: numbers of the state, and what the other one is given
    /// after them.
    pub(super) fn with_list(self, extra: Names, kept: Names) -> Self {
        self.with(|member| (member.extra, member.kept) = (extra, kept))
    }

    pub(crate) fn with(mut self, change: impl FnMut(&mut Member)) -> Self {
        self.members.iter_mut().for_each(change);
        self
    }

    /// All members of this one, then all of the other one.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }
}

impl Member {
    /// Whether it keeps a list under a key of its own.
    pub(crate) fn has_list(&self) -> bool {
        !self.kept.is_empty()
    }
}

/// What a script replied to a decision, member by member.
#[doc(hidden)]
pub(crate) type ScriptReply = std::vec::IntoIter<MemberReply>;

/// How one member decided, and what it replied.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct MemberReply {
    /// The cost that this is about: 0 if it is admitted and was not charged.
    pub cost: u32,
    /// Whether this member admits it.
    pub admitted: bool,
    /// Whether it was charged.
    pub charged: bool,
    /// The instant of the decision.
    pub now: Timestamp,
    /// When the state was written.
    pub at: Timestamp,
    /// The numbers of its state then.
    pub numbers: Vec<u64>,
    /// What it replied beside its state, where nothing was charged.
    pub extra: Vec<u64>,
    /// What others hold beside its state, if anything: two generations of their start, their end
    /// and the amount.
    pub held: Vec<u64>,
    /// What has decided instead of the limit. Then there is one reply for all its members.
    pub overridden: Option<Override>,
}

impl MemberReply {
    /// What is held, as amounts that count as spent: at the end of their generation, or now.
    pub(super) fn held_units(&self) -> Vec<(u64, Timestamp)> {
        let generations = self.held.chunks_exact(3);
        let generations = generations.filter(|generation| generation[2] > 0);
        let spent = |generation: &[u64]| {
            let ends = Timestamp::from_micros(generation[1]);
            (generation[2], ends.min(self.now).max(self.at))
        };
        let mut held: Vec<_> = generations.map(spent).collect();
        held.sort_by_key(|&(_, at)| at);
        held
    }
}
