//! Decisions that share a call. While a call about the same limits and keys is on its way, later
//! decisions wait for the next one, which makes them in order.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{runtime::Handle, sync::oneshot, time::timeout_at};

use crate::{
    algorithm::Member,
    error::StoreError,
    store::{Ask, Source},
};

use super::{
    Shared,
    arguments::{KeyQuery, Units, costs_of_each},
    changes::Stamp,
    failure,
    leases::Leases,
    lock,
    reply::{is_charged, overridden, refused_after},
    run::{Wait, in_a_task},
    scripts::{Loadable, Scripts},
};

/// The most decisions of a call: then it is sent at once.
const MAX_DECISIONS: usize = 64;

/// A decision waits for at most this part of the deadline until it is sent, however long the call
/// before takes: so a server that is slow, but in time, still answers in time.
const SENT_WITHIN: u32 = 4;

/// The calls that are on their way.
pub(super) type JoinedCalls = Mutex<HashMap<Subject, OnTheWay>>;

/// What decisions must have in common to share a call. There is none, if each call says something
/// of its own, or the script for several decisions would be too long.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) script: Arc<Loadable>,
    pub(super) queries: Arc<Vec<KeyQuery>>,
    /// Where this process may hold units of it.
    pub(super) leases: Option<Weak<Leases>>,
}

impl Subject {
    pub(super) fn leases(&self) -> Option<Arc<Leases>> {
        self.leases.as_ref()?.upgrade()
    }

    /// The key of each state.
    pub(super) fn states(&self) -> impl Iterator<Item = &Bytes> {
        self.queries.iter().map(|query| &query.keys[0])
    }

    pub(super) fn has(&self, is_so: impl Fn(&Member) -> bool + Copy) -> bool {
        self.queries.iter().any(|query| query.scripts.has(is_so))
    }

    /// Whether a reply says all of a state, and nothing else: then what refuses a cost refuses a
    /// larger one, and its wait can be told.
    pub(super) fn says_all(&self) -> bool {
        let mut members = (self.queries.iter()).flat_map(|it| it.scripts.script.members());
        matches!((members.next(), members.next()), (Some(only), None) if !only.has_list())
    }

    /// Of each limit its type, its keys and its numbers.
    fn parts(&self) -> impl Iterator<Item = (*const Scripts, &[Bytes], &[u64])> {
        (self.queries.iter()).map(|it| (Arc::as_ptr(&it.scripts), &it.keys[..], &it.parameters[..]))
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|it| it.leases.as_ref().map(Weak::as_ptr));
        own == others && self.parts().eq(other.parts())
    }
}

impl Eq for Subject {}

/// By the keys alone: nearly always the same are asked about by the same limits.
impl Hash for Subject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.states().for_each(|key| key.hash(state));
    }
}

/// The calls about a subject.
#[derive(Default)]
pub(super) struct OnTheWay {
    calls: usize,
    /// When the last one was sent.
    sent_at: Option<Instant>,
    /// How many answers have said that units were charged.
    changed: u64,
    waiting: Vec<Unsent>,
}

/// A reply, and where it comes from.
pub(super) type Replied = (Bytes, Origin);

/// Where a reply was decided, and how many microseconds ago it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) source: Source,
    pub(super) micros_ago: u64,
}

impl Origin {
    /// Redis has replied just now.
    pub(super) const ASKED: Self = Self {
        source: Source::Store,
        micros_ago: 0,
    };
}

/// A decision that waits for its call.
struct Unsent {
    cost: u32,
    asked_at: Instant,
    /// Where its caller waits.
    runtime: Handle,
    answer: oneshot::Sender<Result<Replied, StoreError>>,
}

impl OnTheWay {
    /// Those for the next call. Whoever has gone away or is too late is not charged.
    fn next_call(&mut self, deadline: Duration) -> Vec<Unsent> {
        let waits = |it: &Unsent| !it.answer.is_closed() && it.asked_at.elapsed() < deadline;
        self.waiting.retain(waits);
        let count = self.waiting.len().min(MAX_DECISIONS);
        self.waiting.drain(..count).collect()
    }
}

