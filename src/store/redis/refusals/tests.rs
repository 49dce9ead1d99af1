//! A simulator: a server, and processes that ask it about one key and remember what it refuses,
//! each by a clock of its own. Requests and answers take any time, overtake each other and are
//! lost. The rules and the memory are the crate's own. The harness makes mistakes if it is told to:
//! they must be found.

use std::{cell::Cell, slice::from_ref, sync::Arc, time::Instant};

use proptest::prelude::*;
use tollgate_algorithms::every_algorithm;

use crate::{
    Decision, Quota,
    algorithm::*,
    clock::{Clock, ManualClock},
    store::{Ask, Change, RedisStore},
};

use super::{
    super::{
        changes::Changing,
        joined::Call,
        query::Query,
        scripts::Scripts,
        tests::{at, reply, search, store},
    },
    *,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Reset,
    Refund,
    Debit,
    /// The last admission of the process is settled with one unit less, or with 0 units dropped.
    End,
    Ask,
}

/// The rule, the period, a part of it, how long is remembered, and by how much each process's clock
/// is ahead; of each plan the units, the burst and an interval; the steps.
type Case = ([u64; 7], [[u64; 3]; 2], Vec<Step>);

/// How long after the step before, which process, by which plan, does what with how many units; how
/// long it takes there and back; and whether the request (0) or the answer (1) is lost: then the
/// process gives up after as long as the way back takes.
type Step = [u64; 8];

fn any_case() -> impl Strategy<Value = Case> {
    let plan = || [1..7, 1..9, 1..200_u64];
    let step = [0..80, 0..3, 0..5, 0..40, 0..5, 0..120, 0..120, 0..20_u64];
    let of_all = [0..999, 1..400, 0..999, 1..600, 0..999, 0..999, 0..999_u64];
    let steps = prop::collection::vec(step, 1..80);
    (of_all, [plan(), plan()], steps)
}

