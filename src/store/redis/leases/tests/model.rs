//! What the server does with what processes send: by the rules of this crate, and for real.

use std::collections::HashMap;

use super::{
    super::super::{
        arguments::Units,
        tests::{TestServer, reply},
    },
    *,
};

/// A process, the step at which it began, and one of its plans.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) process: usize,
    /// No two processes have the same, but clones have.
    pub(super) began: usize,
    pub(super) plan: usize,
}

/// What a step sends.
pub(super) struct Sent {
    pub(super) who: Who,
    pub(super) subject: Subject,
    pub(super) costs: Vec<u32>,
    pub(super) steps: Option<Bytes>,
    pub(super) leasing: Option<Leasing>,
    pub(super) call: Option<Call>,
    pub(super) changing: Option<Changing>,
    pub(super) settles: bool,
    pub(super) resets: bool,
    /// The step of the hold of a request that it makes or ends.
    pub(super) hold: Option<usize>,
    /// How it ends, and the numbers of its admission.
    pub(super) ends: Option<(Ending, Vec<f64>)>,
    /// When it was sent, and what the clock of its process showed.
    pub(super) sent: [u64; 2],
    pub(super) arrived: Option<u64>,
    pub(super) replies: Option<Vec<Bytes>>,
    /// When how much was charged.
    pub(super) charged: Vec<(u64, u64)>,
    /// When it was answered, or not waited for any more; and whether it was answered.
    pub(super) over: Option<(u64, bool)>,
}

impl Sent {
    /// Nothing, about this key by this process and plan.
    pub(super) fn about(subject: Subject, who: Who, sent: [u64; 2]) -> Self {
        Self {
            who,
            subject,
            costs: Vec::new(),
            steps: None,
            leasing: None,
            call: None,
            changing: None,
            settles: false,
            resets: false,
            hold: None,
            ends: None,
            sent,
            arrived: None,
            replies: None,
            charged: Vec::new(),
            over: None,
        }
    }

    /// The same with what a call says of leases.
    pub(super) fn leasing(mut self, leasing: Leasing) -> Self {
        self.steps = Some(leasing.steps(&self.costs));
        self.settles = leasing.settled.is_some();
        self.leasing = Some(leasing);
        self
    }
}

/// A real server, and a store that runs the scripts that arrive there, by a clock of its own.
pub(super) struct Server {
    _process: TestServer,
    runtime: Runtime,
    shared: Arc<Shared>,
    clock: ManualClock,
}

impl Server {
    pub(super) fn start() -> Self {
        let process = TestServer::start();
        drop(process.connect());
        let port = process.port;
        let clock = ManualClock::at(at(BEGIN));
        Self {
            _process: process,
            runtime: Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
            shared: store(port, &clock, 0).shared,
            clock,
        }
    }

    /// Runs the script of these steps, or of this one cost; or ends a hold, or resets.
    pub(super) fn run(&self, subject: &Subject, sent: &Sent, now: u64) -> Vec<Bytes> {
        self.clock.set(at(now));
        let arguments = |cost| {
            let of = match &sent.ends {
                Some((ending, admission)) => Units::Ended(*ending, admission),
                None => Units::Asked(Ask::Charge(cost)),
            };
            self.shared.arguments(&subject.queries, of)
        };
        let (script, words) = match &sent.steps {
            Some(steps) => (
                Some(subject.script.leased()),
                vec![arguments(0), steps.clone()],
            ),
            None if sent.resets => (None, Vec::new()),
            None => {
                let cost = sent.costs.first().copied().unwrap_or_default();
                (Some(&*subject.script), vec![arguments(cost)])
            }
        };
        let deadline = Wait::Until(Instant::now() + Duration::from_secs(30));
        let keys = &subject.queries[0].keys;
        let replies = self.shared.replies(script, (keys, &words), deadline);
        let replies = self.runtime.block_on(replies).expect("replies");
        if sent.resets { Vec::new() } else { replies }
    }
}

/// A limit that can be leased.
pub(super) trait Rule: Scripted {
    /// How the server holds it.
    type Held: Scripted;

    fn held_at_most(&self, time: Duration) -> Self::Held;

    /// How many parts a unit of each member has.
    fn parts(&self) -> Vec<u64>;

    /// How many units each member holds.
    fn held(&self, state: &State<Self>, now: u64) -> Vec<u64>;

    /// How much of this cost can be leased, if so much may be held.
    fn leased(&self, state: &State<Self>, of: [u64; 2], now: u64) -> u64;
}

