//! How an algorithm is told to a store that runs scripts.

use crate::clock::Timestamp;

use super::Algorithm;

/// An algorithm that [`RedisStore`](crate::store) can decide: the same rule, said once more in Lua.
///
/// The script and the methods of [`Algorithm`] must give the same decisions. The store reads the
/// state, runs the script's judgement and, if all members of a tuple admit, its charge, and writes
/// the state with its expiry; the script only counts. What it answers is the state, from which
/// [`Algorithm::snapshot`] makes the decision.
///
/// # The script
///
/// Its text is in parts, each below a line that names it. Every name of its own begins with `m.`;
/// `now` (whole microseconds) and `cost` are there, and `math` is. All numbers are whole, not
/// negative and below 2<sup>53</sup>.
///
/// - `--- judge` sets `m.fits`. If a state of the future had to be mended, it changes the state
///   and sets `mends = true`.
/// - `--- charge` changes the state; it runs in the same script, right after the judgement.
/// - `--- refund` gives `cost` units back.
/// - `--- withdraw`, which few have, takes back the charge of a request that was dropped while it
///   was held back.
/// - `--- forget` sets `m.over`: the instant from which on the state says no more than a fresh one.
///
/// The numbers of a state that was never charged are all 0.
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
/// #     fn describe(&self, standing: &Status, tell: &mut dyn FnMut(PolicyDecision)) {
/// #         tell(PolicyDecision::new(&self.0, *standing));
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
/// --- forget
/// m.over = now + 100 * 365 * 86400 * 1000000
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

    /// Tells the numbers that the script's parameters stand for, in their order.
    fn parameters(&self, tell: &mut dyn FnMut(u64));

    /// The state that these numbers stand for, in the order of [`Script::state`]; `None` if they
    /// make no sense.
    ///
    /// It takes whatever [`numbers`](Self::numbers) tells, too.
    fn state(&self, numbers: &[u64]) -> Option<Self::State>;

    /// Tells the numbers of a state, of which [`state`](Self::state) makes it again, under this
    /// value or another of the same policy: so a store can keep it anywhere. What stands beside
    /// those of [`Script::state`] comes behind them.
    fn numbers(&self, state: &Self::State, tell: &mut dyn FnMut(u64));

    /// Tells the numbers of an admission that `--- withdraw` needs, in the order of
    /// [`Script::withdraws`].
    fn admission(&self, _admission: &Self::Snapshot, _tell: &mut dyn FnMut(u64)) {}

    /// How the bucket stands, read from what the script told; `None` if it makes no sense.
    ///
    /// Override it only for a script that tells more than its state.
    fn read(&self, told: &mut Told<'_>) -> Option<Self::Snapshot> {
        let member = told.next_member()?;
        let state = self.state(member.numbers)?;
        Some(self.snapshot(&state, member.cost, member.admitted, told.now()))
    }
}

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
    pub layout: &'static str,
    /// The text, in parts.
    pub source: &'static str,
    /// The names of its parameters.
    pub parameters: &'static [&'static str],
    /// The names of the numbers of its state.
    pub state: &'static [&'static str],
    /// The names of numbers of its state that it checks itself, does not tell, and changes only
    /// where it sets `moves`.
    pub aside: &'static [&'static str],
    /// How many numbers stand behind its state, if it keeps the lanes of several plans: as long as
    /// one set of numbers was admitted, and else.
    pub lanes: Option<[usize; 2]>,
    /// The names of keys of its own, beside that of the state.
    pub keys: &'static [&'static str],
    /// The names of the numbers that it tells where nothing was charged, if they are not those of
    /// the state.
    pub tells: Option<&'static [&'static str]>,
    /// Whether units can be given back.
    pub refunds: bool,
    /// The names of the numbers of an admission, if it can be taken back.
    pub withdraws: &'static [&'static str],
}