/// How many scripts were sent, and how many requests were refused without.
type Counts = [u64; 2];
type Run = fn(&Case, &'static str) -> Result<Counts, String>;

macro_rules! rules {
    (
        made ($quota:ident, $burst:ident, $precision:ident, $interval:ident)
        $($name:literal, $rule:expr;)+
    ) => {
        vec![$(($name, |([_, period, part, longest, ahead @ ..], plans, steps), mistake| {
            let (micros, period) = (Duration::from_micros, *period);
            let divisors: Vec<_> = (1..=period).filter(|it| period % it == 0).collect();
            let $precision = micros(divisors[*part as usize % divisors.len()]);
            let plans = plans.map(|[units, $burst, interval]| {
                let ($quota, $interval) = (Quota::new(units, micros(period)), micros(interval));
                let _ = ($quota, $burst, $precision, $interval);
                $rule
            });
            World::new(plans, *longest, mistake).run(ahead, steps)
        })),+]
    };
    ($given:tt $($name:literal, $rule:expr, $model:ident $numbers:tt;)+) => {
        rules!(made $given $($name, $rule.named("a");)+)
    };
}

#[rustfmt::skip]
fn rules() -> Vec<(&'static str, Run)> {
    let alone: Vec<(_, Run)> = every_algorithm!(rules, quota, burst, precision, interval);
    let others: Vec<(_, Run)> = rules!(made (quota, burst, precision, interval)
        "bucket and window", (TokenBucket::new(quota).burst(burst).named("a"), FixedWindow::new(quota).named("b"));
        "log and queue", (SlidingLog::new(quota).named("a"), LeakyBucket::new(quota).queue().named("b"));
        "settled bucket", Gcra::new(quota).burst(burst).named("a").settled().held_at_most(interval);
        "settled window", SlidingWindow::new(quota).named("a").settled().held_at_most(interval);
        "settled log", SlidingLog::new(quota).named("a").settled().held_at_most(interval);
        "in flight", InFlight::new(burst).named("a");
        "in flight and bucket", (InFlight::new(burst).named("a"), TokenBucket::new(quota).named("b"));
        "beside a shadow", (TokenBucket::new(quota).named("a"), FixedWindow::new(quota).named("b").shadow());
    );
    alone.into_iter().chain(others).collect()
}

/// By a clock that nobody has; and the number of the event.
type When = (u64, usize);

/// What a step sends.
struct Message<L: KeyLimit> {
    process: usize,
    plan: usize,
    what: What,
    units: u32,
    /// None, if there is no answer.
    takes: Option<u64>,
    sent: Option<When>,
    call: Option<Call>,
    changing: Option<Changing>,
    /// The admission that it ends.
    ends: Option<usize>,
    arrived: Option<When>,
    decided: Option<Decided<L>>,
    /// When it is not waited for any more.
    over: Option<When>,
}

struct Decided<L: KeyLimit> {
    admission: Option<L::Snapshot>,
    /// The server's clock and its state.
    at: u64,
    state: L::State,
    reply: Bytes,
}

impl<L: KeyLimit> Message<L> {
    /// What was decided, if the process knows.
    fn answer(&self) -> Option<&Decided<L>> {
        self.takes.and(self.over).and(self.decided.as_ref())
    }
}

struct World<L: KeyLimit> {
    plans: [L; 2],
    longest: u64,
    /// What the harness does wrong.
    mistake: &'static str,
    processes: [(RedisStore, ManualClock); 3],
    scripts: Arc<Scripts>,
    /// Whether it is one rule, and no log.
    says_all: bool,
    /// The numbers of each plan.
    parameters: [Vec<u64>; 2],
    /// What the server has stored, and when.
    stored: Option<(L::State, u64)>,
    messages: Vec<Message<L>>,
}

/// What the server's clock shows at the beginning.
const BEGIN: u64 = 1 << 40;

impl<L: Scripted> World<L> {
    fn new(plans: [L; 2], longest: u64, mistake: &'static str) -> Self {
        let processes = [(); 3].map(|()| {
            let clock = ManualClock::at(at(0));
            (store(1, &clock, longest), clock)
        });
        let queries = [0, 1].map(|it| Query::new(&processes[0].0, &plans[it], 0));
        let scripts = Arc::clone(&queries[0].all[0].scripts);
        Self {
            says_all: scripts.script.members().len() == 1 && scripts.lists == 0,
            scripts,
            parameters: queries.map(|it| it.all[0].parameters.clone()),
            plans,
            longest,
            mistake,
            processes,
            stored: None,
            messages: Vec::new(),
        }
    }

    fn run(mut self, ahead: &[u64], steps: &[Step]) -> Result<Counts, String> {
        let (mut now, mut counts, mut events) = (0, [0, 0], Vec::new());
        for (number, &[after, process, plan, what, units, there, back, lost]) in
            steps.iter().enumerate()
        {
            // Half of them are nothing.
            let [after, there, back] = [after, there, back].map(|it| it.saturating_sub(60));
            now += after;
            let takes = (lost > 1).then_some(there + back);
            events.extend([(now, number, 0), (now + takes.unwrap_or(back), number, 2)]);
            events.extend((lost > 0).then_some((now + there, number, 1)));
            let whats = [What::Reset, What::Refund, What::Debit, What::End, What::End];
            self.messages.push(Message {
                process: process as usize,
                plan: usize::from(plan == 4),
                what: *whats.get(what as usize).unwrap_or(&What::Ask),
                units: units as u32 + 1,
                takes,
                sent: None,
                call: None,
                changing: None,
                ends: None,
                arrived: None,
                decided: None,
                over: None,
            });
        }
        events.sort_unstable();
        for (order, (micros, number, event)) in events.into_iter().enumerate() {
            for ((_, clock), ahead) in self.processes.iter().zip(ahead) {
                clock.set(at(micros + ahead));
            }
            let (now, message) = ((micros, order), &self.messages[number]);
            match (event, message.what) {
                (0, What::Ask) => {
                    let is_sent = self.ask(number, now);
                    let is_sent = is_sent.map_err(|it| format!("step {number}: {it}"))?;
                    counts[usize::from(!is_sent)] += 1;
                }
                (0, _) => self.change(number, now),
                _ if message.sent.is_none() => {}
                (1, _) => self.arrive(number, now),
                _ => self.end(number, now),
            }
        }
        Ok(counts)
    }

    fn query(&self, it: &Message<L>) -> Query<L, u32> {
        Query::new(&self.processes[it.process].0, &self.plans[it.plan], 0)
    }

    /// The clock of its process shows so much more, until the next event.
    fn shift(&self, it: &Message<L>, micros: i64) {
        let clock = &self.processes[it.process].1;
        clock.set(at(clock.now().as_micros().saturating_add_signed(micros)));
    }

    fn call(&self, it: &Message<L>) -> Option<Call> {
        let query = self.query(it);
        let subject = query.subject()?;
        let mut calls = lock(&query.shared.joined);
        let calls = calls.entry(subject.clone()).or_default();
        Some(Call::begin(&query.shared, &subject, calls, Instant::now()))
    }

    /// Of an answer that its process knows: whether this process has changed nothing since, and
    /// whether it is young enough, refuses this cost and says so.
    fn stands(&self, it: &Message<L>, cost: u32, now: u64) -> Option<[bool; 4]> {
        let (answer, sent) = (it.answer()?, it.sent?);
        let is_later = |when: Option<When>| when.is_some_and(|it| it > sent);
        let is_change = |by: &Message<L>| by.what != What::Ask && by.process == it.process;
        let is_since = |by: &Message<L>| is_later(by.sent) || is_later(by.over);
        let numbers = |it: &Message<L>| (it.process, &self.parameters[it.plan]);
        let has_charged = |by: &Message<L>| by.answer().is_some_and(|it| it.admission.is_some());
        // A charge that was sent later, or answered meanwhile.
        let has_overtaken = |by: &Message<L>| {
            has_charged(by) && numbers(by) == numbers(it) && is_later(by.over) && by.over < it.over
        };
        let is_changed =
            (self.messages.iter()).any(|by| is_change(by) && is_since(by) || has_overtaken(by));
        let then = at(answer.at + now - sent.0);
        let is_refused = !self.plans[it.plan].judge(&answer.state, cost, then);
        let says_so = self.says_all || answer.admission.is_none() && it.units <= cost;
        let is_young = now - sent.0 < self.longest;
        Some([!is_changed, is_young, is_refused, says_so])
    }

    /// A process asks, unless what it remembers refuses; whether it does.
    fn ask(&mut self, number: usize, now: When) -> Result<bool, &'static str> {
        let own = &self.messages[number];
        let numbers = |it: &Message<L>| (it.process, &self.parameters[it.plan]);
        let is_same = |it: &&Message<L>| it.what == What::Ask && numbers(it) == numbers(own);
        let same = self.messages.iter().filter(is_same);
        // The answer that came last.
        let last = same
            .filter(|it| it.answer().is_some())
            .max_by_key(|it| it.over);
        let last = last.and_then(|it| Some((it, it.answer()?)));
        let last = last.filter(|(_, answer)| answer.admission.is_none());
        let mut cost = own.units;
        if self.mistake == "a log refuses smaller costs" && self.scripts.lists > 0 {
            cost = last.map_or(cost, |(it, _)| it.units.max(cost));
        }
        if let Some(refused) = self.query(own).refused(Ask::Charge(cost)) {
            if let ("age is renewed", Some((last, answer))) = (self.mistake, last) {
                let call = self.call(own).expect("a call");
                call.remember(&[last.units], from_ref(&answer.reply));
            }
            let told = self.plans[own.plan].decision_of(&refused.snapshot);
            let admitted = refused.admitted.then_some("it is admitted");
            return admitted
                .or(self.wrong(own, now, &told))
                .map_or(Ok(false), Err);
        }
        let last = last.filter(|(it, _)| it.units <= cost);
        let stands = last.and_then(|(it, _)| self.stands(it, it.units, now.0));
        if self.says_all && !L::SETTLES && !L::IN_FLIGHT && stands == Some([true; 4]) {
            return Err("the process knows it");
        }
        if self.mistake == "judged from the answer" {
            self.shift(own, own.takes.unwrap_or(0) as i64);
        }
        let call = self.call(own);
        let own = &mut self.messages[number];
        (own.sent, own.call) = (Some(now), call);
        Ok(true)
    }

    /// A process changes what was charged.
    fn change(&mut self, number: usize, now: When) {
        let own = &self.messages[number];
        let mut held = (0..number).rev().filter(|held| {
            let it = &self.messages[*held];
            let is_admitted = it.answer().is_some_and(|it| it.admission.is_some());
            let is_over = self.messages.iter().any(|it| it.ends == Some(*held));
            it.process == own.process && is_admitted && !is_over
        });
        let ends = held.next().filter(|_| own.what == What::End);
        let can_end = |it: &Member| it.settled || it.in_flight || it.withdraws;
        if own.what == What::End && (ends.is_none() || !self.scripts.has(can_end)) {
            return;
        }
        let query = self.query(own);
        let changing = Some(query.shared.changing(&query.all[0].keys[0]));
        let is_noticed = self.mistake != "an own change is not noticed";
        let own = &mut self.messages[number];
        (own.sent, own.ends) = (Some(now), ends);
        own.changing = changing.filter(|_| is_noticed);
    }

    /// The state on the server.
    fn state(&self, limit: &L, now: u64) -> L::State {
        let stored = self.stored.as_ref().map(|(state, _)| state.clone());
        stored.unwrap_or_else(|| limit.fresh(at(now)))
    }

    /// The server decides or changes.
    fn arrive(&mut self, number: usize, now: When) {
        let (own, then) = (&self.messages[number], BEGIN + now.0);
        let ended = own.ends.map(|it| &self.messages[it]);
        let limit = &self.plans[ended.unwrap_or(own).plan];
        let (mut state, units) = (self.state(limit, then), own.units);
        let mut decided = None;
        let change = match own.what {
            What::Ask => {
                let refused = state.clone();
                let (is_admitted, admission) = limit.step(&mut state, units, at(then));
                match is_admitted {
                    true => self.stored = Some((state.clone(), then)),
                    false => state = refused,
                }
                let stored = self.stored.as_ref().map(|(state, last)| (state, *last));
                decided = Some(Decided {
                    admission: is_admitted.then_some(admission),
                    at: then,
                    state: state.clone(),
                    reply: reply(limit, stored, (units, is_admitted), then),
                });
                None
            }
            What::Refund => self.stored.is_some().then_some(Change::Refund(units)),
            What::Debit => Some(Change::Debit(units)),
            What::Reset => {
                self.stored = None;
                None
            }
            What::End => ended.and_then(|it| {
                let (held, spent) = (it.units, units - 1);
                let ending = match L::SETTLES && spent > 0 {
                    true => Ending::Settled { held, spent },
                    false => Ending::Withdrawn { cost: held },
                };
                Some(Change::End(it.answer()?.admission.as_ref()?, ending))
            }),
        };
        if let Some(change) = change {
            change.apply(limit, &mut state, at(then));
            self.stored = Some((state, then));
        }
        let own = &mut self.messages[number];
        (own.arrived, own.decided) = (Some(now), decided);
    }

    /// The answer comes, or is not waited for any more.
    fn end(&mut self, number: usize, now: When) {
        let own = &mut self.messages[number];
        own.over = Some(now);
        let (mut call, changing) = (own.call.take(), own.changing.take());
        let own = &self.messages[number];
        let took = own.takes.unwrap_or(0) as i64;
        if let (Some(answer), true) = (own.answer(), call.is_some()) {
            if self.mistake == "an overtaken answer counts" {
                self.shift(own, -took);
                call = self.call(own);
                self.shift(own, took);
            }
            if self.mistake == "waits from the sending" {
                self.shift(own, -took);
            }
            let call = call.expect("a call");
            call.remember(&[own.units], from_ref(&answer.reply));
        }
        drop(changing);
    }

    /// What is wrong, if this is told without asking.
    fn wrong(&self, own: &Message<L>, (now, _): When, told: &Decision) -> Option<&'static str> {
        let (limit, cost) = (&self.plans[own.plan], own.units);
        let is_unsaid = |it: &Member| it.in_flight || it.in_shadow || it.settled && it.has_list();
        if told.is_admitted() || self.scripts.has(is_unsaid) {
            return Some("this is not remembered");
        }
        let wait = told.retry_after().unwrap_or_default().as_micros() as u64;
        // What is wrong with each answer, after how much that is right.
        let wrong = self.messages.iter().filter_map(|it| {
            let numbers = [it, own].map(|it| (it.process, &self.parameters[it.plan]));
            let (answer, over) = (it.answer()?, it.over?.0);
            let [is_unchanged, is_young, is_refused, says_so] = self.stands(it, cost, now)?;
            // While units are held a wait is an estimate.
            let admits = limit.judge(&answer.state, cost, at(BEGIN + now + wait));
            let waits = admits || L::SETTLES || told.never_fits();
            let then = limit.snapshot(&answer.state, cost, false, at(answer.at + now - over));
            let then = limit.decision_of(&then);
            let holds = [
                (numbers[0] == numbers[1], "the server never said so"),
                (is_unchanged, "the key was changed since"),
                (is_young, "it is too old"),
                (is_refused, "the cost would be admitted"),
                (says_so, "it is about other costs"),
                (waits, "the wait is too short"),
                (told == &then, "something else is so"),
            ];
            let wrong = holds.iter().position(|it| !it.0);
            Some(wrong.map_or((7, None), |at| (at, Some(holds[at].1))))
        });
        let wrong = wrong.max().unwrap_or((0, Some("the server never said so")));
        // Others have changed it, or the process has and does not know, or gave up before.
        let is_unnoticed = |it: &Message<L>| {
            let is_recent = it.arrived.is_some_and(|(at, _)| now - at < self.longest);
            let is_noticed = it.process == own.process && it.arrived < it.over;
            is_recent && !is_noticed && !matches!(it.what, What::Ask | What::Debit)
        };
        let is_admitted = limit.judge(&self.state(limit, BEGIN + now), cost, at(BEGIN + now));
        let is_late = is_admitted && !self.messages.iter().any(is_unnoticed);
        wrong.1.or(is_late.then_some("the server would admit it"))
    }
}

