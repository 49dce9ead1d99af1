//! The script of an algorithm, for stores that run scripts.

use std::borrow::Cow;

use super::Algorithm;

pub(crate) mod names;
mod parts;
mod reply;

pub(crate) use parts::part_of;
pub(super) use parts::{called_part, with_lines_replaced};
pub use reply::{MemberReply, ScriptReply};

/// An algorithm that [`RedisStore`](crate::store) can decide: the same rule, written in Lua too.
///
/// The script and the methods of [`Algorithm`] must give the same decisions. The store reads the
/// state, runs the script's judgement and, if all members of a tuple admit, its charge, and writes
/// the state with its expiry; the script only counts. What it replies is the state, from which
/// [`Algorithm::snapshot`] makes the decision. What Redis runs in the end is the rule with the
/// reading and writing around it: for the algorithms of this crate it can be read in the folder
/// `src/store/redis/sent` of the source.
///
/// A store that runs no Lua and keeps states as numbers needs only [`numbers`](Self::numbers) and
/// [`state`](Self::state) of these methods, and yet a rule of your own must have a script for it.
///
/// # The script
///
/// Its text is cut into parts, each below a line that names it; text before the first part is left
/// out. The script's own names begin with `m.`. It is given `now` (whole microseconds), `cost`, and
/// `state`, which is `nil` if nothing is stored yet. Numbers are whole, not negative and below
/// 2<sup>53</sup>. Those of a state that was never charged are all 0.
///
/// - `--- library`: local functions that the parts call.
/// - `--- judge` sets `m.fits`. If the state was written by a clock far ahead, it moves the state
///   to now and sets `repaired = true`.
/// - `--- charge` changes the state; it runs in the same script, right after the judgement. A
///   [debit](Algorithm::debit) runs it too, whether there is room or not.
/// - `--- debit` (optional) runs before the charge of a debit: it keeps numbers from becoming too
///   large. It may lower `cost`.
/// - `--- refund` gives `cost` units back.
/// - `--- withdraw` (few have it) takes back the charge of a request that was dropped while it was
///   delayed.
/// - `--- expire` sets `m.expires_at`: the instant from which on the state says no more than a
///   fresh one. It runs before the state is written.
/// - `--- reply` sets the numbers that [`Script::replies`] names. It runs where nothing was
///   charged.
/// - `--- beside` is for algorithms whose units can be [held](super::Additive): it changes the
///   numbers of the reply to what they would be if `held` more units were charged now. It runs
///   after `--- reply`.
///
/// Where [private state](Script::private_state) or a [tail](Script::tail) changes, a part sets
/// `dirty = true`. A charge that neither sets it nor moves the expiry writes only the state.
///
/// # Example: an allowance that never comes back
///
/// ```
/// use tollgate::algorithm::{Algorithm, Script, Scripted};
/// # use tollgate::algorithm::{Policy, PolicyId, Status};
/// # use tollgate::{PolicyDecision, Timestamp};
/// # use std::time::Duration;
/// # #[derive(Debug, Clone)]
/// # struct Allowance(Policy);
/// # impl Algorithm for Allowance {
/// #     type State = u64;
/// #     type Snapshot = Status;
/// #     fn policy_id(&self) -> PolicyId { self.0.id() }
/// #     fn fresh(&self, _at: Timestamp) -> u64 { 0 }
/// #     fn mend(&self, _used: &mut u64, _now: Timestamp) {}
/// #     fn judge(&self, used: &u64, cost: u32, _now: Timestamp) -> bool { used + u64::from(cost) <= self.0.limit() }
/// #     fn charge(&self, used: &mut u64, cost: u32, _now: Timestamp) { *used += u64::from(cost); }
/// #     fn refund(&self, used: &mut u64, cost: u32, _now: Timestamp) { *used = used.saturating_sub(u64::from(cost)); }
/// #     fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool { *used == 0 }
/// #     fn snapshot(&self, used: &u64, cost: u32, admitted: bool, _now: Timestamp) -> Status {
/// #         let (limit, left) = (self.0.limit(), self.0.limit() - used);
/// #         Status::of(limit, left, u64::from(cost), admitted, |units| (units <= left).then_some(0))
/// #     }
/// #     fn describe(&self, status: &Status, tell: &mut dyn FnMut(PolicyDecision)) {
/// #         tell(PolicyDecision::new(&self.0, *status));
/// #     }
/// # }
///
/// const ALLOWANCE: &str = "\
/// --- judge
/// m.fits = m.used + cost <= m.limit
/// --- charge
/// m.used = m.used + cost
/// --- refund
/// m.used = math.max(m.used - cost, 0)
/// --- expire
/// m.expires_at = now + 100 * 365 * 86400 * 1000000
/// ";
///
/// impl Scripted for Allowance {
///     fn script() -> Script {
///         Script::new("allowance", ALLOWANCE).parameters(&["limit"]).state(&["used"])
///     }
///     fn parameters(&self, tell: &mut dyn FnMut(u64)) {
///         tell(self.0.limit());
///     }
///     fn state(&self, numbers: &[u64]) -> Option<u64> {
///         numbers.first().copied()
///     }
///     fn numbers(&self, used: &u64, tell: &mut dyn FnMut(u64)) {
///         tell(*used);
///     }
/// }
///
/// let trial = Allowance(Policy::new("allowance", &[3], Duration::ZERO));
/// assert_eq!(trial.state(&[2]), Some(2));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no script, so Redis cannot decide by it",
    label = "not an algorithm that Redis can run",
    note = "implement `tollgate::algorithm::Scripted` for `{Self}`: its rule once more, in a few lines of Lua; every algorithm of `tollgate::algorithm` has it, and so has a tuple of those that have it"
)]
pub trait Scripted: Algorithm {
    /// The script; the same for all values of the type.
    fn script() -> Script;