/// The reply to the decision at this place of a call.
fn replied(replies: &[Bytes], place: usize) -> Result<Replied, StoreError> {
    let reply = replies.get(place).ok_or_else(failure::unreadable)?;
    Ok((reply.clone(), Origin::ASKED))
}

/// The replies to so many decisions: where the limit is overridden, it is one for all of them.
pub(super) fn of_each(replies: Vec<Bytes>, decisions: usize) -> Vec<Bytes> {
    match &*replies {
        [only] if overridden(only).is_some() => vec![only.clone(); decisions],
        _ => replies,
    }
}

impl Shared {
    /// The reply about a cost: of a call of its own, unless one is on its way.
    pub(super) async fn decide(
        self: &Arc<Self>,
        subject: &Subject,
        cost: u32,
        asked_at: Instant,
    ) -> Result<Replied, StoreError> {
        let deadline = asked_at + self.deadline();
        let joined = {
            let mut all = lock(&self.joined);
            let calls = all.entry(subject.clone()).or_default();
            // The caller of the last one may not hear that it has ended.
            let is_late = |sent_at| asked_at.saturating_duration_since(sent_at) > self.deadline();
            if calls.calls == 0 || calls.sent_at.is_none_or(is_late) {
                Err(Call::begin(self, subject, calls, asked_at))
            } else {
                let (sender, answer) = oneshot::channel();
                calls.waiting.push(Unsent {
                    cost,
                    asked_at,
                    runtime: Handle::current(),
                    answer: sender,
                });
                Ok(answer)
            }
        };
        let mut answer = match joined {
            Ok(answer) => answer,
            Err(call) => return replied(&call.ask(&[cost], deadline).await?, 0),
        };
        self.send_next(subject, 0, |calls| calls.waiting.len() >= MAX_DECISIONS);
        let soon = asked_at + self.deadline() / SENT_WITHIN;
        let mut answered = timeout_at(soon.into(), &mut answer).await;
        if answered.is_err() {
            let has_waited = |it: &Unsent| it.asked_at <= asked_at;
            self.send_next(subject, 0, |calls| calls.waiting.iter().any(has_waited));
            answered = timeout_at(deadline.into(), answer).await;
        }
        match answered {
            Ok(Ok(answer)) => answer,
            _ if Instant::now() >= deadline => {
                Err(self.missed_call(&subject.script, &subject.queries[0].keys[0]))
            }
            _ => Err(failure::runtime_ends()),
        }
    }

    /// After so many calls have ended, sends those who wait, if it is time.
    fn send_next(
        self: &Arc<Self>,
        subject: &Subject,
        ended: usize,
        is_time: impl Fn(&OnTheWay) -> bool,
    ) {
        let mut all = lock(&self.joined);
        let Some(calls) = all.get_mut(subject) else {
            return;
        };
        calls.calls -= ended;
        let next = is_time(calls).then(|| calls.next_call(self.deadline()));
        let next = next.unwrap_or_default();
        let Some(first) = next.first() else {
            if calls.calls == 0 {
                all.remove(subject);
            }
            return;
        };
        let runtime = first.runtime.clone();
        let call = Call::begin(self, subject, calls, Instant::now());
        drop(all);
        runtime.spawn(async move { call.decide(next).await });
    }
}

/// A call on its way. When it has ended, the next one is sent.
pub(super) struct Call {
    shared: Arc<Shared>,
    subject: Subject,
    /// None, if its refusals are not to be remembered.
    asked: Option<Stamp>,
    /// How many answers had charged when it was sent.
    changed: u64,
}

