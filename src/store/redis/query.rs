//! What is asked of Redis about one request: by each of its limits, about a key.

use std::{
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::{
    algorithm::{Ending, Member, Override},
    error::StoreError,
    key::Key,
    store::{Ask, Change, Decided, Verdict, Written},
};

use super::{
    Later, RedisStore, Shared,
    arguments::{KeyQuery, Units, has_a_place},
    failure,
    joined::{Origin, Subject},
    leases::Leases,
    limits::RedisLimit,
    reply::{Replies, overridden},
    run::{Wait, in_a_task},
    scripts::Loadable,
};

/// What is asked about a request.
pub(super) struct Query<L, K> {
    pub(super) shared: Arc<Shared>,
    pub(super) limit: L,
    key: K,
    pub(super) all: Arc<Vec<KeyQuery>>,
    leases: Option<Arc<Leases>>,
}

impl<L: RedisLimit<K>, K: Key> Query<L, K> {
    pub(super) fn new(store: &RedisStore, limit: &L, key: K) -> Self {
        Self {
            all: Arc::new(limit.queries(&store.shared, &key)),
            shared: Arc::clone(&store.shared),
            leases: store.leases.clone(),
            limit: limit.clone(),
            key,
        }
    }

    /// The key of each state.
    fn states(&self) -> impl Iterator<Item = &Bytes> {
        self.all.iter().map(|query| &query.keys[0])
    }

    pub(super) async fn decide(mut self, ask: Ask) -> Decided<L> {
        if ask.charge() > 0 {
            for query in Arc::make_mut(&mut self.all) {
                query.place = self.shared.begin(query);
            }
        }
        let query = Arc::new(self);
        let shared = &query.shared;
        let answers = query.answers(ask).await;
        let verdict = answers.and_then(|(answers, origin)| {
            let verdict = query.read(&answers, ask.cost(), origin);
            verdict.ok_or_else(failure::unreadable)
        });
        if let Ask::Charge(_) = ask {
            shared.usage().count(&verdict);
        } else if verdict.as_ref().is_ok_and(|seen| seen.admitted)
            && let Some(subject) = query.subject()
        {
            // What was refused before is no longer true.
            shared.forget(&subject);
        }
        if query.all.iter().any(|one| one.place.process != 0.0) {
            query.have_begun(&verdict);
        }
        shared.health.record(&verdict, query.states());
        verdict
    }

    /// Says of each place in flight whether it was taken.
    fn have_begun(&self, decided: &Decided<L>) {
        let admitted = decided.as_ref().ok().filter(|verdict| verdict.admitted);
        let places = admitted.map(|verdict| self.limit.admissions(&verdict.snapshot));
        for (at, one) in self.all.iter().enumerate() {
            let admission = places.as_ref().and_then(|places| places.get(at));
            let is_taken = admission.is_some_and(|own| has_a_place(&one.scripts.script, own));
            let is_taken = decided.is_ok().then_some(is_taken);
            self.shared.has_begun((&one.keys[0], one.place), is_taken);
        }
    }

    /// What a decision shares with others; none, if it has to be asked by itself.
    pub(super) fn subject(&self) -> Option<Subject> {
        let script = self.script_of_all().filter(|it| it.can_be_joined)?;
        let mut leases = self.leases.as_ref().filter(|_| script.can_be_leased);
        leases = leases.filter(|it| it.can_hold(&self.all[0]));
        Some(Subject {
            leases: leases.map(Arc::downgrade),
            queries: Arc::clone(&self.all),
            script,
        })
    }

    /// An admission by units that are held here, or a look at them.
    pub(super) fn spent(&self, ask: Ask) -> Option<Verdict<L::Snapshot>> {
        let subject = self.subject().filter(|_| ask.cost() > 0)?;
        let (reply, origin) = self.shared.spend(&subject, ask)?;
        let admitted = self.read(&[reply], ask.charge(), origin)?;
        if ask.charge() > 0 {
            self.shared.usage().admitted += 1;
        }
        Some(admitted)
    }

    /// The refusal of a cost that Redis has refused before, and still would.
    pub(super) fn refused(&self, ask: Ask) -> Option<Verdict<L::Snapshot>> {
        self.shared.refusals.as_ref()?;
        let (subject, cost) = (&self.subject().filter(|_| ask.charge() > 0)?, ask.cost());
        let fits_after = |reply: &Bytes, cost| self.fits_after(subject, reply, cost);
        let (reply, origin) = self.shared.refused(subject, cost, fits_after)?;
        // An outage that is known is told instead.
        if self.shared.is_out(&self.all[0].keys[0], false) {
            return None;
        }
        let refused = self.read(&[reply], cost, origin)?;
        let mut usage = self.shared.usage();
        usage.refused += 1;
        usage.remembered += 1;
        Some(refused)
    }

    /// For how many microseconds this cost is surely refused: until the first limit that has
    /// refused it would admit it, or, by a list, until more is replenished, of which the reply says
    /// nothing.
    fn fits_after(&self, subject: &Subject, reply: &Bytes, cost: u32) -> Option<u64> {
        let reply = slice::from_ref(reply);
        let has_a_list = subject.has(Member::has_list);
        if has_a_list && Replies::read(&self.all, reply, cost)?.hold_beside_a_list() {
            // What others hold comes back at any time, and a list does not say what fits then.
            return Some(0);
        }
        let refused = self.read(reply, cost, Origin::ASKED)?;
        let mut fits_after = Duration::MAX;
        self.limit.describe(&refused.snapshot, &mut |policy| {
            let changes_after = Some(policy.replenished_after());
            let changes_after = changes_after.filter(|it| has_a_list && !it.is_zero());
            for after in policy.retry_after().into_iter().chain(changes_after) {
                fits_after = fits_after.min(after);
            }
            // A charge has left room for it.
            if cost == 1 && subject.says_all() && policy.remaining() > 0 {
                fits_after = Duration::ZERO;
            }
        });
        Some(u64::try_from(fits_after.as_micros()).unwrap_or(u64::MAX))
    }

    /// The reply about all of them together, or one about each; and where it comes from.
    async fn answers(self: &Arc<Self>, ask: Ask) -> Result<(Vec<Bytes>, Origin), StoreError> {
        let asked_at = Instant::now();
        let deadline = asked_at + self.shared.deadline();
        let (answers, origin) = if self.all.is_empty() {
            (Vec::new(), Origin::ASKED)
        } else if let Some(subject) = self.subject().filter(|_| ask.charge() > 0) {
            let (answer, origin) = self.shared.decide(&subject, ask.cost(), asked_at).await?;
            (vec![answer], origin)
        } else if let Some(script) = self.script_of_all() {
            let (asked, wait) = ((&self.all[..], Units::Asked(ask)), Wait::Until(deadline));
            let answers = self.shared.ask(&script, asked, None, wait).await?;
            (answers, Origin::ASKED)
        } else {
            let answers = self.decide_across_slots(ask, deadline).await?;
            (answers, Origin::ASKED)
        };
        let is_overridden = matches!(&answers[..], [only] if overridden(only).is_some());
        if self.all.len() > 1 && is_overridden {
            // One of several limits is overridden: then each is asked by itself.
            let answers = self.decide_across_slots(ask, deadline).await?;
            return Ok((answers, Origin::ASKED));
        }
        Ok((answers, origin))
    }

    /// The script about all of them together, if they share a slot and are not too many.
    fn script_of_all(&self) -> Option<Arc<Loadable>> {
        if let [only] = &**self.all {
            return Some(Arc::clone(&only.scripts.loadable));
        }
        let mut slots = self.states().map(|key| self.shared.servers.slot_of(key));
        let first = slots.next()?;
        let scripts = self.all.iter().map(|query| &*query.scripts);
        let several = || self.shared.script_cache.script_of_several(scripts);
        slots.all(|slot| slot == first).then(several)?
    }

    /// What was decided: by the reply about all of them, or by one about each. Its status is
    /// told as of now.
    pub(super) fn read(
        &self,
        answers: &[Bytes],
        cost: u32,
        origin: Origin,
    ) -> Option<Verdict<L::Snapshot>> {
        let mut replies = Replies::read(&self.all, answers, cost)?;
        let later = Duration::from_micros(origin.micros_ago);
        for member in &mut replies.members {
            member.now = member.now.saturating_add(later);
        }
        let snapshot = (self.limit).read_all(&self.key, &mut replies.members.into_iter())?;
        Some(Verdict {
            admitted: replies.admitted,
            snapshot,
            source: origin.source,
        })
    }
}

/// Changes other than by a decision.
impl<L: RedisLimit<K>, K: Key> Query<L, K> {
    /// Changes what the keys have been charged; none, if there is nothing to do.
    pub(super) fn change(self, change: Change<'_, L::Snapshot>) -> Option<Later<Written>> {
        match change {
            Change::Refund(0) | Change::Debit(0) => None,
            Change::Refund(cost) => self.written(Units::Refund(cost)),
            Change::Debit(units) => self.written(Units::Debit(units)),
            Change::End(admission, ending) => self.ended(admission, ending),
            Change::Reset => Some(self.reset(None)),
            Change::Override(overriding) => Some(self.reset(Some(overriding))),
        }
    }

    /// Deletes all that is stored of the keys, and sets what decides about them until an instant.
    fn reset(self, overriding: Option<Override>) -> Later<Written> {
        let resetting = async move {
            let shared = &self.shared;
            let set = overriding.map(|overriding| shared.override_arguments(overriding));
            let set = set.unwrap_or_default();
            for KeyQuery { keys, .. } in &*self.all {
                let _changing = shared.changing(&keys[0]);
                // The lists afterwards: nobody writes them while it is in force.
                let (state, deleted) = keys.split_at(usize::from(!set.is_empty()));
                let commands = [(state, &set[..]), (deleted, &[])];
                for command in commands.into_iter().filter(|(keys, _)| !keys.is_empty()) {
                    let written = shared.replies(None, command, shared.request_waits()).await;
                    shared.health.record(&written, []);
                    written?;
                }
            }
            Ok(())
        };
        // Whoever goes away meanwhile has it done to the end: until then no answer is remembered.
        Box::pin(async move { in_a_task(resetting).await })
    }

    /// Charges these units or gives them back, by each limit that they change.
    fn written(&self, units: Units<'_>) -> Option<Later<Written>> {
        let is_refund = matches!(units, Units::Refund(_));
        let is_changed = |member: &Member| !(is_refund && member.keeps_refunds);
        let changed = self.all.iter().filter(|it| it.scripts.has(is_changed));
        let wait = self.shared.request_waits();
        all_of(changed.map(|query| self.shared.send(query, units, wait)))
    }

    /// Settles what the admission holds, and gives back its places in flight and its turns: sends
    /// it at once.
    fn ended(&self, admission: &L::Snapshot, ending: Ending) -> Option<Later<Written>> {
        let mut sent = Vec::new();
        let is_settled = |member: &Member| match ending {
            Ending::Settled { .. } => member.settled,
            Ending::Withdrawn { .. } => member.settled || member.withdraws,
            Ending::Over => false,
        };
        for (query, admission) in self.all.iter().zip(self.limit.admissions(admission)) {
            if !matches!(ending, Ending::Settled { .. }) {
                sent.extend(self.shared.end(query, &admission));
            }
            if query.scripts.has(is_settled) {
                let units = Units::Ended(ending, &admission);
                sent.push(self.shared.send(query, units, self.shared.late()));
            }
        }
        all_of(sent)
    }
}

/// Waits for all that was sent; none, if nothing was.
fn all_of(sent: impl IntoIterator<Item = Later<Written>>) -> Option<Later<Written>> {
    sent.into_iter()
        .reduce(|before, last| Box::pin(async move { before.await.and(last.await) }))
}

impl Shared {
    /// Changes a bucket by the script of a query: at once and to its end, whether or not the answer
    /// is waited for. It is sent once.
    pub(super) fn send(
        self: &Arc<Self>,
        query: &KeyQuery,
        units: Units<'_>,
        wait: Wait,
    ) -> Later<Written> {
        let mut arguments = vec![self.arguments(slice::from_ref(query), units)];
        if let Units::TakenBack(_, _, value) = units {
            arguments.push(value.clone());
        }
        let (shared, scripts) = (Arc::clone(self), Arc::clone(&query.scripts));
        let keys = query.keys.clone();
        // Decisions by places in flight remember nothing.
        let is_remembered = !query.scripts.has(|member| member.in_flight);
        let changing = is_remembered.then(|| self.changing(&keys[0]));
        let sending = async move {
            let (script, _changing) = (Some(&*scripts.loadable), changing);
            let written = shared.replies(script, (&keys, &arguments), wait).await;
            shared.health.record(&written, &keys[..1]);
            written.map(drop)
        };
        if Handle::try_current().is_ok() {
            return Box::pin(in_a_task(sending));
        }
        // On the runtime that waits for the answer, if one does.
        Box::pin(async move {
            match Handle::try_current() {
                Ok(_) => in_a_task(sending).await,
                Err(_) => Err(failure::unavailable("there is no runtime to send it on")),
            }
        })
    }
}
