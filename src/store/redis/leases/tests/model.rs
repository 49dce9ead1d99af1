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
            sent,
            arrived: None,
            replies: None,
            charged: Vec::new(),
            over: None,
        }
    }

    /// What was spent of a lease.
    pub(super) fn settling(mut self, leases: &Leases, lease: &Lease) -> Self {
        let mut steps = Vec::new();
        leases.settle(&mut steps, lease);
        (self.steps, self.settles) = (Some(steps.into()), true);
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

    /// Runs the script of these steps, or of this one cost.
    pub(super) fn run(&self, subject: &Subject, sent: &Sent, now: u64) -> Vec<Bytes> {
        self.clock.set(at(now));
        let (script, words) = match &sent.steps {
            Some(steps) => (
                subject.script.leased(),
                vec![self.arguments(subject, 0), steps.clone()],
            ),
            None => (
                &*subject.script,
                vec![self.arguments(subject, sent.costs[0])],
            ),
        };
        let deadline = Wait::Until(Instant::now() + Duration::from_secs(30));
        let keys = subject.keys();
        let replies = self.shared.replies(Some(script), (&keys, &words), deadline);
        self.runtime.block_on(replies).expect("replies")
    }

    fn arguments(&self, subject: &Subject, cost: u32) -> Bytes {
        let decide = (Op::Decide, Units::Cost(cost));
        self.shared.arguments(&*subject.queries, decide)
    }
}

/// What the server does, by the rules of this crate.
pub(super) struct Model<L: Additive> {
    pub(super) rules: [L; 2],
    pub(super) held_for: Duration,
    /// What is stored, and when.
    pub(super) stored: Option<(<Settled<L> as KeyLimit>::State, u64)>,
    /// What is held, by its generation.
    pub(super) held: HashMap<u64, <Settled<L> as Limit>::Snapshot>,
}

impl<L> Model<L>
where
    L: Additive + Scripted<State = <L as Algorithm>::State, Snapshot = LazyStatus>,
{
    /// What the script of these steps, or of this one cost, replies.
    pub(super) fn run(&mut self, sent: &Sent, now: u64) -> Vec<Bytes> {
        let rule = &self.rules[sent.who.plan];
        let limit = Settled::new(rule.clone()).held_at_most(self.held_for);
        let one = || {
            [&[0][..], &sent.costs[0].to_le_bytes(), &[0; 21]]
                .concat()
                .into()
        };
        let steps = sent.steps.clone().unwrap_or_else(one);
        let (mut replies, mut all_fit) = (Vec::new(), true);
        for step in steps.chunks_exact(26) {
            let number = |from: usize, bytes: usize| {
                let mut number = [0; 8];
                number[..bytes].copy_from_slice(&step[from..from + bytes]);
                u64::from_le_bytes(number)
            };
            let [mut cost, units, generation] =
                [(1, 4), (5, 7), (19, 7)].map(|(at, len)| number(at, len));
            let mut state = self.state(sent.who.plan, now);
            let fits = match step[0] {
                3 => {
                    let (held, spent) = (units as u32, cost as u32);
                    if let Some(admission) = self.held.get(&generation) {
                        limit.end(
                            &mut state,
                            admission,
                            Ending::Settled { held, spent },
                            at(now),
                        );
                    }
                    true
                }
                5 => {
                    let unit = rule.amount(1);
                    let held = self.held(sent.who.plan, &state, now);
                    cost = if all_fit {
                        cost.min(units.saturating_sub(held))
                    } else {
                        0
                    };
                    if L::script().members()[0].has_list() {
                        let now = limit.snapshot(&state, 0, true, at(now));
                        cost = cost.min(limit.decision_of(&now).remaining() / 2);
                    }
                    while cost > 0 && !limit.judge(&state, 2 * cost as u32, at(now)) {
                        cost /= 2;
                    }
                    if cost == 0 {
                        break;
                    }
                    replies.push(
                        [&(cost as u32).to_le_bytes()[..], &unit.to_le_bytes()[..7]]
                            .concat()
                            .into(),
                    );
                    let (fits, admission) = limit.step(&mut state, cost as u32, at(now));
                    limit.admission(&admission, &mut |generation| {
                        self.held.insert(generation, admission);
                    });
                    fits
                }
                _ => limit.unheld().step(&mut state, cost as u32, at(now)).0,
            };
            if fits {
                self.stored = Some((state, now));
            }
            all_fit &= fits;
            let stored = self.stored.as_ref().map(|(state, last)| (state, *last));
            replies.push(reply(&limit, stored, (cost as u32, fits), now));
        }
        replies
    }

    /// Gives units back that were charged.
    pub(super) fn refund(&mut self, sent: &Sent, units: u64, now: u64) {
        let limit = Settled::new(self.rules[sent.who.plan].clone());
        if let Some((state, last)) = &mut self.stored {
            limit.refund(state, units as u32, at(now));
            *last = now;
        }
    }

    /// The state now.
    pub(super) fn state(&self, plan: usize, now: u64) -> <Settled<L> as KeyLimit>::State {
        let stored = self.stored.as_ref().map(|(state, _)| state.clone());
        stored.unwrap_or_else(|| Settled::new(self.rules[plan].clone()).fresh(at(now)))
    }

    /// How many units are held.
    pub(super) fn held(
        &self,
        plan: usize,
        state: &<Settled<L> as KeyLimit>::State,
        now: u64,
    ) -> u64 {
        let limit = Settled::new(self.rules[plan].clone());
        let numbers = self.numbers(&limit, state, now);
        let held = numbers.rchunks(3).take(2).map(|it| it[2]);
        held.sum::<u64>().div_ceil(self.rules[plan].amount(1))
    }

    fn numbers(
        &self,
        limit: &Settled<L>,
        state: &<Settled<L> as KeyLimit>::State,
        at_micros: u64,
    ) -> Vec<u64> {
        let mut numbers = Vec::new();
        limit.numbers(state, at(at_micros), &mut |it| numbers.push(it));
        numbers
    }
}

/// Of each reply all but when its key expires, and generations without units. Of a rule that keeps
/// a list, which the rule here forgets later, only whether it charges, and what is held then.
pub(super) fn comparable(replies: &[Bytes], subject: &Subject) -> Vec<Vec<u8>> {
    let member = &subject.queries[0].scripts.script.members()[0];
    let value_len = 1 + BYTES * (3 + member.state.len());
    let replies = replies.iter().map(|reply| {
        let mut reply = reply.to_vec();
        let value = match reply.first() {
            Some(0 | 3) => 1 + BYTES * (3 + member.extra.len()),
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
        if member.has_list() && reply[0] == 0 {
            reply.truncate(1);
        } else if member.has_list() {
            reply.drain(1..value + value_len);
            reply[0] = 1;
        }
        reply
    });
    replies.collect()
}