    /// Calls `tell` with the values of the script's parameters, in their order.
    fn parameters(&self, tell: &mut dyn FnMut(u64));

    /// The state that these numbers stand for, in the order of [`Script::state`]; `None` if they
    /// make no sense.
    ///
    /// It also reads all that [`numbers`](Self::numbers) tells.
    fn state(&self, numbers: &[u64]) -> Option<Self::State>;

    /// Calls `tell` with a state as numbers, so that a store can keep it anywhere.
    /// [`state`](Self::state) reads them back, of this value or of another one of the same policy.
    /// Those of [`Script::state`] come first.
    fn numbers(&self, state: &Self::State, tell: &mut dyn FnMut(u64));

    /// Calls `tell` with the numbers of an admission that `--- withdraw` needs, in the order of
    /// [`Script::withdraws`], or that its settlement needs.
    fn admission(&self, _admission: &Self::Snapshot, _tell: &mut dyn FnMut(u64)) {}

    /// Reads the snapshot from the script's reply; `None` if the reply makes no sense.
    ///
    /// Override it only for a script that [replies](Script::replies) with other numbers than its
    /// state.
    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<Self::Snapshot> {
        let member = reply.next_member()?;
        let state = self.state(member.numbers)?;
        Some(self.snapshot(&state, member.cost, member.admitted, reply.now()))
    }
}

pub(super) const CHECKSUM: &str = include_str!("checksum.lua");

/// The modules of scripts whose state may be counted under several plans.
pub(super) const FOR_PLANS: &[(&str, &str)] =
    &[("plans", include_str!("plans.lua")), ("checksum", CHECKSUM)];

/// The names of numbers, in their order.
pub type Names = Cow<'static, [&'static str]>;

/// What Redis runs for an algorithm: one member, or those of a tuple.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    members: Vec<Member>,
}