/// Runs the cases of a property. With a mistake it ends once this is wrong.
fn simulate(mistake: &'static str, wrong: &str) -> Result<Counts, String> {
    let (rules, counts) = (rules(), Cell::new([0, 0]));
    let shrunk = if mistake.is_empty() { 20_000 } else { 0 };
    let ran = search(any_case(), 1.0, shrunk, |case| {
        let (name, run) = &rules[case.0[0] as usize % rules.len()];
        let ran = run(&case, mistake);
        let more = ran.as_ref().copied().unwrap_or_default();
        counts.set([0, 1].map(|it| counts.get()[it] + more[it]));
        let found = ran.err().filter(|it| it.contains(wrong));
        found.map_or(Ok(()), |it| Err(format!("{name}, {it}")))
    });
    ran.map(|()| counts.get())
}

#[test]
fn what_is_refused_from_memory_the_server_would_refuse_and_no_wait_is_too_short() {
    let [sent, remembered] = simulate("", "").unwrap_or_else(|why| panic!("{why}"));
    println!("{sent} scripts were sent, and {remembered} requests were refused without");
    assert!(remembered > sent / 10, "{remembered} beside {sent}");
}

#[test]
fn each_mistake_is_found() {
    for (mistake, wrong) in [
        ("judged from the answer", "the cost would be admitted"),
        ("a log refuses smaller costs", "the cost would be admitted"),
        ("waits from the sending", "the wait is too short"),
        ("an own change is not noticed", "the key was changed since"),
        ("an overtaken answer counts", "the key was changed since"),
        ("age is renewed", "it is too old"),
    ] {
        let found = simulate(mistake, wrong).expect_err(mistake);
        println!("{mistake}: {}", found.lines().next().unwrap_or_default());
    }
}
