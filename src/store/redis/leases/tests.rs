//! A simulator: a real server, and processes that ask it about one key, spend what they lease, and
//! remember what is refused, each by a clock of its own. Requests and answers take any time,
//! overtake each other and are lost; processes end, or stop for a while; requests hold their cost
//! and settle it; the key is reset. What is spent is counted where it is spent. The harness makes
//! mistakes if it is told to: they must be found.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::pending,
    mem,
    sync::LazyLock,
    time::Instant,
};

use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tollgate_algorithms::{
    Bound, debt_bucket, every_additive, fixed_window, sliding_log, sliding_window,
};

use crate::{
    Quota,
    algorithm::*,
    clock::ManualClock,
    store::{Ask, RedisStore, Verdict},
};

use super::{
    super::{
        changes::Changing,
        failure,
        joined::Call,
        limits::admission as admission_of,
        query::Query,
        tests::{at, search, store},
    },
    *,
};

use self::{
    model::{Model, Rule, Sent, Server, State, Who, comparable},
    rules::rules,
};

mod claims;
mod idle;
mod model;
mod rules;

/// For how long each process remembers refusals. The last one is a clone of the first one's store,
/// with leases of its own.
const LONGEST: [u64; PROCESSES] = [1_000, 60, 0, 1_000];
const PROCESSES: usize = 4;
const TAKES_MUCH: usize = 2;
/// Mistakes.
const UNDER_OTHERS: &str = "spent under other numbers";
const GIVEN_BACK: &str = "given back for callers who left";
const TOO_LITTLE: &str = "less is settled than was spent";
const RESET_TWICE: &str = "a reset is done twice";
const UNNOTICED: &str = "what was given back is not noticed";
/// What the server's clock shows at the beginning.
const BEGIN: u64 = 1 << 40;

/// The rule, a quarter of the period, the lease time, and by how much each process's clock is
/// ahead; of each plan the units and the burst; the steps.
type Case = ([u64; 6], [[u64; 2]; 2], Vec<Step>);

/// How long after the step before, which process, by which plan, does what, how often, for how many
/// units; how long it takes there and back; and whether the request (0) or the answer (1) is lost:
/// then the process gives up after as long as the way back takes.
type Step = (u64, [u64; 2], [u64; 6]);

fn any_case() -> impl Strategy<Value = Case> {
    let plans = [[1..80, 16..80_u64], [1..4, 4..6]];
    let who = [0..9, 0..16_u64];
    let step = (0..90_u64, who, [0..60, 1..4, 1..3, 0..86, 0..90, 0..20_u64]);
    let of_all = [0..999, 25..100, 4..40, 0..999, 0..999, 0..999_u64];
    let steps = prop::collection::vec(step, 1..200);
    (of_all, plans, steps)
}

/// How many scripts were sent, how many decisions were made without, by leases and by remembered
/// refusals, and how much of the bound was reached at most, in thousandths.
type Counts = [u64; 4];
type Run = fn(Given<'_>) -> Result<Counts, String>;

type Processes = [(RedisStore, ManualClock); PROCESSES];

struct Given<'a> {
    key: u64,
    /// It replies as the model does.
    server: Option<&'a mut Server>,
    processes: &'a Processes,
    case: &'a Case,
    /// What the harness does wrong.
    mistake: &'static str,
}

/// Most are nothing, and a few are long.
fn stretched(micros: u64) -> u64 {
    match micros {
        0..60 => 0,
        60..84 => (micros - 60) / 4,
        _ => (micros - 83) * 100,
    }
}

fn process_of(number: u64) -> usize {
    [0, 0, 0, 1, 1, 1, TAKES_MUCH, 3, 3][number as usize]
}

struct World<'a, L: Rule> {
    model: Model<L>,
    /// It replies the same.
    server: Option<&'a mut Server>,
    key: u64,
    plans: [(L, Vec<Bound>); 2],
    mistake: &'static str,
    lease_time: u64,
    processes: [(RedisStore, ManualClock); PROCESSES],
    /// Clones have begun together.
    began: [usize; 3],
    /// The steps whose requests hold their cost, by process.
    hold: [Vec<usize>; PROCESSES],
    sent: HashMap<usize, Sent>,
    /// What each decision left on the server.
    left: HashMap<usize, State<L>>,
    /// By plan, when how many units were spent.
    spent: [Vec<(u64, u64)>; 2],
    /// By plan, how many units were leased and not spent at the last reset: since then so many may
    /// be spent beyond the bound.
    unspent: [u64; 2],
    counts: Counts,
}