impl Script {
    /// A script with neither parameters nor state. `layout` names how its state is laid out, in the
    /// characters `a-z 0-9 -`; a state that was kept under another layout is not read.
    pub fn new(layout: &'static str, source: &'static str) -> Self {
        let member = Member {
            layout,
            source,
            parameters: &[],
            state: &[],
            aside: &[],
            lanes: None,
            keys: &[],
            tells: None,
            refunds: true,
            withdraws: &[],
        };
        Self {
            members: vec![member],
        }
    }

    /// Names its parameters: `limit` is `m.limit`.
    #[must_use]
    pub fn parameters(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.parameters = names)
    }

    /// Names the numbers of its state.
    #[must_use]
    pub fn state(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.state = names)
    }

    /// Names numbers of its state that a charge leaves as they are. The script has to see that they
    /// make sense, and to set `moves` where it changes one; it does not tell them.
    #[must_use]
    pub(super) fn aside(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.aside = names)
    }

    /// Keeps so many numbers behind its state, which are read only where the first of those aside
    /// is not that of these numbers: as many as the second if that is 0. The script reads them
    /// from `m.lanes_at` of `state` on; where it changes them, or there is no state yet, it
    /// sets `m.lanes` to all of them, packed, and `moves`.
    #[must_use]
    pub(super) fn lanes(self, numbers: [usize; 2]) -> Self {
        self.with(|member| member.lanes = Some(numbers))
    }

    /// Names further keys of its own.
    #[must_use]
    pub(super) fn keys(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.keys = names)
    }

    /// Names the numbers that it tells, where nothing was charged, instead of its state; the part
    /// `--- tell` sets them.
    #[must_use]
    pub(super) fn tells(self, names: &'static [&'static str]) -> Self {
        self.with(|member| member.tells = Some(names))
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

    fn with(mut self, change: impl Fn(&mut Member)) -> Self {
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

/// What a script told of a decision, member by member.
#[derive(Debug)]
pub struct Told<'a> {
    now: Timestamp,
    cost: u32,
    all_admit: bool,
    /// One bit for each member that admits, the next one's the lowest.
    fitting: u64,
    charged: bool,
    members: std::slice::Iter<'a, Member>,
    numbers: &'a [u64],
}

/// How one member of a tuple decided, and what it told.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MemberTold<'a> {
    /// The cost that this is about: 0 if it is admitted and was not charged.
    pub cost: u32,
    /// Whether this member admits it.
    pub admitted: bool,
    /// Whether it was charged: then the numbers are those of its state, whatever it tells
    /// otherwise.
    pub charged: bool,
    /// The numbers of its state right after the decision.
    pub numbers: &'a [u64],
}

impl<'a> Told<'a> {
    /// What these members told of a cost, `fitting` with one bit for each that admits it; `charged`
    /// says whether it was charged, which it can only be if all do.
    pub fn new(
        (members, numbers): (&'a [Member], &'a [u64]),
        (fitting, now): (u64, Timestamp),
        (cost, charged): (u32, bool),
    ) -> Self {
        let all_admit = fitting.count_ones() as usize == members.len();
        Self {
            now,
            cost: if all_admit && !charged { 0 } else { cost },
            all_admit,
            charged,
            fitting,
            members: members.iter(),
            numbers,
        }
    }

    /// Whether all members admit.
    pub fn is_admitted(&self) -> bool {
        self.all_admit
    }

    /// The instant of the decision.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What the next member told.
    pub fn next_member(&mut self) -> Option<MemberTold<'a>> {
        let told = self.members.next()?.told(self.charged);
        let (numbers, others) = self.numbers.split_at_checked(told.len())?;
        let admitted = self.fitting & 1 == 1;
        self.fitting >>= 1;
        self.numbers = others;
        // One that admits what another refuses was charged nothing, as by a cost of 0.
        let charged_or_refused = self.all_admit || !admitted;
        Some(MemberTold {
            cost: if charged_or_refused { self.cost } else { 0 },
            admitted,
            charged: self.charged,
            numbers,
        })
    }
}

impl Member {
    /// The names of the numbers that it tells of a charge, or of anything else.
    pub fn told(&self, charged: bool) -> &'static [&'static str] {
        match self.tells {
            Some(tells) if !charged => tells,
            _ => self.state,
        }
    }
}
