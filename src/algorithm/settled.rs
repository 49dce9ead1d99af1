//! Units that are held until it is known what was spent.
//!
//! # Why the bounds hold
//!
//! Let *fits(s, u)* be "u more units would be admitted now". It is monotone and additive (see
//! [`Additive`]). A cost *c* is held if *fits(s, held + c)*. So at each instant *fits(s, held)*: it
//! holds after the hold; time only makes more fit; and settling *c* with *a* ≤ *c* charges *a*,
//! after which *held + (c − a)* units still fit, of which *c − a* are freed. Each settled unit
//! therefore fitted when it was charged, and the algorithm alone would have admitted it then: its
//! bound holds by the time of settlement. All that is held could be charged at once at any instant,
//! so it holds by the time of admission too, but for what was spent beyond a hold and for debits.
//!
//! A refund of what was charged at admission has no such bound: time pays the charge off meanwhile,
//! and the refund frees units that others have paid for.
//!
//! # Holds that nobody settles
//!
//! Holds are kept as two generations, not one by one. A generation takes holds for one
//! `held_at_most`, and ends one `held_at_most` later. What it still holds then counts as spent at
//! that instant, whenever the state is next looked at. A receipt names its generation by the
//! instant at which it began, so a hold that is settled after its generation has ended, or after
//! the key was reset, frees nothing that others hold.
//!
//! # Holds that a failover has lost
//!
//! A server that takes over may know fewer units of a generation than there are receipts for: *L*
//! units were lost. What it knows is settled or ends once, by whichever receipt. So receipts for at
//! most *L* units find nothing left, and what they spend is charged to nobody: at most *L* units
//! are spent beyond the bound.

use std::{cmp::max, mem, time::Duration};

use crate::{
    algorithm::{
        Additive, Algorithm, Ending, KeyLimit, Limit, Policy, Script, ScriptReply, Scripted,
        limit::OneKey, script::retention_micros, setters::Named,
    },
    clock::Timestamp,
    decision::{Counts, JudgedCost, LazyStatus, PolicyDecision},
    error::{ConfigError, or_panic},
};

pub(super) const DEFAULT_HELD_AT_MOST_MICROS: u64 = 60_000_000;
/// Longer than any request, and so short that no instant overflows: some 35 years.
pub(super) const MAX_HELD_AT_MOST_MICROS: u64 = 1 << 50;

/// Holds a request's cost while it runs, and charges afterwards what it has really spent.
///
/// A request is admitted if its cost fits beside all that is charged and held already. Until it is
/// settled its cost is kept, as if charged, but not paid off by time. Settling charges what was
/// spent and frees the rest at once. More than was held is charged too: the next requests wait for
/// it.
///
/// It is made by `settled()` on an algorithm:
/// [`TokenBucket::settled`](super::TokenBucket::settled), say.
///
/// - **Bound**: the algorithm's own, whether a request counts when it is admitted or when it is
///   settled; what is spent beyond an estimate comes on top.
/// - **Memory**: that of the algorithm, and 56 bytes per key.
/// - **Waits**: exact while nothing is held. While others hold units it is an estimate, exact if
///   all that is held were spent now.
/// - **Not for** requests whose cost is known when they come: the plain algorithm is cheaper.
///
/// ![Requests that spend less than they cost: more fit where the rest is freed][hold_and_settle]
///
/// # Example: a call is charged what it has used
///
/// ```
/// use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let tokens = TokenBucket::new(Quota::per_minute(1_000)).settled();
/// let limiter = RateLimiter::new(tokens, LocalStore::new());
///
/// let hold = limiter.hold("bob", 800).await?.expect("800 of 1000 fit");
/// let refused = limiter.hold("bob", 800).await?.unwrap_err();
/// assert_eq!(refused.remaining(), 200);
///
/// hold.settle(150);
/// assert_eq!(limiter.peek("bob").await?.remaining(), 850);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/hold_and_settle.md")]
#[derive(Debug, Clone)]
pub struct Settled<A> {
    rule: A,
    /// How long a generation lasts after it has taken its last hold.
    held_at_most_micros: u64,
}

