//! A decision about keys in several slots of a cluster: one script for each.

use std::{slice, sync::Arc, time::Instant};

use bytes::Bytes;

use crate::{algorithm::Ending, error::StoreError, key::Key, store::Ask};

use super::{
    arguments::{KeyQuery, Units},
    failure,
    joined::Origin,
    limits::RedisLimit,
    query::Query,
    reply::{self, Replies},
    run::{Wait, in_a_task},
};

/// How many rounds there are in which keys in different slots are charged.
const ROUNDS: usize = 3;

/// The round in which a limit is charged: that of its last member. The first charges are the
/// easiest to take back if a later key refuses.
fn round_of(KeyQuery { scripts, holds, .. }: &KeyQuery) -> usize {
    if scripts.has(|member| member.charged_last) {
        // It cannot be taken back without harm.
        2
    } else if scripts.has(|member| !(member.in_flight || member.settled && *holds)) {
        // It can be taken back only if nobody else was charged meanwhile.
        1
    } else {
        // A hold can be given back even if others were charged meanwhile.
        0
    }
}

impl<L: RedisLimit<K>, K: Key> Query<L, K> {
    /// The reply about each key, in their order. All keys are looked at; if it is no look, and all
    /// admit, they are charged: first those that are held, then those that are charged, and then
    /// queues and intervals, each at the same time. If one refuses then, the later ones are not
    /// charged, and the charges of the others are taken back.
    pub(super) async fn decide_across_slots(
        self: &Arc<Self>,
        ask: Ask,
        deadline: Instant,
    ) -> Result<Vec<Bytes>, StoreError> {
        // If any of the scripts is misconfigured, all are.
        let explained = |error| {
            self.all.iter().fold(error, |error, query| {
                (self.shared).explained(error, &query.scripts.loadable, &query.keys[0])
            })
        };
        let cost = ask.cost();
        let all = (0..self.all.len()).collect();
        let looks = self.ask_each(all, Ask::Look(cost), Wait::Until(deadline));
        let looks = looks.await.into_iter().map(|(_, look)| look);
        let looks = (looks.collect::<Result<Vec<_>, _>>()).map_err(explained)?;
        let looked = Replies::read(&self.all, &looks, cost);
        if ask.charge() == 0 || !looked.is_some_and(|replies| replies.admitted) {
            return Ok(looks);
        }
        // Charges are taken back even if the request is dropped.
        let charging = in_a_task(Arc::clone(self).charge_each(looks, cost, deadline));
        let charged = self.shared.until(deadline, charging).await;
        charged.map_err(explained)
    }

    /// Charges all keys, which have admitted a look.
    async fn charge_each(
        self: Arc<Self>,
        peeked: Vec<Bytes>,
        cost: u32,
        deadline: Instant,
    ) -> Result<Vec<Bytes>, StoreError> {
        let admits = |at: usize, reply: &Bytes| {
            let replies = Replies::read(&self.all[at..=at], slice::from_ref(reply), cost);
            replies.is_some_and(|replies| replies.admitted)
        };
        let (mut answers, mut charged) = (peeked, Vec::new());
        let (mut all_admit, mut failed) = (true, None);
        for round in 0..ROUNDS {
            let in_round = |at: &usize| round_of(&self.all[*at]) == round;
            let in_round: Vec<_> = (0..self.all.len()).filter(in_round).collect();
            if !all_admit || in_round.is_empty() {
                continue;
            }
            // Nobody waits any more: what is charged now would be charged for nothing.
            if Instant::now() >= deadline {
                (all_admit, failed) = (false, Some(failure::timed_out(self.shared.deadline())));
                break;
            }
            let wait = self.shared.request_waits();
            for (at, answer) in self.ask_each(in_round, Ask::Charge(cost), wait).await {
                match answer {
                    Ok(reply) => {
                        all_admit &= admits(at, &reply);
                        charged.push((at, reply));
                    }
                    // Whether it was charged is not known: to take it back could admit too much.
                    Err(error) => (all_admit, failed) = (false, failed.or(Some(error))),
                }
            }
        }
        for (at, reply) in charged {
            if !all_admit && reply::is_charged(&reply) {
                self.take_back(at, reply, (&answers, cost)).await;
            } else {
                answers[at] = reply;
            }
        }
        failed.map_or(Ok(answers), Err)
    }

    /// Takes a charge back, if nothing was charged to that key since. Otherwise, or if that fails,
    /// it stays: a refund could free units that others have used.
    async fn take_back(&self, at: usize, charge: Bytes, (others, cost): (&[Bytes], u32)) {
        let (query, mut answers) = (&self.all[at], others.to_vec());
        answers[at] = charge.clone();
        let verdict = self.read(&answers, cost, Origin::ASKED);
        let admissions = verdict.map(|it| self.limit.admissions(&it.snapshot));
        let admission = admissions.and_then(|all| all.into_iter().nth(at));
        let admission = admission.unwrap_or_default();
        let charge = reply::value_of(&query.scripts.script, &charge);
        let units = if query.holds {
            // Nothing was spent of what is held. Members that are not settled stay charged.
            let (held, spent) = (cost, 0);
            Units::Ended(Ending::Settled { held, spent }, &admission)
        } else {
            Units::TakenBack(cost, &admission, &charge)
        };
        let late = self.shared.late();
        let _ = self.shared.send(query, units, late).await;
        if query.scripts.has(|member| member.in_flight) {
            let place = self.shared.in_flight.place(-1.0);
            let ended = self.shared.send_place(query.clone(), (place, -1), late);
            let _ = ended.await;
        }
    }

    /// Asks about these keys, by their indices, all at the same time.
    async fn ask_each(
        self: &Arc<Self>,
        indices: Vec<usize>,
        ask: Ask,
        wait: Wait,
    ) -> Vec<(usize, Result<Bytes, StoreError>)> {
        let begin = |at: usize| {
            let all = Arc::clone(self);
            let asking = in_a_task(async move {
                let asked = (&all.all[at..=at], Units::Asked(ask));
                let script = &all.all[at].scripts.loadable;
                let replies = all.shared.ask(script, asked, None, wait).await?;
                replies.into_iter().next().ok_or_else(failure::unreadable)
            });
            (at, asking)
        };
        let asked: Vec<_> = indices.into_iter().map(begin).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (at, answer) in asked {
            answers.push((at, answer.await));
        }
        answers
    }
}