/// The script of an algorithm that is no tuple: its text, and what its names stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// How its state is laid out; scripts that lay it out alike share this name.
    pub layout: Cow<'static, str>,
    /// The text, in parts.
    pub source: Cow<'static, str>,
    /// The names of its parameters.
    pub parameters: Names,
    /// The names of the numbers of its state.
    pub state: Names,
    /// The names of the numbers of its private state.
    pub private_state: &'static [&'static str],
    /// How many bytes its tail has: usually, and if its first private number is 0.
    pub tail: Option<[usize; 2]>,
    /// The names of keys of its own, beside that of the state.
    pub keys: &'static [&'static str],
    /// The names of the numbers that it replies with where nothing was charged, if they are not
    /// those of the state.
    pub replies: Option<Names>,
    /// The names and texts of what it requires.
    pub modules: &'static [(&'static str, &'static str)],
    /// Whether units can be given back.
    pub refunds: bool,
    /// The names of the numbers of an admission, if it can be taken back.
    pub withdraws: &'static [&'static str],
    /// The names of the numbers of an admission, if it holds units that are to be
    /// [settled](super::Settled).
    pub settles: &'static [&'static str],
    /// Whether its parts see a cost of 1 instead of every larger one.
    pub per_request: bool,
    /// Whether it holds places of requests in flight, which are renewed.
    pub in_flight: bool,
    /// Whether it is in [shadow](super::Shadow): it always fits, and its charge is its own matter.
    pub(crate) in_shadow: bool,
    /// Whether it is charged last, where a request is charged to several keys by several scripts.
    pub charged_last: bool,
}

impl Script {
    /// A script with neither parameters nor state. `layout` names how its state is laid out, in the
    /// characters `a-z 0-9 -`; a state that was kept under another layout is not read.
    pub fn new(layout: &'static str, source: &'static str) -> Self {
        let member = Member {
            layout: layout.into(),
            source: source.into(),
            parameters: Names::default(),
            state: Names::default(),
            private_state: &[],
            tail: None,
            keys: &[],
            replies: None,
            modules: &[],
            refunds: true,
            withdraws: &[],
            settles: &[],
            per_request: false,
            in_flight: false,
            in_shadow: false,
            charged_last: false,
        };
        Self {
            members: vec![member],
        }
    }

