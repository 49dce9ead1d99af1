//! A decision about several keys: one script if they share a slot, else one for each key.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{
    algorithm::{Member, Script},
    error::{StoreError, StoreErrorKind},
    store::Written,
};

use super::{
    ARGUMENTS_LEN, Later, Shared,
    arguments::{Arguments, push_numbers, push_settlement},
    failure, reply,
    scripts::{Loadable, MultiKeyScripts, ScriptCache, ScriptKey, Scripts},
};

/// One of the keys, and the arguments of its scripts.
pub(super) struct KeyQuery {
    pub(super) script: fn() -> Script,
    pub(super) scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
    /// The key of the state, then the further keys of its algorithm.
    pub(super) keys: Vec<Bytes>,
    pub(super) parameters: Vec<u8>,
    /// Reads from the reply to a charge the numbers that its withdrawal needs.
    pub(super) withdrawal_arguments: WithdrawalArguments,
}

type WithdrawalArguments = Box<dyn Fn(&[Member], &Bytes) -> Vec<u8> + Send + Sync>;

/// A cost, and the keys that it is charged to.
pub(super) struct MultiKeyQuery {
    pub(super) shared: Arc<Shared>,
    pub(super) script_key: ScriptKey,
    pub(super) queries: Vec<KeyQuery>,
    /// The time of the store's own clock; `None` if the server's counts.
    pub(super) now: Option<f64>,
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