/// A state of the algorithm, and what is held beside it.
#[derive(Debug, Clone)]
pub struct SettledState<S> {
    state: S,
    /// The earlier one, and the later one, which takes holds.
    generations: [Generation; 2],
    /// When it was changed last: no earlier time counts.
    last_micros: u64,
}

/// What is held for requests of one span, as the rule counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Generation {
    /// When it began: a receipt names it by this. 0 if no receipt does.
    start_micros: u64,
    /// When what it still holds counts as spent.
    ends_at_micros: u64,
    amount: u64,
}

impl Generation {
    /// The earlier one and the later one, of their numbers.
    fn read_both(numbers: &[u64; 6]) -> [Self; 2] {
        [0, 3].map(|at| Self {
            start_micros: numbers[at],
            ends_at_micros: numbers[at + 1],
            amount: numbers[at + 2],
        })
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        self.amount > 0 && self.ends_at_micros <= now.as_micros()
    }

    fn is_named_by(&self, receipt: &SettledSnapshot) -> bool {
        self.amount > 0
            && self.start_micros > 0
            && self.start_micros == receipt.generation_start_micros
    }
}

impl<S> SettledState<S> {
    fn of(state: S, generations: [Generation; 2], changed_at: Timestamp) -> Self {
        Self {
            state,
            generations,
            last_micros: changed_at.as_micros(),
        }
    }

    /// The time of this state: no clock moves it back. (The rule knows when it was charged, but not
    /// when units were held.)
    fn time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_micros(max(now.as_micros(), self.last_micros))
    }

    fn held(&self) -> u64 {
        self.generations[0].amount + self.generations[1].amount
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        self.generations.iter().any(|held| held.has_ended(now))
    }
}

/// The status of the bucket right after a decision, and the generation in which the cost is held.
#[derive(Debug, Clone, Copy)]
pub struct SettledSnapshot {
    status: LazyStatus,
    /// 0 if nothing is held.
    generation_start_micros: u64,
}

impl<A: Additive> Limit for Settled<A> {
    type Snapshot = SettledSnapshot;
    type Keys = OneKey;

    const SETTLES: bool = true;

    fn unheld(&self) -> Self {
        Self {
            held_at_most_micros: 0,
            ..self.clone()
        }
    }

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        output(self.rule.policy());
    }

    fn describe(&self, snapshot: &SettledSnapshot, output: &mut dyn FnMut(PolicyDecision)) {
        let policy = PolicyDecision::lazy(self.rule.policy(), snapshot.status);
        output(policy.counting(match self.rule.policy().counts_requests() {
            true => Counts::HeldRequests,
            false => Counts::HeldUnits,
        }));
    }
}

impl<A: Additive> KeyLimit for Settled<A> {
    type State = SettledState<A::State>;

    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool {
        self.rule.policy().is_in_shadow() || self.fits(state, cost, now)
    }

    fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp) {
        let now = self.bring_up_to(state, now);
        self.rule.debit(&mut state.state, self.units(units), now);
    }

    /// Judges and holds in one: what has ended is spent once.
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot) {
        self.spend_what_ended(state, state.time(now));
        let fits = self.fits(state, cost, now);
        match self.held_at_most_micros {
            _ if !fits || cost == 0 => {}
            0 => self.debit(state, cost.into(), now),
            _ => self.hold(state, self.units(cost), now),
        }
        let admitted = fits || self.rule.policy().is_in_shadow();
        (admitted, self.snapshot(state, cost, fits, now))
    }

    fn holds(&self, state: &Self::State, admission: &Self::Snapshot) -> bool {
        (state.generations.iter()).any(|held| held.is_named_by(admission))
    }

    /// Of a request that was dropped before its turn nothing was spent. One that would have been
    /// refused holds nothing, and is charged nothing now.
    fn end(
        &self,
        state: &mut Self::State,
        admission: &Self::Snapshot,
        ending: Ending,
        now: Timestamp,
    ) {
        let (held, spent) = match ending {
            Ending::Settled { held, spent } => (held, spent),
            Ending::Withdrawn { cost } => (cost, 0),
            Ending::Over => return,
        };
        if admission.status.would_refuse() {
            return;
        }
        let (held, spent) = (self.units(held), self.units(spent));
        let now = self.bring_up_to(state, now);
        let mut generations = state.generations.iter_mut();
        let spent = match generations.find(|held| held.is_named_by(admission)) {
            Some(generation) => {
                let freed = self.rule.amount(held.into());
                generation.amount = generation.amount.saturating_sub(freed);
                spent
            }
            None => spent.saturating_sub(held),
        };
        if spent > 0 {
            self.rule.debit(&mut state.state, spent.into(), now);
        }
    }

    /// Gives back what was settled; what is held is freed by settling it with less.
    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
        let now = self.bring_up_to(state, now);
        self.rule.refund(&mut state.state, self.units(cost), now);
    }

    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool {
        let now = state.time(now);
        if !state.has_ended(now) {
            return state.held() == 0 && self.rule.is_fresh(&state.state, now);
        }
        // Not a copy: this is called for many states at once, and a log can be large.
        let mut small = SettledState {
            state: self.rule.inherit(&state.state, now),
            ..*state
        };
        self.spend_what_ended(&mut small, now);
        small.held() == 0 && self.rule.is_fresh(&small.state, now)
    }

    fn fresh(&self, at: Timestamp) -> Self::State {
        SettledState::of(self.rule.fresh(at), Default::default(), at)
    }

    /// The key also owes what is held in the shared bucket, but no receipt frees it here: receipts
    /// name the shared bucket's generations.
    fn inherit(&self, shared: &Self::State, now: Timestamp) -> Self::State {
        let now = shared.time(now);
        let [earlier, later] = shared.generations;
        let unowned = Generation {
            start_micros: 0,
            ends_at_micros: max(earlier.ends_at_micros, later.ends_at_micros),
            amount: shared.held(),
        };
        let generations = [unowned, Generation::default()];
        SettledState::of(self.rule.inherit(&shared.state, now), generations, now)
    }

    fn refused_for(&self, wait: Duration, now: Timestamp) -> Self::Snapshot {
        let status = KeyLimit::refused_for(&self.rule, wait, now);
        self.receipt(status, Generation::default(), (0, false))
    }

    fn snapshot(
        &self,
        state: &Self::State,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> Self::Snapshot {
        // Waits are told as of the caller's time, which may be earlier than the state's.
        self.with_ended_spent(state, now, |state, _| {
            let (held, asked) = (self.held(state), (self.units(cost), admitted));
            let status = self.rule.policy().as_enforced(asked, |asked| {
                LazyStatus::Known(self.rule.status_beside(&state.state, held, asked, now))
            });
            self.receipt(status, state.generations[1], asked)
        })
    }
}

impl<A: Additive> Settled<A> {
    /// Whether a cost fits beside all that is held.
    fn fits(&self, state: &SettledState<A::State>, cost: u32, now: Timestamp) -> bool {
        self.with_ended_spent(state, now, |state, now| {
            let amount = self.rule.amount(self.units(cost).into());
            let amount = amount.saturating_add(self.held(state));
            cost == 0 || self.rule.fits(&state.state, amount, now)
        })
    }

    /// It names the later generation if the cost is held there.
    fn receipt(&self, status: LazyStatus, later: Generation, cost: JudgedCost) -> SettledSnapshot {
        let (cost, admitted) = cost;
        let is_held = admitted && cost > 0 && self.held_at_most_micros > 0;
        SettledSnapshot {
            status,
            generation_start_micros: if is_held { later.start_micros } else { 0 },
        }
    }

    fn units<N: Ord + From<u8>>(&self, cost: N) -> N {
        self.rule.policy().units(cost)
    }

