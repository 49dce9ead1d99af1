//! What is asked of Redis about one request: by each of its limits, about a key.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;

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
    run::Wait,
    script::Op,
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
    fn states(&self) -> impl Iterator<Item = &Bytes> + Clone {
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
        match ask {
            Ask::Charge(_) => shared.usage().count(&verdict),
            // What was refused before is no longer true.
            Ask::Look(_) if verdict.as_ref().is_ok_and(|seen| seen.admitted) => {
                let subject = query.subject(Ask::Charge(1));
                let _ = subject.is_some_and(|it| shared.forget(&it));
            }
            Ask::Look(_) => {}
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
    pub(super) fn subject(&self, ask: Ask) -> Option<Subject> {
        if ask.charge() == 0 || self.all.is_empty() {
            return None;
        }
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
        let subject = self.subject(Ask::Charge(ask.cost()))?;
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
        let (subject, cost) = (&self.subject(ask)?, ask.cost());
        let fits_after = |reply: &Bytes, cost| self.fits_after(subject, reply, cost);
        let (reply, origin) = self.shared.refused(subject, cost, fits_after)?;
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
        let reply = std::slice::from_ref(reply);
        let has_a_list = subject.has(Member::has_list);
        if has_a_list && self.replies(reply, cost)?.hold_beside_a_list() {
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
        if self.all.is_empty() {
            return Ok((Vec::new(), Origin::ASKED));
        }
        let asked_at = Instant::now();
        let deadline = asked_at + self.shared.deadline();
        let (answer, origin) = if let Some(subject) = self.subject(ask) {
            self.shared.decide(&subject, ask.cost(), asked_at).await?
        } else if let Some(script) = self.script_of_all() {
            let op = match ask.charge() {
                0 => Op::Look,
                _ => Op::Decide,
            };
            let cost = Units::Cost(ask.cost());
            let arguments = vec![self.shared.arguments(&*self.all, (op, cost))];
            let keys = self.all.iter().flat_map(|query| query.keys.clone());
            let (keys, wait) = (keys.collect(), Wait::Until(deadline));
            let answer = (self.shared).run(Some(&script), keys, arguments, wait);
            (answer.await?, Origin::ASKED)
        } else {
            let answers = self.decide_across_slots(ask, deadline).await?;
            return Ok((answers, Origin::ASKED));
        };
        match self.all.len() > 1 && overridden(&answer).is_some() {
            // One of several limits is overridden: then each is asked by itself.
            true => {
                let answers = self.decide_across_slots(ask, deadline).await?;
                Ok((answers, Origin::ASKED))
            }
            false => Ok((vec![answer], origin)),
        }
    }

    /// The script about all of them together, if they share a slot and are not too many.
    fn script_of_all(&self) -> Option<Arc<Loadable>> {
        if let [only] = &**self.all {
            return Some(Arc::clone(&only.scripts.loadable));
        }
        let mut slots = self.states().map(|key| self.shared.servers.slot_of(key));
        let first = slots.next()?;
        if slots.any(|slot| slot != first) {
            return None;
        }
        let scripts = self.all.iter().map(|query| &*query.scripts);
        self.shared.script_cache.script_of_several(scripts)
    }

    fn replies(&self, answers: &[Bytes], cost: u32) -> Option<Replies> {
        let scripts: Vec<_> = self.all.iter().map(|query| &query.scripts.script).collect();
        Replies::read(&scripts, answers, cost)
    }

    /// What was decided: by the reply about all of them, or by one about each. Its status is
    /// told as of now.
    pub(super) fn read(
        &self,
        answers: &[Bytes],
        cost: u32,
        origin: Origin,
    ) -> Option<Verdict<L::Snapshot>> {
        let mut replies = self.replies(answers, cost)?;
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
            let write = async |keys: Vec<Bytes>, arguments| {
                let written = shared.run(None, keys, arguments, shared.request_waits());
                let written = written.await;
                shared.health.record(&written, []);
                written
            };
            for KeyQuery { mut keys, .. } in Arc::unwrap_or_clone(self.all) {
                let _changing = shared.changing(&keys[0]);
                if let Some(set) = &set {
                    // The lists afterwards: nobody writes them while it is in force.
                    write(vec![keys.remove(0)], set.clone()).await?;
                }
                if !keys.is_empty() {
                    write(keys, Vec::new()).await?;
                }
            }
            Ok(())
        };
        // Whoever goes away meanwhile has it done to the end: until then no answer is remembered.
        Box::pin(async move {
            let reset = tokio::spawn(resetting).await;
            reset.unwrap_or_else(|_| Err(failure::runtime_ends()))
        })
    }

    fn written(self, units: Units<'static>) -> Option<Later<Written>> {
        let is_refund = matches!(units, Units::Refund(_));
        let is_changed = |member: &Member| !(is_refund && member.keeps_refunds);
        let is_asked = |at: &usize| self.all[*at].scripts.has(is_changed);
        let changed: Vec<_> = (0..self.all.len()).filter(is_asked).collect();
        if changed.is_empty() {
            return None;
        }
        let query = Arc::new(self);
        Some(Box::pin(async move {
            let answers = query.ask(changed, (Op::Change, units)).await;
            let written = (answers.into_iter()).try_for_each(|(_, answer)| answer.map(drop));
            query.shared.health.record(&written, query.states());
            written
        }))
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
                let arguments = self.shared.arguments([query], (Op::Settle, units));
                sent.push((self.shared).send_late(query, vec![arguments], self.shared.late()));
            }
        }
        (!sent.is_empty()).then(|| -> Later<Written> {
            Box::pin(async move {
                let mut all = Ok(());
                for written in sent {
                    all = all.and(written.await);
                }
                all
            })
        })
    }
}

impl Shared {
    /// Runs the script of a query at once, in a task of its own, so that it runs whether or not the
    /// answer is waited for; it is sent once, and late is better than never.
    pub(super) fn send_late(
        self: &Arc<Self>,
        query: &KeyQuery,
        arguments: Vec<Bytes>,
        wait: Wait,
    ) -> Later<Written> {
        let (scripts, keys) = (Arc::clone(&query.scripts), query.keys.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            let no_runtime = || failure::unavailable("there is no runtime to settle on");
            return Box::pin(async move { Err(no_runtime()) });
        };
        let shared = Arc::clone(self);
        // Decisions by places in flight remember nothing.
        let is_remembered = !query.scripts.has(|member| member.in_flight);
        let changing = is_remembered.then(|| self.changing(&keys[0]));
        let sending = runtime.spawn(async move {
            let (key, _changing) = (keys[0].clone(), changing);
            let written = shared.run(Some(&scripts.loadable), keys, arguments, wait);
            let written = written.await;
            shared.health.record(&written, [&key]);
            written.map(drop)
        });
        Box::pin(async move {
            let written = sending.await;
            written.unwrap_or_else(|_| Err(failure::runtime_ends()))
        })
    }
}