impl<'a, L: Rule> World<'a, L> {
    fn new(given: Given<'a>, plans: [(L, Vec<Bound>); 2], lease_time: u64) -> Self {
        let Given {
            key,
            server,
            processes,
            mistake,
            ..
        } = given;
        let held_for = held_for(lease_time, mistake);
        let processes = processes.each_ref();
        let processes =
            processes.map(|(store, clock)| (leased(store, lease_time, held_for), clock.clone()));
        let model = Model {
            rules: [0, 1].map(|plan| plans[plan].0.clone()),
            held_for: Duration::from_micros(held_for),
            stored: None,
            held: HashMap::new(),
            requests_hold_for: Duration::from_micros(4 * lease_time),
            holds: HashMap::new(),
        };
        Self {
            model,
            server,
            key,
            plans,
            mistake,
            lease_time,
            processes,
            began: [0, 1, 2],
            hold: Default::default(),
            sent: HashMap::new(),
            left: HashMap::new(),
            spent: Default::default(),
            unspent: [0; 2],
            counts: [0; 4],
        }
    }

    fn run(mut self, ahead: &[u64], steps: &[Step]) -> Result<Counts, String> {
        let (mut now, mut events, mut pauses) = (0, Vec::new(), Vec::new());
        for (number, step) in steps.iter().enumerate() {
            let &(after, [process, _], [what, _, _, there, back, lost]) = step;
            let [after, there, back] = [after, there, back].map(stretched);
            now += after;
            if what < 2 && pauses.is_empty() {
                // Nobody else does anything meanwhile.
                let pause = self.lease_time * HELD_FOR_TIMES - self.lease_time;
                pauses.push((now, process_of(process), pause));
                now += pause;
            }
            events.push((now, number, 0));
            events.extend((lost != 0).then_some((now + there, number, 1)));
            let answered = if lost > 1 { there + back } else { back };
            events.push((now + answered, number, 2));
        }
        events.sort_unstable();
        for (now, number, event) in events {
            for (process, ((_, clock), ahead)) in self.processes.iter().zip(ahead).enumerate() {
                let is_past = |it: &&(u64, usize, u64)| it.1 % 3 == process % 3 && it.0 <= now;
                let paused = pauses.iter().find(is_past);
                let paused = paused.map_or(0, |&(since, _, pause)| pause.min(now - since));
                clock.set(at(ahead + now - paused));
            }
            match event {
                0 => self.begin(number, &steps[number], now)?,
                1 => self.arrive(number, now),
                _ => self.end(number, steps[number].2[5] > 1, now),
            }
            self.is_within_bounds(now)?;
        }
        Ok(self.counts)
    }

    fn begin(&mut self, number: usize, step: &Step, now: u64) -> Result<(), String> {
        let &(_, [process, plan], [what, count, cost, ..]) = step;
        let is_other = plan == 15 || self.mistake == UNDER_OTHERS && plan > 12;
        let process = process_of(process);
        let who = Who {
            process,
            began: self.began[process % 3],
            plan: usize::from(is_other),
        };
        let store = &self.processes[process].0;
        match what {
            0 | 1 => {}
            2 => {
                let held_for = held_for(self.lease_time, self.mistake);
                self.began[process % 3] = 3 * (number + 1) + process % 3;
                for process in (process % 3..PROCESSES).step_by(3) {
                    let store = &mut self.processes[process].0;
                    *store = leased(store, self.lease_time, held_for);
                    self.hold[process].clear();
                }
            }
            3 | 4 => {
                let leases = store.leases.as_ref().expect("leases");
                let idle = leases.idle(&store.shared, |_| false);
                for settling in idle.into_iter().flatten() {
                    let subject = settling.subject.clone();
                    let plan = usize::from(self.subject(process, 1) == subject);
                    let who = Who { plan, ..who };
                    let sent = Sent::about(subject, who, [now, store.shared.time()]);
                    self.sent.insert(number, sent.leasing(settling));
                }
            }
            55 | 56 => self.end_hold(number, process, count as u32 - 1, now),
            57 | 58 => {
                let query = Query::new(store, &self.model.settled(who.plan), self.key);
                let subject = query.subject().expect("a subject");
                let mut sent = Sent::about(subject, who, [now, store.shared.time()]);
                (sent.hold, sent.costs) = (Some(number), vec![cost as u32]);
                self.sent.insert(number, sent);
            }
            59 => {
                let subject = self.subject(process, who.plan);
                let changing = store.shared.changing(&subject.queries[0].keys[0]);
                let mut sent = Sent::about(subject, who, [now, store.shared.time()]);
                (sent.resets, sent.changing) = (true, Some(changing));
                self.sent.insert(number, sent);
            }
            _ => {
                // Then little is left beside leases.
                let times = if process == TAKES_MUCH { 12 } else { 1 };
                let cost = times * cost;
                let costs = vec![cost as u32; count as usize];
                self.ask(number, who, costs, now)?;
            }
        }
        Ok(())
    }

