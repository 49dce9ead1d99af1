//! A decision about several keys: one script if they share a slot, else one for each key.

use std::{any::TypeId, sync::Arc};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{
    algorithm::{Member, Script},
    error::{StoreError, StoreErrorKind},
};

use super::{
    ARGUMENTS_LEN, Shared,
    arguments::{Arguments, push_numbers, push_settlement},
    failure, reply,
    scripts::{Loadable, MultiKeyScripts, ScriptCache, Scripts},
};

/// One of the keys, and what its scripts are given.
pub(super) struct KeyQuery {
    pub(super) script: fn() -> Script,
    pub(super) scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
    /// That of the state, then the further keys of its algorithm.
    pub(super) keys: Vec<Bytes>,
    pub(super) parameters: Vec<u8>,
    /// The numbers of the reply to a charge that its withdrawal needs.
    pub(super) admission: Admission,
}

type Admission = Box<dyn Fn(&[Member], &Bytes) -> Vec<u8> + Send + Sync>;

/// A cost, and the keys that it is charged to.
pub(super) struct MultiKeyQuery {
    pub(super) shared: Arc<Shared>,
    /// The limits, and which of them have a key.
    pub(super) limits: (TypeId, u8),
    pub(super) queries: Vec<KeyQuery>,
    /// The time of the store's own clock; `None` if the server's counts.
    pub(super) now: Option<f64>,
    pub(super) cost: u32,
}

/// The replies.
pub(super) enum Answers {
    /// That of one script about all keys.
    OneForAll(Bytes),
    /// Those of a script for each key, in their order.
    OneForEach(Vec<Bytes>),
}

impl MultiKeyQuery {
    /// The scripts that decide about all keys together.
    pub(super) fn scripts(&self) -> &MultiKeyScripts {
        let texts = || self.queries.iter().map(|query| (query.script)()).collect();
        (self.shared.multi_key_script_cache)
            .find(self.limits, |time| MultiKeyScripts::of(texts(), time))
    }

    /// The keys of the states.
    pub(super) fn states(&self) -> impl Iterator<Item = &Bytes> + Clone {
        self.queries.iter().map(|query| &query.keys[0])
    }

    pub(super) async fn decide(self: &Arc<Self>) -> Result<Answers, StoreError> {
        if self.share_a_slot() {
            return self.ask_all_at_once(|scripts| &scripts.decide).await;
        }
        let shared = &self.shared;
        let decided = shared.in_time(self.decide_in_two_rounds()).await;
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
                |script: &Loadable| script.loads.recent_misconfiguration(node.clone(), error);
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
    pub(super) async fn refund(self: &Arc<Self>) -> Result<(), StoreError> {
        let refunded = self.ask_each(|scripts| &scripts.refund).await;
        refunded.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Charges all of them, whether there is room or not.
    pub(super) async fn debit(self: &Arc<Self>) -> Result<(), StoreError> {
        let debited = self.ask_each(|scripts| &scripts.debit).await;
        debited.into_iter().try_for_each(|answer| answer.map(drop))
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

    /// Peeks at all keys, and charges them at the same time if all admit. If one refuses then, the
    /// charges of the others are taken back.
    async fn decide_in_two_rounds(self: &Arc<Self>) -> Result<Answers, StoreError> {
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
        let charging = tokio::spawn(Arc::clone(self).charge_each(peeked));
        charging
            .await
            .unwrap_or_else(|_| Err(failure::unavailable("the runtime shuts down")))
    }

    async fn charge_each(self: Arc<Self>, peeked: Vec<Bytes>) -> Result<Answers, StoreError> {
        let charged = self.ask_each(|scripts| &scripts.decide).await;
        let is_charged = |answer: &Result<Bytes, _>| answer.as_ref().is_ok_and(reply::is_charged);
        if charged.iter().all(is_charged) {
            let charged = charged.into_iter().collect::<Result<_, _>>()?;
            return Ok(Answers::OneForEach(charged));
        }
        let mut answers = Vec::with_capacity(charged.len());
        let mut failed = None;
        for ((at, answer), peeked) in charged.into_iter().enumerate().zip(peeked) {
            match answer {
                Ok(charge) if reply::is_charged(&charge) => {
                    self.take_back(at, charge).await;
                    answers.push(peeked);
                }
                Ok(refusal) => answers.push(refusal),
                // Whether it was charged is not known: to take it back could admit too much.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Answers::OneForEach(answers)),
        }
    }

    /// Takes a charge back, if nothing was charged to that key since. Otherwise, or if that fails,
    /// it stays: a refund could free units that others have used.
    async fn take_back(&self, at: usize, charge: Bytes) {
        let query = &self.queries[at];
        let scripts = (query.scripts)(&self.shared.script_cache);
        let admission = (query.admission)(&scripts.members, &charge);
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        if scripts.settle.is_some() {
            // Nothing was spent of what is held. Members that are not settled stay charged.
            push_settlement(
                &mut numbers,
                (self.cost, 0),
                self.shared.now(),
                &query.parameters,
                &admission,
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
            numbers.extend_from_slice(&admission);
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
        let mut asked = JoinSet::new();
        for at in 0..self.queries.len() {
            let all = Arc::clone(self);
            asked.spawn(async move {
                let (shared, query) = (&all.shared, &all.queries[at]);
                let script = script((query.scripts)(&shared.script_cache));
                let arguments = all.arguments(query.parameters.iter().copied());
                (at, shared.run(script, query.keys.clone(), arguments).await)
            });
        }
        let unasked = || Err(failure::unavailable("the runtime shuts down"));
        let mut answers: Vec<_> = self.queries.iter().map(|_| unasked()).collect();
        while let Some(answer) = asked.join_next().await {
            if let Ok((at, answer)) = answer {
                answers[at] = answer;
            }
        }
        answers
    }
}
