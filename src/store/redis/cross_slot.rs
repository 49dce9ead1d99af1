//! A decision about several keys: in one script, or, in a cluster whose slots keep them apart, in
//! one for each.

use std::{any::TypeId, sync::Arc};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{
    algorithm::{Member, Script},
    error::{StoreError, StoreErrorKind},
};

use super::{
    ARGUMENTS_LEN, Shared,
    arguments::{Arguments, push_numbers},
    failure, reply,
    scripts::{EachScripts, Loadable, ScriptCache, Scripts},
};

/// One of the keys, and what is asked about it, whatever its algorithm.
pub(super) struct KeyQuery {
    pub(super) script: fn() -> Script,
    pub(super) scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
    /// That of the state, then those that its algorithm needs beside it.
    pub(super) keys: Vec<Bytes>,
    pub(super) parameters: Vec<u8>,
    /// What the withdrawal of a charge needs to know of its answer.
    pub(super) admission: Admission,
}

type Admission = Box<dyn Fn(&[Member], &Bytes) -> Vec<u8> + Send + Sync>;

/// A cost that several keys are asked about.
pub(super) struct MultiKeyQuery {
    pub(super) shared: Arc<Shared>,
    /// The limits, and which of them have a key.
    pub(super) limits: (TypeId, u8),
    pub(super) queries: Vec<KeyQuery>,
    /// That of the caller's clock; none if it is the server's.
    pub(super) now: Option<f64>,
    pub(super) cost: u32,
}

/// What was answered.
pub(super) enum Answers {
    /// By one script about all of them.
    Together(Bytes),
    /// By one for each, in their order.
    Apart(Vec<Bytes>),
}

impl MultiKeyQuery {
    /// The scripts that decide about all keys together.
    pub(super) fn scripts(&self) -> &EachScripts {
        let texts = || self.queries.iter().map(|query| (query.script)()).collect();
        (self.shared.multi_key_script_cache)
            .find(self.limits, |time| EachScripts::of(texts(), time))
    }

    /// The keys of the states.
    pub(super) fn states(&self) -> impl Iterator<Item = &Bytes> + Clone {
        self.queries.iter().map(|query| &query.keys[0])
    }

    pub(super) async fn decide(self: &Arc<Self>) -> Result<Answers, StoreError> {
        if self.share_a_slot() {
            return self.ask_together(|scripts| &scripts.decide).await;
        }
        let shared = &self.shared;
        let decided = shared.in_time(self.decide_apart()).await;
        decided.map_err(|error| self.known(&error).unwrap_or(error))
    }

    /// What Redis has said lately against deciding about one of them, where no answer came.
    fn known(&self, error: &StoreError) -> Option<StoreError> {
        if error.kind() != StoreErrorKind::Unavailable {
            return None;
        }
        self.queries.iter().find_map(|query| {
            let (shared, scripts) = (&self.shared, (query.scripts)(&self.shared.script_cache));
            let node = shared.servers.server_of(shared.slot_of(&query.keys[0]));
            let known = |script: &Loadable| script.loads.known(node.clone(), error);
            known(&scripts.repair).or_else(|| known(&scripts.decide))
        })
    }

    pub(super) async fn peek(self: &Arc<Self>) -> Result<Answers, StoreError> {
        if self.share_a_slot() {
            return self.ask_together(|scripts| &scripts.peek).await;
        }
        let looked = self.ask_apart(|scripts| &scripts.peek).await;
        Ok(Answers::Apart(
            looked.into_iter().collect::<Result<_, _>>()?,
        ))
    }

    /// Gives the cost back to all of them.
    pub(super) async fn refund(self: &Arc<Self>) -> Result<(), StoreError> {
        let refunded = self.ask_apart(|scripts| &scripts.refund).await;
        refunded.into_iter().try_for_each(|answer| answer.map(drop))
    }

    fn share_a_slot(&self) -> bool {
        let mut slots = self
            .queries
            .iter()
            .map(|query| self.shared.slot_of(&query.keys[0]));
        let first = slots.next();
        slots.all(|slot| Some(slot) == first)
    }

    async fn ask_together(
        &self,
        script: fn(&EachScripts) -> &Loadable,
    ) -> Result<Answers, StoreError> {
        let [state, states @ ..] = &*self
            .queries
            .iter()
            .map(|query| &query.keys[0])
            .collect::<Vec<_>>()
        else {
            // Nobody: there is no script about no key.
            return Ok(Answers::Apart(Vec::new()));
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
        Ok(Answers::Together(answer))
    }

    fn arguments(&self, parameters: impl Iterator<Item = u8>) -> Arguments {
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        push_numbers(&mut numbers, self.cost, self.now, |numbers| {
            numbers.extend(parameters);
        });
        numbers.into()
    }

    /// Looks at all of them, and charges them if all admit: then at once, and if one has changed
    /// its mind meanwhile, what was charged is taken back.
    async fn decide_apart(self: &Arc<Self>) -> Result<Answers, StoreError> {
        let looked = self.ask_apart(|scripts| &scripts.repair).await;
        let looked: Vec<_> = looked.into_iter().collect::<Result<_, _>>()?;
        let admits = |(query, answer): (&KeyQuery, &Bytes)| {
            let scripts = (query.scripts)(&self.shared.script_cache);
            reply::is_admitted(&scripts.members, answer)
        };
        if self.cost == 0 || !self.queries.iter().zip(&looked).all(admits) {
            return Ok(Answers::Apart(looked));
        }
        // On its own, so that what was charged is given back whatever becomes of the request.
        let charging = tokio::spawn(Arc::clone(self).charge_apart(looked));
        charging
            .await
            .unwrap_or_else(|_| Err(failure::unavailable("the runtime shuts down")))
    }

    async fn charge_apart(self: Arc<Self>, looked: Vec<Bytes>) -> Result<Answers, StoreError> {
        let charged = self.ask_apart(|scripts| &scripts.decide).await;
        let is_charged = |answer: &Result<Bytes, _>| answer.as_ref().is_ok_and(reply::is_charged);
        if charged.iter().all(is_charged) {
            let charged = charged.into_iter().collect::<Result<_, _>>()?;
            return Ok(Answers::Apart(charged));
        }
        let mut answers = Vec::with_capacity(charged.len());
        let mut failed = None;
        for ((at, answer), looked) in charged.into_iter().enumerate().zip(looked) {
            match answer {
                Ok(charge) if reply::is_charged(&charge) => {
                    self.take_back(at, charge).await;
                    answers.push(looked);
                }
                Ok(refusal) => answers.push(refusal),
                // Whether it was charged nobody knows: to give it back could let too much through.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Answers::Apart(answers)),
        }
    }

    /// Takes a charge back, if nothing was charged to that key since. Else, and where that fails,
    /// it stays charged: a refund would free what others used of the room that came back in the
    /// meantime.
    async fn take_back(&self, at: usize, charge: Bytes) {
        let query = &self.queries[at];
        let scripts = (query.scripts)(&self.shared.script_cache);
        let admission = (query.admission)(&scripts.members, &charge);
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        // Its time is that of the charge.
        push_numbers(&mut numbers, self.cost, None, |numbers| {
            numbers.extend_from_slice(&query.parameters);
            numbers.extend_from_slice(&admission);
        });
        let arguments = Arguments::taking_back(charge, numbers);
        let keys = query.keys.clone();
        let _ = self.shared.run(&scripts.take_back, keys, arguments).await;
    }

    /// Asks about each of them at the same time.
    async fn ask_apart(
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