    /// The last request of the process that holds its cost has spent so much, or all of it.
    fn end_hold(&mut self, number: usize, process: usize, spent: u32, now: u64) {
        let Some(hold) = self.hold[process].pop() else {
            return;
        };
        let (shared, held) = (&self.processes[process].0.shared, &self.sent[&hold]);
        let (admission, cost) = &self.model.holds[&hold];
        let ending = Ending::Settled {
            held: *cost,
            spent: spent.min(*cost),
        };
        let limit = self.model.settled(held.who.plan);
        let mut sent = Sent::about(held.subject.clone(), held.who, [now, shared.time()]);
        sent.changing = Some(shared.changing(&held.subject.queries[0].keys[0]));
        sent.hold = Some(hold);
        sent.ends = Some((ending, admission_of(&limit, admission)));
        sent.settles = true;
        self.sent.insert(number, sent);
    }

    fn subject(&self, process: usize, plan: usize) -> Subject {
        let query = Query::new(&self.processes[process].0, &self.plans[plan].0, self.key);
        query.subject().expect("a subject")
    }

    fn ask(&mut self, number: usize, who: Who, costs: Vec<u32>, now: u64) -> Result<(), String> {
        let store = self.processes[who.process].0.clone();
        let query = Query::new(&store, &self.plans[who.plan].0, self.key);
        let [subject, others] =
            [who.plan, 1 - who.plan].map(|plan| self.subject(who.process, plan));
        let mut asked = Vec::new();
        for cost in costs {
            let ask = Ask::Charge(cost);
            let is_others = self.mistake == UNDER_OTHERS;
            if query.spent(ask).is_some() || is_others && store.shared.spend(&others, ask).is_some()
            {
                self.spent[who.plan].push((now, cost.into()));
                self.counts[1] += 1;
            } else if let Some(refused) = query.refused(ask) {
                self.counts[2] += 1;
                if let Some(wrong) = self.wrong((who, &subject), cost, &refused, now) {
                    return Err(format!("step {number}: {wrong}"));
                }
            } else {
                asked.push(cost);
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let mut sent = Sent::about(subject, who, [now, store.shared.time()]);
        let leasing = store.shared.leasing(&sent.subject, &asked);
        if leasing.is_none() {
            // Without a lease each of several would be a call of its own here.
            asked.truncate(1);
        }
        sent.costs = asked;
        if let Some(leasing) = leasing {
            sent = sent.leasing(leasing);
        }
        let mut calls = lock(&store.shared.joined);
        let calls = calls.entry(sent.subject.clone()).or_default();
        let call = Call::begin(&store.shared, &sent.subject, calls, Instant::now());
        sent.call = Some(call);
        self.sent.insert(number, sent);
        Ok(())
    }

    fn arrive(&mut self, number: usize, now: u64) {
        let Some(sent) = self.sent.get_mut(&number) else {
            return;
        };
        self.counts[0] += 1;
        if let (Some(hold), Some((Ending::Settled { held, spent }, _))) = (sent.hold, &sent.ends) {
            let is_wrong = self.mistake == TOO_LITTLE;
            let spent = if is_wrong { held } else { spent };
            // What has ended before was spent then.
            if self.model.is_held(hold, sent.who.plan, BEGIN + now) {
                self.spent[sent.who.plan].push((now, u64::from(*spent)));
            }
        }
        let mut run = |sent: &Sent| {
            let replies = self.model.run(sent, BEGIN + now);
            if let Some(server) = &self.server {
                let real = server.run(&sent.subject, sent, BEGIN + now);
                let [real, replies] = [&real, &replies].map(|it| comparable(it, &sent.subject));
                assert_eq!(real, replies);
            }
            replies
        };
        if self.mistake == "settled twice"
            && let Some(steps) = sent.steps.as_ref().filter(|_| sent.settles)
        {
            let members = sent.subject.queries[0].scripts.script.members().len();
            let settlement = steps.slice(..5 + BYTES * (2 + members));
            let mut again = Sent::about(sent.subject.clone(), sent.who, sent.sent);
            (again.steps, again.settles) = (Some(settlement), true);
            run(&again);
        }
        let mut replies = run(sent);
        sent.arrived = Some(now);
        if sent.resets {
            self.spent = Default::default();
            self.unspent = self.unspent();
            return;
        }
        if sent.hold.is_some() {
            return;
        }
        let decisions = match sent.settles && !sent.costs.is_empty() {
            true => &replies[1..],
            false => &replies[..],
        };
        for (cost, reply) in sent.costs.iter().zip(decisions) {
            if is_charged(reply) {
                self.spent[sent.who.plan].push((now, u64::from(*cost)));
                sent.charged.push((now, u64::from(*cost)));
            }
        }
        if sent.costs.is_empty() {
            replies.clear();
        } else {
            let state = self.model.state(sent.who.plan, BEGIN + now);
            self.left.insert(number, state);
        }
        sent.replies = Some(replies);
    }

    /// The answer comes, or is not waited for any more.
    fn end(&mut self, number: usize, is_heard: bool, now: u64) {
        let Some(sent) = self.sent.get_mut(&number) else {
            return;
        };
        sent.over = Some((now, is_heard));
        sent.changing = None;
        if self.mistake == RESET_TWICE && sent.resets {
            self.model.stored = None;
        }
        let (leasing, call) = (sent.leasing.take(), sent.call.take());
        if let (Some(hold), None) = (sent.hold, &sent.ends) {
            let is_held = is_heard && self.model.holds.contains_key(&hold);
            if is_held && sent.who.began == self.began[sent.who.process % 3] {
                self.hold[sent.who.process].push(hold);
            }
            return;
        }
        if self.mistake == GIVEN_BACK && !is_heard {
            for charged in mem::take(&mut sent.charged) {
                let spent = &mut self.spent[sent.who.plan];
                // Unless the key was reset.
                if let Some(own) = spent.iter().position(|it| *it == charged) {
                    spent.swap_remove(own);
                }
                self.model.refund(sent, charged.1, BEGIN + now);
            }
        }
        let answer = sent.replies.take().filter(|_| is_heard);
        let mut answer = answer.ok_or_else(failure::unreadable);
        let shared = &self.processes[sent.who.process].0.shared;
        if let Some(mut leasing) = leasing {
            if self.mistake == "from the answer" {
                leasing.asked.at = shared.time();
            }
            if let (UNNOTICED, Some(lease)) = (self.mistake, &mut leasing.settled) {
                lease.left = 0;
            }
            // No task settles what lies idle: a step does.
            lock(&leasing.leases.known).settling = Some(endless());
            answer = leasing.answered(answer, &sent.costs);
        } else if let Ok(replies) = &answer {
            shared.count_use(&sent.subject, &sent.costs, replies);
        }
        if let (Some(call), Ok(replies)) = (call, answer) {
            call.remember(&sent.costs, &replies);
        }
    }
}

fn held_for(time: u64, mistake: &str) -> u64 {
    match mistake {
        "held as short as leased" => time,
        _ => HELD_FOR_TIMES * time,
    }
}

/// A task that never ends.
fn endless() -> AbortHandle {
    static ENDLESS: LazyLock<(Runtime, AbortHandle)> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let task = runtime.spawn(pending::<()>()).abort_handle();
        (runtime, task)
    });
    ENDLESS.1.clone()
}

