//! A decision about several keys: one script if they share a slot, else one for each key.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{
    algorithm::Script,
    error::{StoreError, StoreErrorKind},
    store::Written,
};

use super::{
    ARGUMENTS_LEN, Later, Shared,
    arguments::{Arguments, Place, Settlement, Units, push_call, push_members, settled},
    failure, reply,
    script::Op,
    scripts::{MultiKeyScripts, ScriptCache, ScriptKey, Scripts},
};

/// One of the keys, and the arguments of its scripts.
pub(super) struct KeyQuery {
    pub(super) script: fn() -> Script,
    pub(super) scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
    /// The key of the state, then those of its lists.
    pub(super) keys: Vec<Bytes>,
    /// The numbers of the algorithm.
    pub(super) told: Vec<u64>,
    pub(super) place: Place,
    /// Reads the admission from the reply to a charge, to take it back.
    pub(super) admission: Admission,
}

type Admission = Box<dyn Fn(&Script, &Bytes) -> Vec<f64> + Send + Sync>;

/// A cost, and the keys that it is charged to.
pub(super) struct MultiKeyQuery {
    pub(super) shared: Arc<Shared>,
    pub(super) script_key: ScriptKey,
    pub(super) queries: Vec<KeyQuery>,
    pub(super) cost: u32,
}

/// The rounds in which keys in different slots are charged. The first charges are the easiest to
/// take back if a later key refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// A hold can be given back even if others were charged meanwhile.
    Hold,
    /// A charge can be taken back only if nobody else was charged meanwhile.
    Charge,
    /// A charge that cannot be taken back without harm: see [`Script::charged_last`].
    ///
    /// [`Script::charged_last`]: crate::algorithm::Script::charged_last
    Last,
}

impl Round {
    const ALL: [Self; 3] = [Self::Hold, Self::Charge, Self::Last];

    /// The round of a limit with this script: that of its last member.
    fn of(scripts: &Scripts) -> Self {
        match scripts {
            _ if scripts.has(|member| member.charged_last) => Self::Last,
            _ if scripts.has(|member| !member.settled && !member.in_flight) => Self::Charge,
            _ => Self::Hold,
        }
    }
}

/// The replies.
pub(super) enum Answers {
    /// The reply of one script about all keys.
    OneForAll(Bytes),
    /// The replies of a script for each key, in their order.
    OneForEach(Vec<Bytes>),
}

impl MultiKeyQuery {
    /// The script about all keys together.
    pub(super) fn scripts(&self) -> &MultiKeyScripts {
        let scripts = || self.queries.iter().map(|query| (query.script)()).collect();
        (self.shared.multi_key_script_cache)
            .find(self.script_key, || MultiKeyScripts::of(scripts()))
    }

    fn scripts_of(&self, at: usize) -> &Scripts {
        (self.queries[at].scripts)(&self.shared.script_cache)
    }

    /// The key of each state.
    pub(super) fn states(&self) -> impl Iterator<Item = &Bytes> + Clone {
        self.queries.iter().map(|query| &query.keys[0])
    }

    pub(super) async fn decide(self: &Arc<Self>) -> Result<Answers, StoreError> {
        if let Some(answers) = self.ask_all_at_once(Op::Decide).await {
            return answers;
        }
        let shared = &self.shared;
        let decided = shared.in_time(self.decide_in_rounds()).await;
        decided.map_err(|error| self.recent_misconfiguration(&error).unwrap_or(error))
    }

    /// The misconfiguration behind an error without an answer, of any of the scripts.
    fn recent_misconfiguration(&self, error: &StoreError) -> Option<StoreError> {
        if error.kind() != StoreErrorKind::Unavailable {
            return None;
        }
        self.queries.iter().find_map(|query| {
            let (shared, scripts) = (&self.shared, (query.scripts)(&self.shared.script_cache));
            let node = shared.servers.server_of(shared.slot_of(&query.keys[0]));
            (scripts.loadable.loads).recent_misconfiguration(|| node, error)
        })
    }

    pub(super) async fn peek(self: &Arc<Self>) -> Result<Answers, StoreError> {
        if let Some(answers) = self.ask_all_at_once(Op::Look).await {
            return answers;
        }
        let peeked = self.ask_each((Op::Look, Units::Cost(self.cost))).await;
        Ok(Answers::OneForEach(
            peeked.into_iter().collect::<Result<_, _>>()?,
        ))
    }