pub(super) type State<L> = <<L as Rule>::Held as KeyLimit>::State;

impl<L> Rule for L
where
    L: Additive + Scripted<State = <L as Algorithm>::State, Snapshot = LazyStatus>,
{
    type Held = Settled<L>;

    fn held_at_most(&self, time: Duration) -> Settled<L> {
        Settled::new(self.clone()).held_at_most(time)
    }

    fn parts(&self) -> Vec<u64> {
        vec![self.amount(1)]
    }

    fn held(&self, state: &State<L>, now: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        Settled::new(self.clone()).numbers(state, at(now), &mut |it| numbers.push(it));
        let held = numbers.rchunks(3).take(2).map(|it| it[2]);
        vec![held.sum::<u64>().div_ceil(self.amount(1))]
    }

    fn leased(&self, state: &State<L>, [mut cost, most]: [u64; 2], now: u64) -> u64 {
        let limit = Settled::new(self.clone());
        cost = cost.min(most.saturating_sub(self.held(state, now)[0]));
        if L::script().members()[0].has_list() {
            let now = limit.snapshot(state, 0, true, at(now));
            cost = cost.min(limit.decision_of(&now).remaining() / 2);
        }
        while cost > 0 && !limit.judge(state, 2 * cost as u32, at(now)) {
            cost /= 2;
        }
        cost
    }
}

impl<A: Rule, B: Rule> Rule for (A, B) {
    type Held = (A::Held, B::Held);

    fn held_at_most(&self, time: Duration) -> Self::Held {
        (self.0.held_at_most(time), self.1.held_at_most(time))
    }

    fn parts(&self) -> Vec<u64> {
        [self.0.parts(), self.1.parts()].concat()
    }

    fn held(&self, state: &State<Self>, now: u64) -> Vec<u64> {
        [self.0.held(&state.0, now), self.1.held(&state.1, now)].concat()
    }

    fn leased(&self, state: &State<Self>, [cost, most]: [u64; 2], now: u64) -> u64 {
        let cost = self.0.leased(&state.0, [cost, most], now);
        self.1.leased(&state.1, [cost, most], now)
    }
}

/// What the server does, by the rules of this crate.
pub(super) struct Model<L: Rule> {
    pub(super) rules: [L; 2],
    pub(super) held_for: Duration,
    /// What is stored, and when.
    pub(super) stored: Option<(State<L>, u64)>,
    /// What is held, by its generations.
    pub(super) held: HashMap<Vec<u64>, <L::Held as Limit>::Snapshot>,
    /// How long requests hold, and the admission and the cost of each step that does.
    pub(super) requests_hold_for: Duration,
    pub(super) holds: HashMap<usize, (<L::Held as Limit>::Snapshot, u32)>,
}

impl<L: Rule> Model<L> {
    pub(super) fn limit(&self, plan: usize) -> L::Held {
        self.rules[plan].held_at_most(self.held_for)
    }