/// A process that has just begun.
fn leased(store: &RedisStore, time: u64, held_for: u64) -> RedisStore {
    let known = Mutex::default();
    let leases = Leases {
        time,
        held_for,
        known,
    };
    RedisStore {
        leases: Some(Arc::new(leases)),
        ..store.clone()
    }
}

fn processes() -> Processes {
    let mut processes = LONGEST.map(|longest| {
        let clock = ManualClock::at(at(0));
        (store(1, &clock, longest), clock)
    });
    processes[3] = processes[0].clone();
    processes
}

/// Runs so many times as many cases as there are of a property. With a mistake it ends once this is
/// wrong.
fn simulate(
    (mistake, wrong): (&'static str, &str),
    times: f64,
    mut server: Option<Server>,
) -> Result<Counts, String> {
    let (rules, counts, key) = (rules(), Cell::new([0; 4]), Cell::new(0));
    let server = RefCell::new(server.as_mut());
    let processes = processes();
    let shrunk = if mistake.is_empty() { 2_000 } else { 0 };
    let ran = search(any_case(), times, shrunk, |case| {
        let (name, run) = &rules[case.0[0] as usize % rules.len()];
        key.set(key.get() + 1);
        let ran = run(Given {
            key: key.get(),
            server: server.borrow_mut().as_deref_mut(),
            processes: &processes,
            case: &case,
            mistake,
        });
        let more = ran.as_ref().copied().unwrap_or_default();
        let [scripts, spent, refused, reached] = counts.get();
        let counted = [scripts + more[0], spent + more[1], refused + more[2]];
        counts.set([counted[0], counted[1], counted[2], reached.max(more[3])]);
        let found = ran.err().filter(|it| it.contains(wrong));
        found.map_or(Ok(()), |it| Err(format!("{name}, {it}")))
    });
    ran.map(|()| counts.get())
}

#[test]
fn processes_that_lease_stay_within_the_bound_by_the_time_of_spending() {
    let ran = simulate(("", ""), 1.0, None);
    let [scripts, spent, refused, reached] = ran.unwrap_or_else(|why| panic!("{why}"));
    println!("{scripts} scripts; without, {spent} were spent and {refused} refused");
    println!("{reached} thousandths of a bound");
    assert!(spent > scripts / 20, "{spent} beside {scripts}");
    assert!(refused > scripts / 20, "{refused} beside {scripts}");
    assert_eq!(reached, 1_000);
}

#[test]
fn the_script_holds_and_settles_as_the_rules_do() {
    let [scripts, ..] =
        simulate(("", ""), 0.05, Some(Server::start())).unwrap_or_else(|why| panic!("{why}"));
    println!("{scripts} scripts");
}

#[test]
fn each_mistake_is_found() {
    for (mistake, wrong) in [
        (UNDER_OTHERS, " of "),
        ("settled twice", " of "),
        (GIVEN_BACK, " of "),
        (TOO_LITTLE, " of "),
        (RESET_TWICE, " of "),
        (UNNOTICED, "the server would admit it"),
    ] {
        let found = simulate((mistake, wrong), 20.0, None).expect_err(mistake);
        println!("{mistake}: {}", found.lines().next().unwrap_or_default());
    }
}

/// Windows of 40 units and 100 µs begin at 24, 124 and 224.
#[test]
fn what_was_held_when_a_window_began_is_not_spent_once_the_hold_has_ended() {
    let idle = |after| (after, [3, 0], [3, 0, 0, 0, 0, 2]);
    let ask = |process, count, cost, back| (0, [process, 0], [5, count, cost, 0, back, 2]);
    // Others take two windows at 223 and 224, and the first process what it has held since before.
    let end = [
        ask(6, 1, 3, 0),
        ask(3, 1, 4, 0),
        idle(64),
        ask(6, 1, 3, 0),
        ask(3, 1, 4, 0),
        ask(0, 5, 1, 0),
    ];
    // The answer with the lease comes 200 µs after it was asked for, at 220.
    let is_late = [
        vec![idle(80); 4],
        vec![ask(0, 1, 1, 0); 4],
        vec![ask(0, 1, 1, 85)],
    ];
    let is_late = [is_late.concat(), vec![idle(85), idle(72)], end.to_vec()].concat();
    // The process stops at 51, for 162 µs.
    let stops = (64, [0, 0], [0, 0, 0, 0, 0, 2]);
    let stops = [vec![idle(80); 10], vec![ask(0, 1, 1, 0); 5], vec![stops]].concat();
    let stops = [stops, vec![idle(80); 2], end.to_vec()].concat();
    for (mistake, lease_time, steps) in [
        ("from the answer", 5, is_late),
        ("held as short as leased", 18, stops),
    ] {
        let case = ([0, 25, lease_time, 0, 0, 0], [[40, 16], [1, 4]], steps);
        let run = |mistake| {
            let processes = &processes();
            let case = &case;
            let server = None;
            rules()[0].1(Given {
                key: 0,
                server,
                processes,
                case,
                mistake,
            })
        };
        let wrong = run(mistake).expect_err(mistake);
        assert!(wrong.starts_with("85 of 80 in 100"), "{mistake}: {wrong}");
        let [scripts, ..] = run("").unwrap_or_else(|wrong| panic!("{mistake}: {wrong}"));
        assert!(scripts > 8, "{mistake}: {scripts}");
    }
}