    /// Calls the closure with the state once what has ended is spent: with a copy, where something
    /// has ended.
    fn with_ended_spent<T>(
        &self,
        state: &SettledState<A::State>,
        now: Timestamp,
        look: impl FnOnce(&SettledState<A::State>, Timestamp) -> T,
    ) -> T {
        let now = state.time(now);
        if !state.has_ended(now) {
            return look(state, now);
        }
        let mut spent = state.clone();
        self.spend_what_ended(&mut spent, now);
        look(&spent, now)
    }

    /// Holds a cost.
    fn hold(&self, state: &mut SettledState<A::State>, cost: u32, now: Timestamp) {
        let now = self.bring_up_to(state, now);
        if state.held() == 0 {
            // What nobody holds is as good as gone.
            state.generations = Default::default();
        }
        let at_most = self.held_at_most_micros;
        let [earlier, later] = &mut state.generations;
        let at = max(now.as_micros(), later.start_micros);
        if at + at_most >= later.ends_at_micros {
            if earlier.amount > 0 && later.amount > 0 {
                // Another limit of this name holds for longer: both generations still run.
                later.ends_at_micros = at + at_most;
            } else {
                if later.amount > 0 {
                    *earlier = *later;
                }
                *later = Generation {
                    // No two generations of a state begin at the same instant.
                    start_micros: max(at, later.start_micros + 1),
                    ends_at_micros: at + 2 * at_most,
                    amount: 0,
                };
            }
        }
        later.amount += self.rule.amount(cost.into());
    }

    /// All that is held, by this limit's numbers.
    fn held(&self, state: &SettledState<A::State>) -> u64 {
        let [earlier, later] =
            (state.generations).map(|held| self.rule.converted(&state.state, held.amount));
        earlier.saturating_add(later)
    }

    /// Spends what was held in generations that have ended, and counts what is left by this limit's
    /// numbers from now on, as the rule does with its state.
    fn bring_up_to(&self, state: &mut SettledState<A::State>, now: Timestamp) -> Timestamp {
        let now = state.time(now);
        state.last_micros = now.as_micros();
        self.spend_what_ended(state, now);
        self.convert(state);
        self.rule.debit_amount(&mut state.state, 0, now);
        now
    }

    fn convert(&self, state: &mut SettledState<A::State>) {
        for held in &mut state.generations {
            held.amount = self.rule.converted(&state.state, held.amount);
        }
    }

    /// Counts what was held in generations that have ended as spent at their ends.
    fn spend_what_ended(&self, state: &mut SettledState<A::State>, now: Timestamp) {
        if !state.has_ended(now) {
            return;
        }
        // By these numbers, as what is left.
        self.convert(state);
        let mut generations = state.generations.each_mut();
        generations.sort_by_key(|held| held.ends_at_micros);
        for ended in generations.into_iter().filter(|held| held.has_ended(now)) {
            let end = Timestamp::from_micros(ended.ends_at_micros);
            let amount = mem::take(&mut ended.amount);
            self.rule.debit_amount(&mut state.state, amount, end);
        }
    }
}