    /// The round of a limit with these members: that of its last member.
    fn of(members: &[Member]) -> Self {
        match members {
            _ if members.iter().any(|member| member.charged_last) => Self::Last,
            _ if members.iter().all(Member::is_settled) => Self::Hold,
            _ => Self::Charge,
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
    /// The scripts that decide about all keys together.
    pub(super) fn scripts(&self) -> &MultiKeyScripts {
        let texts = || self.queries.iter().map(|query| (query.script)()).collect();
        (self.shared.multi_key_script_cache)
            .find(self.script_key, |time| MultiKeyScripts::of(texts(), time))
    }

    /// The key of each state.
    pub(super) fn states(&self) -> impl Iterator<Item = &Bytes> + Clone {
        self.queries.iter().map(|query| &query.keys[0])
    }

    pub(super) async fn decide(self: &Arc<Self>) -> Result<Answers, StoreError> {
        if self.share_a_slot() {
            return self.ask_all_at_once(|scripts| &scripts.decide).await;
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
            let known =
                |script: &Loadable| script.loads.recent_misconfiguration(|| node.clone(), error);
            known(&scripts.repair).or_else(|| known(&scripts.decide))
        })
    }

    pub(super) async fn peek(self: &Arc<Self>) -> Result<Answers, StoreError> {
        if self.share_a_slot() {
            return self.ask_all_at_once(|scripts| &scripts.peek).await;
        }
        let peeked = self.ask_each(|scripts| &scripts.peek).await;
        Ok(Answers::OneForEach(
            peeked.into_iter().collect::<Result<_, _>>()?,
        ))
    }

    /// Gives the cost back to all of them.
    pub(super) fn refund(self) -> Later<Written> {
        self.write(|scripts| &scripts.refund)
    }

    /// Charges all of them, whether there is room or not.
    pub(super) fn debit(self) -> Later<Written> {
        self.write(|scripts| &scripts.debit)
    }

    fn write(self, script: fn(&Scripts) -> &Loadable) -> Later<Written> {
        let query = Arc::new(self);
        Box::pin(async move {
            let mut answers = query.ask_each(script).await.into_iter();
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

    async fn ask_all_at_once(
        &self,
        script: fn(&MultiKeyScripts) -> &Loadable,
    ) -> Result<Answers, StoreError> {
        let [state, states @ ..] = &*self
            .queries
            .iter()
            .map(|query| &query.keys[0])
            .collect::<Vec<_>>()
        else {
            // There is no script about no key.
            return Ok(Answers::OneForEach(Vec::new()));
        };
        let further = self.queries.iter().flat_map(|query| &query.keys[1..]);
        let keys = [*state]
            .into_iter()
            .chain(further)
            .chain(states.iter().copied());
        let parameters = self.queries.iter().flat_map(|query| &query.parameters);
        let arguments = self.arguments(parameters.copied());
        let (script, keys) = (script(self.scripts()), keys.cloned().collect());
        let answer = self.shared.run(script, keys, arguments).await?;
        Ok(Answers::OneForAll(answer))
    }

    fn arguments(&self, parameters: impl Iterator<Item = u8>) -> Arguments {
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push_numbers(&mut numbers, self.cost, self.now, |numbers| {
            numbers.extend(parameters);
        });
        numbers.into()
    }

    /// Peeks at all keys, and charges them if all admit: first those that are held, then those that
    /// are charged, and then queues and intervals, each at the same time. If one refuses then, the
    /// later ones are not charged, and the charges of the others are taken back.
    async fn decide_in_rounds(self: &Arc<Self>) -> Result<Answers, StoreError> {
        let deadline = Instant::now() + self.shared.deadline;
        let peeked = self.ask_each(|scripts| &scripts.repair).await;
        let peeked: Vec<_> = peeked.into_iter().collect::<Result<_, _>>()?;
        let admits = |(query, answer): (&KeyQuery, &Bytes)| {
            let scripts = (query.scripts)(&self.shared.script_cache);
            reply::is_admitted(&scripts.members, answer)
        };
        if self.cost == 0 || !self.queries.iter().zip(&peeked).all(admits) {
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
            let answers = self.ask(in_round, |scripts| &scripts.decide).await;
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
        let is_of_it = |query: &KeyQuery| {
            let scripts = (query.scripts)(&self.shared.script_cache);
            Round::of(&scripts.members) == round
        };
        (0..self.queries.len())
            .filter(|&at| is_of_it(&self.queries[at]))
            .collect()
    }

    /// Takes a charge back, if nothing was charged to that key since. Otherwise, or if that fails,
    /// it stays: a refund could free units that others have used.
    async fn take_back(&self, at: usize, charge: Bytes) {
        let query = &self.queries[at];
        let scripts = (query.scripts)(&self.shared.script_cache);
        let withdrawal_arguments = (query.withdrawal_arguments)(&scripts.members, &charge);
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        if scripts.settle.is_some() {
            // Nothing was spent of what is held. Members that are not settled stay charged.
            push_settlement(
                &mut numbers,
                (self.cost, 0),
                self.shared.now(),
                &query.parameters,
                &withdrawal_arguments,
            );
            let keys = query.keys.clone();
            let _ = (self.shared)
                .run(&scripts.take_back, keys, numbers.into())
                .await;
            return;
        }
        // Its time is in the reply to the charge.
        push_numbers(&mut numbers, self.cost, None, |numbers| {
            numbers.extend_from_slice(&query.parameters);
            numbers.extend_from_slice(&withdrawal_arguments);
        });
        let charge = reply::kept_of(&scripts.members, &charge);
        let arguments = Arguments::taking_back(charge, numbers);
        let keys = query.keys.clone();
        let _ = self.shared.run(&scripts.take_back, keys, arguments).await;
    }

    /// Runs a script for each key, all at the same time.
    async fn ask_each(
        self: &Arc<Self>,
        script: fn(&Scripts) -> &Loadable,
    ) -> Vec<Result<Bytes, StoreError>> {
        let answers = self.ask((0..self.queries.len()).collect(), script).await;
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Runs a script for these queries, by their indices, all at the same time.
    async fn ask(
        self: &Arc<Self>,
        indices: Vec<usize>,
        script: fn(&Scripts) -> &Loadable,
    ) -> Vec<(usize, Result<Bytes, StoreError>)> {
        let mut asked = JoinSet::new();
        for (index, &at) in indices.iter().enumerate() {
            let all = Arc::clone(self);
            asked.spawn(async move {
                let (shared, query) = (&all.shared, &all.queries[at]);
                let script = script((query.scripts)(&shared.script_cache));
                let arguments = all.arguments(query.parameters.iter().copied());
                let answer = shared.run(script, query.keys.clone(), arguments).await;
                (index, answer)
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