    /// What the script of these steps, or of this one cost, replies.
    pub(super) fn run(&mut self, sent: &Sent, now: u64) -> Vec<Bytes> {
        if sent.resets {
            self.stored = None;
            return Vec::new();
        }
        if let Some(hold) = sent.hold {
            return vec![self.hold(hold, sent, now)];
        }
        let (rule, limit) = (self.rules[sent.who.plan].clone(), self.limit(sent.who.plan));
        let parts = rule.parts();
        let len = 5 + BYTES * (2 + parts.len());
        let one = || [&[0][..], &sent.costs[0].to_le_bytes(), &vec![0; len - 5]].concat();
        let steps = sent.steps.clone().unwrap_or_else(|| one().into());
        let (mut replies, mut all_fit) = (Vec::new(), true);
        for step in steps.chunks_exact(len) {
            let number = |bytes: &[u8]| {
                let mut number = [0; 8];
                number[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(number)
            };
            let [mut cost, units] = [&step[1..5], &step[5..12]].map(number);
            let generations: Vec<_> = step[19..].chunks(7).map(number).collect();
            let mut state = self.state(sent.who.plan, now);
            let fits = match step[0] {
                3 => {
                    let (held, spent) = (units as u32, cost as u32);
                    if let Some(admission) = self.held.get(&generations) {
                        let ending = Ending::Settled { held, spent };
                        limit.end(&mut state, admission, ending, at(now));
                    }
                    true
                }
                5 => {
                    cost = rule.leased(&state, [cost, units], now);
                    if cost == 0 || !all_fit {
                        break;
                    }
                    let parts = parts.iter().map(|it| it.to_le_bytes());
                    let parts: Vec<_> = parts.flat_map(|it| it.into_iter().take(7)).collect();
                    replies.push([&(cost as u32).to_le_bytes()[..], &parts].concat().into());
                    let (fits, admission) = limit.step(&mut state, cost as u32, at(now));
                    let mut generations = Vec::new();
                    limit.admission(&admission, &mut |it| generations.push(it));
                    self.held.insert(generations, admission);
                    fits
                }
                _ => limit.unheld().step(&mut state, cost as u32, at(now)).0,
            };
            all_fit &= fits;
            replies.push(self.reply(&limit, state, (cost as u32, fits), now));
        }
        replies
    }

    /// What a request that holds would be held to.
    pub(super) fn settled(&self, plan: usize) -> L::Held {
        self.rules[plan].held_at_most(self.requests_hold_for)
    }

    /// Holds the cost of a request, or ends that.
    fn hold(&mut self, hold: usize, sent: &Sent, now: u64) -> Bytes {
        let limit = self.settled(sent.who.plan);
        let mut state = self.state(sent.who.plan, now);
        let (cost, fits) = if let Some((ending, _)) = sent.ends {
            limit.end(&mut state, &self.holds[&hold].0, ending, at(now));
            (0, true)
        } else {
            let cost = sent.costs[0];
            let (fits, admission) = limit.step(&mut state, cost, at(now));
            if fits {
                self.holds.insert(hold, (admission, cost));
            }
            (cost, fits)
        };
        self.reply(&limit, state, (cost, fits), now)
    }

    /// What is replied about a cost, if it leaves this state.
    fn reply(
        &mut self,
        limit: &L::Held,
        state: State<L>,
        (cost, fits): (u32, bool),
        now: u64,
    ) -> Bytes {
        if fits {
            self.stored = Some((state, now));
        }
        let stored = self.stored.as_ref().map(|(state, last)| (state, *last));
        reply(limit, stored, (cost, fits), now)
    }

    /// Whether that request still holds its cost.
    pub(super) fn is_held(&self, hold: usize, plan: usize, now: u64) -> bool {
        let (limit, mut state) = (self.settled(plan), self.state(plan, now));
        // What has ended is spent.
        limit.step(&mut state, 0, at(now));
        limit.holds(&state, &self.holds[&hold].0)
    }

    /// Gives units back that were charged.
    pub(super) fn refund(&mut self, sent: &Sent, units: u64, now: u64) {
        let limit = self.limit(sent.who.plan);
        if let Some((state, last)) = &mut self.stored {
            limit.refund(state, units as u32, at(now));
            *last = now;
        }
    }

    /// The state now.
    pub(super) fn state(&self, plan: usize, now: u64) -> State<L> {
        let stored = self.stored.as_ref().map(|(state, _)| state.clone());
        stored.unwrap_or_else(|| self.limit(plan).fresh(at(now)))
    }
}

/// Of each reply all but when its key expires, and generations without units. Of a rule that keeps
/// a list, which the rule here forgets later, only whether it charges, and what is held then.
pub(super) fn comparable(replies: &[Bytes], subject: &Subject) -> Vec<Vec<u8>> {
    let members = subject.queries[0].scripts.script.members();
    let has_list = members.iter().any(Member::has_list);
    let sum = |numbers: fn(&Member) -> usize| members.iter().map(numbers).sum::<usize>();
    let value_len = 1 + BYTES * (3 + sum(|it| it.state.len()));
    let extra = sum(|it| it.extra.len());
    let replies = replies.iter().map(|reply| {
        let mut reply = reply.to_vec();
        let value = match reply.first() {
            Some(0 | 3) => 1 + BYTES * (3 + extra),
            _ => 0,
        };
        if reply.len() < value + value_len {
            return reply;
        }
        reply[value + 15..value + 22].fill(0);
        // A generation that holds nothing is none.
        for generation in reply[value + value_len..].chunks_exact_mut(21) {
            if generation[14..] == [0; 7] {
                generation.fill(0);
            }
        }
        if has_list && reply[0] == 0 {
            reply.truncate(1);
        } else if has_list {
            reply.drain(1..value + value_len);
            reply[0] = 1;
        }
        reply
    });
    replies.collect()
}