impl Call {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        subject: &Subject,
        calls: &mut OnTheWay,
        sent_at: Instant,
    ) -> Self {
        (calls.calls, calls.sent_at) = (calls.calls + 1, Some(sent_at));
        Self {
            shared: Arc::clone(shared),
            subject: subject.clone(),
            asked: shared.stamp_to_remember(subject),
            changed: calls.changed,
        }
    }

    async fn decide(self, waiting: Vec<Unsent>) {
        let mut decisions = Vec::new();
        for decision in waiting {
            if decision.answer.is_closed() {
                continue;
            }
            // The call before may have brought a lease.
            match self.shared.spend(&self.subject, Ask::Charge(decision.cost)) {
                Some(spent) => drop(decision.answer.send(Ok(spent))),
                None => decisions.push(decision),
            }
        }
        let Some(last) = decisions.iter().map(|it| it.asked_at).max() else {
            return;
        };
        let costs: Vec<_> = decisions.iter().map(|it| it.cost).collect();
        let replies = self.ask(&costs, last + self.shared.deadline()).await;
        if let (Ok(replies), [_, _, ..]) = (&replies, &costs[..]) {
            self.shared.usage().joined += replies.len() as u64;
        }
        for (at, decision) in decisions.into_iter().enumerate() {
            let reply = replies.as_ref().map_err(StoreError::clone);
            let reply = reply.and_then(|replies| replied(replies, at));
            let _ = decision.answer.send(reply);
        }
    }

    /// The reply about each of these costs.
    async fn ask(&self, costs: &[u32], deadline: Instant) -> Result<Vec<Bytes>, StoreError> {
        let (shared, subject) = (&self.shared, &self.subject);
        let leasing = shared.leasing(subject, costs);
        let replies = if let Some(mut leasing) = leasing {
            let (costs, wait) = (costs.to_vec(), Wait::Until(deadline));
            // What is held is kept also if the caller goes away.
            in_a_task(async move { leasing.ask(&costs, wait).await }).await?
        } else {
            let queries = &subject.queries[..];
            let each = || costs_of_each(queries, costs);
            let (script, cost, each) = match *costs {
                [only] => (&*subject.script, only, None),
                _ => (subject.script.joined(), 0, Some(each())),
            };
            let (asked, wait) = (Units::Asked(Ask::Charge(cost)), Wait::Until(deadline));
            let replies = shared.ask(script, (queries, asked), each, wait).await?;
            let replies = of_each(replies, costs.len());
            shared.count_use(subject, costs, &replies);
            replies
        };
        self.remember(costs, &replies);
        Ok(replies)
    }

    /// Remembers a refusal, and that an older one does not count any more. A charge mostly leaves
    /// no room where requests were refused before: then the next one need not ask.
    pub(super) fn remember(&self, costs: &[u32], replies: &[Bytes]) {
        let Some(asked) = self.asked else {
            return;
        };
        let (subject, decided) = (&self.subject, costs.iter().zip(replies).rev());
        let mut all = lock(&self.shared.joined);
        let Some(calls) = all.get_mut(subject) else {
            return;
        };
        // Another call has charged meanwhile, and this one may say what was before.
        let is_overtaken = calls.changed != self.changed;
        calls.changed += u64::from(replies.iter().any(is_charged));
        // Of the refusals after the last charge that of the smallest cost says the most.
        let refused = (decided.clone()).take_while(|(_, reply)| !is_charged(reply));
        let said = refused.min_by_key(|(cost, _)| **cost);
        let Some((&cost, reply)) = said.or(decided.clone().next()) else {
            return;
        };
        if let Some((overriding, _)) = overridden(reply)
            && (overriding.lets_through || subject.queries.len() > 1)
        {
            // It is no refusal, or says too little of several limits.
            self.shared.forget(subject);
            return;
        }
        let refusal = match is_charged(reply) {
            false => Some((cost, reply.clone())),
            true if self.shared.forget(subject) && subject.says_all() => {
                refused_after(reply).map(|refused| (1, refused))
            }
            true => None,
        };
        if let Some((cost, reply)) = refusal
            && !is_overtaken
        {
            self.shared.remember(subject, asked, cost, &reply);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let is_over = |calls: &OnTheWay| calls.calls == 0;
        self.shared.send_next(&self.subject, 1, is_over);
    }
}