impl<A> Scripted for Settled<A>
where
    A: Additive + Scripted<State = <A as Algorithm>::State, Snapshot = LazyStatus>,
{
    fn script() -> Script {
        A::script().with(|member| member.settled = true)
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        self.rule.parameters(output);
    }

    fn holding(&self, output: &mut dyn FnMut(u64)) {
        output(self.held_at_most_micros);
        output(retention_micros(self.rule.policy()));
    }

    /// The numbers of the rule, then the generations.
    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Self::State> {
        let (state, generations) = numbers.split_last_chunk()?;
        let state = self.rule.state(at, state)?;
        let generations = Generation::read_both(generations);
        Some(SettledState::of(state, generations, at))
    }

    fn numbers(&self, state: &Self::State, at: Timestamp, output: &mut dyn FnMut(u64)) {
        self.with_ended_spent(state, at, |state, at| {
            self.rule.numbers(&state.state, at, output);
            for generation in state.generations {
                output(generation.start_micros);
                output(generation.ends_at_micros);
                output(generation.amount);
            }
        });
    }

    fn admission(&self, admission: &Self::Snapshot, output: &mut dyn FnMut(u64)) {
        output(admission.generation_start_micros);
    }

    fn read(&self, reply: &mut ScriptReply) -> Option<Self::Snapshot> {
        let member = reply.next()?;
        let generations = Generation::read_both(member.held.first_chunk().unwrap_or(&[0; 6]));
        if member.extra.is_empty() {
            let state = self.rule.state(member.at, &member.numbers)?;
            let state = SettledState::of(state, generations, member.at);
            return Some(self.snapshot(&state, member.cost, member.admitted, member.now));
        }
        let asked = (member.cost, member.admitted);
        // The script has told how the list is beside what is held.
        let status = self.rule.read(&mut vec![member].into_iter())?;
        Some(self.receipt(status, generations[1], asked))
    }
}

impl<A: Additive> Settled<A> {
    /// The same as `.settled()` on the algorithm.
    pub const fn new(rule: A) -> Self {
        Self {
            rule,
            held_at_most_micros: DEFAULT_HELD_AT_MOST_MICROS,
        }
    }

    /// How long units are held at most; 60 seconds unless said otherwise.
    ///
    /// What nobody has settled after one to two times as long counts as spent, in memory too, even
    /// if the request still runs: settling it later frees nothing. So choose it longer than the
    /// longest request or stream. In memory that costs nothing; over Redis, what a killed process
    /// held begins to come back only then.
    ///
    /// # Example: a stream that outlives it, and one that does not
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Quota, RateLimiter, Timestamp};
    /// use tollgate::{algorithm::FixedWindow, clock::ManualClock, store::LocalStore};
    ///
    /// for (minutes, left) in [(1, 700), (60, 958)] {
    ///     let clock = ManualClock::at(Timestamp::from_micros(0));
    ///     let tokens = FixedWindow::new(Quota::per_day(1_000)).settled();
    ///     let tokens = tokens.held_at_most(Duration::from_secs(60 * minutes));
    ///     let store = LocalStore::builder().clock(clock.clone()).build();
    ///     let limiter = RateLimiter::new(tokens, store);
    ///
    ///     let stream = limiter.hold("bob", 300).now().expect("300 of 1000 fit");
    ///     clock.advance(Duration::from_secs(10 * 60));
    ///     stream.settle(42);
    ///     assert_eq!(limiter.peek("bob").now().remaining(), left);
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// If the duration is shorter than a microsecond, or longer than 35 years.
    #[must_use]
    #[track_caller]
    pub fn held_at_most(mut self, duration: Duration) -> Self {
        self.held_at_most_micros = or_panic(held_at_most_micros(duration, 1));
        self
    }
}

impl<A: Additive + Named> Settled<A> {
    /// A dry run of the limit: it counts, and never refuses. See [`Policy::shadow`].
    #[must_use]
    pub fn shadow(mut self) -> Self {
        let policy = self.rule.policy_mut();
        *policy = policy.clone().shadow();
        self
    }
}

/// So long as something is held at most, if that is allowed.
pub(super) fn held_at_most_micros(held_at_most: Duration, min: u64) -> Result<u64, ConfigError> {
    let micros = u64::try_from(held_at_most.as_micros()).unwrap_or(u64::MAX);
    if micros < min {
        let min = Duration::from_micros(min);
        return Err(ConfigError::HeldTooShort { held_at_most, min });
    }
    if micros > MAX_HELD_AT_MOST_MICROS {
        return Err(ConfigError::PeriodTooLong {
            period: held_at_most,
            max: Duration::from_micros(MAX_HELD_AT_MOST_MICROS),
        });
    }
    Ok(micros)
}

#[cfg(test)]
mod tests;