    /// Changes all of them, whether there is room or not.
    pub(super) fn change(self, units: Units<'static>) -> Later<Written> {
        let query = Arc::new(self);
        Box::pin(async move {
            let mut answers = query.ask_each((Op::Change, units)).await.into_iter();
            let written = answers.try_for_each(|answer| answer.map(drop));
            query.shared.health.record(&written, query.states());
            written
        })
    }

    /// Forgets all of them.
    pub(super) fn reset(self) -> Later<Written> {
        Box::pin(async move {
            for query in self.queries {
                let deleted = self.shared.delete(query.keys).await;
                self.shared.health.record(&deleted, []);
                deleted?;
            }
            Ok(())
        })
    }

    fn share_a_slot(&self) -> bool {
        let mut slots = self
            .queries
            .iter()
            .map(|query| self.shared.slot_of(&query.keys[0]));
        let first = slots.next();
        slots.all(|slot| Some(slot) == first)
    }

    /// Asks one script about all keys, if they share a slot and it is not too long.
    async fn ask_all_at_once(&self, op: Op) -> Option<Result<Answers, StoreError>> {
        if self.queries.is_empty() {
            return Some(Ok(Answers::OneForEach(Vec::new())));
        }
        if !self.share_a_slot() {
            return None;
        }
        let script = self.scripts().loadable.as_ref()?;
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN * self.queries.len());
        let op = if self.cost == 0 { Op::Look } else { op };
        push_call(&mut numbers, op, self.shared.now());
        for (at, query) in self.queries.iter().enumerate() {
            let units = (Units::Cost(self.cost), query.place);
            push_members(
                &mut numbers,
                &self.scripts_of(at).script,
                &query.told,
                units,
            );
        }
        let keys = self.queries.iter().flat_map(|query| &query.keys);
        let answer = (self.shared)
            .run(script, keys.cloned().collect(), numbers.into())
            .await;
        Some(answer.map(Answers::OneForAll))
    }

    fn arguments(&self, at: usize, call: (Op, Units<'_>)) -> Arguments {
        self.arguments_of((at, self.queries[at].place), call)
    }

    fn arguments_of(&self, (at, place): (usize, Place), (op, units): (Op, Units<'_>)) -> Arguments {
        let query = &self.queries[at];
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push_call(&mut numbers, op, self.shared.now());
        let units = (units, place);
        push_members(
            &mut numbers,
            &self.scripts_of(at).script,
            &query.told,
            units,
        );
        numbers.into()
    }

    /// Peeks at all keys, and charges them if all admit: first those that are held, then those that
    /// are charged, and then queues and intervals, each at the same time. If one refuses then, the
    /// later ones are not charged, and the charges of the others are taken back.
    async fn decide_in_rounds(self: &Arc<Self>) -> Result<Answers, StoreError> {
        let deadline = Instant::now() + self.shared.deadline;
        let peeked = self.ask_each((Op::Look, Units::Cost(self.cost))).await;
        let peeked: Vec<_> = peeked.into_iter().collect::<Result<_, _>>()?;
        let admits =
            |(at, answer): (usize, &Bytes)| reply::is_admitted(&self.scripts_of(at).script, answer);
        if self.cost == 0 || !peeked.iter().enumerate().all(admits) {
            return Ok(Answers::OneForEach(peeked));
        }
        // In a task, so that charges are taken back even if the request is dropped.
        let charging = tokio::spawn(Arc::clone(self).charge_each(peeked, deadline));
        charging
            .await
            .unwrap_or_else(|_| Err(failure::unavailable("the runtime shuts down")))
    }

    async fn charge_each(
        self: Arc<Self>,
        peeked: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Answers, StoreError> {
        let is_charged = |answer: &Result<Bytes, _>| answer.as_ref().is_ok_and(reply::is_charged);
        let mut charged: Vec<_> = self.queries.iter().map(|_| None).collect();
        let mut failed = None;
        for round in Round::ALL {
            let in_round = self.queries_of(round);
            if in_round.is_empty() {
                continue;
            }
            // Nobody waits any more: what is charged now would be charged for nothing.
            if Instant::now() >= deadline {
                failed = Some(failure::timed_out(self.shared.deadline));
                break;
            }
            let answers = self
                .ask(in_round, (Op::Decide, Units::Cost(self.cost)))
                .await;
            let are_charged = answers.iter().all(|(_, answer)| is_charged(answer));
            for (at, answer) in answers {
                charged[at] = Some(answer);
            }
            if !are_charged {
                break;
            }
        }
        let all_are_charged = |charged: &[Option<_>]| {
            (charged.iter()).all(|answer| answer.as_ref().is_some_and(is_charged))
        };
        if all_are_charged(&charged) {
            let charged = charged.into_iter().flatten().collect::<Result<_, _>>()?;
            return Ok(Answers::OneForEach(charged));
        }
        let mut answers = Vec::with_capacity(charged.len());
        for ((at, answer), peeked) in charged.into_iter().enumerate().zip(peeked) {
            match answer {
                Some(Ok(charge)) if reply::is_charged(&charge) => {
                    self.take_back(at, charge).await;
                    answers.push(peeked);
                }
                Some(Ok(refusal)) => answers.push(refusal),
                // Whether it was charged is not known: to take it back could admit too much.
                Some(Err(error)) => failed = failed.or(Some(error)),
                None => answers.push(peeked),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Answers::OneForEach(answers)),
        }
    }

    /// Which queries are charged in this round.
    fn queries_of(&self, round: Round) -> Vec<usize> {
        (0..self.queries.len())
            .filter(|&at| Round::of(self.scripts_of(at)) == round)
            .collect()
    }

    /// Takes a charge back, if nothing was charged to that key since. Otherwise, or if that fails,
    /// it stays: a refund could free units that others have used.
    async fn take_back(&self, at: usize, charge: Bytes) {
        let (query, scripts) = (&self.queries[at], self.scripts_of(at));
        let admission = (query.admission)(&scripts.script, &charge);
        let arguments = if scripts.has(|member| member.settled) {
            // Nothing was spent of what is held. Members that are not settled stay charged.
            let settlement = Settlement {
                admission: &admission,
                held: self.cost,
                spent: 0,
                is_withdrawn: false,
            };
            self.arguments(at, (Op::Settle, Units::Settled(settlement)))
                .and(settled(&scripts.script, settlement))
        } else {
            let charge = reply::value_of(&scripts.script, &charge);
            self.arguments(at, (Op::TakeBack, Units::TakenBack(self.cost, &admission)))
                .and(charge)
        };
        let keys = query.keys.clone();
        let _ = (self.shared)
            .run(&scripts.loadable, keys.clone(), arguments)
            .await;
        if scripts.has(|member| member.in_flight) {
            let ended = (Op::Change, Units::InFlight(-1));
            let arguments = self.arguments_of((at, self.shared.next_place()), ended);
            let _ = self.shared.run(&scripts.loadable, keys, arguments).await;
        }
    }

    /// Runs a script for each key, all at the same time.
    async fn ask_each(self: &Arc<Self>, call: (Op, Units<'_>)) -> Vec<Result<Bytes, StoreError>> {
        let answers = self.ask((0..self.queries.len()).collect(), call).await;
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Runs a script for these queries, by their indices, all at the same time.
    async fn ask(
        self: &Arc<Self>,
        indices: Vec<usize>,
        call: (Op, Units<'_>),
    ) -> Vec<(usize, Result<Bytes, StoreError>)> {
        let mut asked = JoinSet::new();
        for (index, &at) in indices.iter().enumerate() {
            let (all, arguments) = (Arc::clone(self), self.arguments(at, call));
            asked.spawn(async move {
                let (script, keys) = (&all.scripts_of(at).loadable, all.queries[at].keys.clone());
                (index, all.shared.run(script, keys, arguments).await)
            });
        }
        let unasked = || Err(failure::unavailable("the runtime shuts down"));
        let mut answers: Vec<_> = indices.into_iter().map(|at| (at, unasked())).collect();
        while let Some(answer) = asked.join_next().await {
            if let Ok((index, answer)) = answer {
                answers[index].1 = answer;
            }
        }
        answers
    }
}