    /// Names its parameters: `limit` is `m.limit`.
    #[must_use]
    pub fn parameters(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.parameters = names.into())
    }

    /// Names the numbers of its state.
    #[must_use]
    pub fn state(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.state = names.into())
    }

    /// Names numbers of its state that are not replied, and written only where a part has set
    /// `dirty`, or where the expiry moves.
    ///
    /// The script must check them, since whoever can write to Redis can change them: it calls
    /// `error('UNREADABLE state')` if they make no sense.
    #[must_use]
    pub fn private_state(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.private_state = names)
    }

    /// Keeps a tail behind its state, which is seldom read or written. It has as many bytes as the
    /// first number says, or, if its first [private](Self::private_state) number is 0, as the
    /// second says.
    ///
    /// The bytes of the tail are `string.sub(state, m.tail_at, m.tail_end)`. To change it, and if
    /// there is no state yet, the script sets `m.tail` to the whole tail, as `struct.pack` packs
    /// it, and `dirty = true`.
    #[must_use]
    pub fn tail(self, bytes: [usize; 2]) -> Self {
        self.with(|member| member.tail = Some(bytes))
    }

    /// Names further keys of its own, in the same slot of a cluster: `m.list` is then the key to
    /// give to `redis.call`. They expire with the state.
    ///
    /// A script that writes to one in a part other than `--- charge`, `--- debit`, `--- refund`,
    /// `--- withdraw` and `--- expire` breaks the promise that a refused request changes nothing.
    #[must_use]
    pub fn keys(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.keys = names)
    }

    /// Names the numbers that it replies with instead of its state, if nothing was charged. The
    /// part `--- reply` sets them, or an earlier part. The reply to a charge is the state.
    ///
    /// [`Scripted::read`] must then be overridden too.
    #[must_use]
    pub fn replies(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.replies = Some(names.into()))
    }

    /// Names Lua modules. Each replaces `require('name')` in the script, as a function that is
    /// called there. A module that only a rare branch requires costs nothing elsewhere.
    #[must_use]
    pub fn requires(self, modules: &'static [(&'static str, &'static str)]) -> Self {
        self.with(|member| member.modules = modules)
    }

    /// The same script, but a refund changes nothing.
    #[must_use]
    pub fn without_refund(self) -> Self {
        self.with(|member| member.refunds = false)
    }

    /// Names the numbers of an admission by which it can be taken back: see
    /// [`Algorithm::withdraw`].
    #[must_use]
    pub fn withdraws(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.withdraws = names)
    }

    /// The same script, but its parts see a cost of 1 instead of every larger one: see
    /// [`PerRequest`](super::PerRequest).
    #[must_use]
    pub fn per_request(self) -> Self {
        self.with(|member| member.per_request = true)
    }

    /// The same script, but where a request is charged to several keys, in several slots of a
    /// cluster, it is charged after all that do not say so, and only if these have admitted. Those
    /// that say so are charged together.
    ///
    /// For a charge that cannot be taken back without harm, as that of a queue, which has announced
    /// a turn: others can be, if a later key refuses.
    #[must_use]
    pub fn charged_last(self) -> Self {
        self.with(|member| member.charged_last = true)
    }

    /// The same script, but what it holds are places of requests in flight: a store renews them
    /// while its process lives, five times in the time that the script's parameter `held_at_most`
    /// says, and gives each back when its request has ended.
    ///
    /// The script has the part `--- capacity`, which sets `m.capacity`, how many may be in flight:
    /// places that Redis has lost are taken again as far as there is room.
    #[must_use]
    pub(crate) fn in_flight(self) -> Self {
        self.with(|member| member.in_flight = true)
    }

    /// Puts the part of this name, the last one of its file, in the place of the line
    /// `rule('name')`: what is needed least is read last, and runs where it must.
    pub(super) fn with_part_in_place(self, name: &str) -> Self {
        self.with(|member| {
            let part = part_of(&member.source, name);
            let (others, _) = member
                .source
                .split_once(&format!("--- {name}\n"))
                .expect("the part is there");
            let is_it = |line: &str| called_part(line) == Some(name);
            let lines = with_lines_replaced(others, |line| is_it(line).then(|| part.to_owned()));
            member.source = lines.concat().into();
        })
    }

    pub(super) fn with(mut self, change: impl Fn(&mut Member)) -> Self {
        self.members.iter_mut().for_each(change);
        self
    }

    /// All members of this one, then all of the other one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self
    }

    /// The scripts of the members of a tuple, in their order; of one that is no tuple, its own.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

impl Member {
    /// The names of the numbers in its reply: to a charge, or to anything else.
    pub fn replied(&self, charged: bool) -> &[&'static str] {
        match &self.replies {
            // A hold leaves the state of the rule as it is.
            Some(replies) if !charged || self.is_settled() => replies,
            _ => &self.state,
        }
    }

    /// The names of the numbers that a member in shadow adds to the reply to a charge: whether it
    /// would refuse, and its status then.
    pub(crate) fn replied_in_shadow(&self) -> Vec<&'static str> {
        match self.in_shadow {
            true => [&["refused"], self.replied(false)].concat(),
            false => Vec::new(),
        }
    }

    /// Whether its units are held, and settled later.
    pub(crate) fn is_settled(&self) -> bool {
        !self.settles.is_empty()
    }

    /// The names of the numbers of an admission by which it is taken back or settled. One in shadow
    /// also tells whether it was charged.
    pub fn admission(&self) -> Names {
        let own = match self.withdraws {
            [] => self.settles,
            withdraws => withdraws,
        };
        match self.in_shadow {
            true => Cow::Owned([&["was_charged"], own].concat()),
            false => own.into(),
        }
    }

    /// The lines below `--- name`, up to the next such line.
    pub(crate) fn part(&self, name: &str) -> &str {
        part_of(&self.source, name)
    }
}

#[cfg(test)]
mod tests;
