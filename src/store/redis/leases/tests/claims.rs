//! What must hold at each step.

use super::*;

impl<L: Rule> World<'_, L> {
    /// What is wrong, if this cost is refused without asking.
    pub(super) fn wrong(
        &self,
        (who, subject): (Who, &Subject),
        cost: u32,
        refused: &Verdict<L::Snapshot>,
        now: u64,
    ) -> Option<&'static str> {
        let (rule, longest) = (&self.plans[who.plan].0, LONGEST[who.process]);
        let told = rule.decision_of(&refused.snapshot);
        let limit = self.model.limit(who.plan);
        let wait = told.retry_after().unwrap_or_default().as_micros() as u64;
        let own_time = self.processes[who.process].0.shared.time();
        // What is wrong with each answer, after how much that is right.
        let said = self.left.iter().filter_map(|(number, state)| {
            let it = &self.sent[number];
            let is_heard = it.over.is_some_and(|(_, is_heard)| is_heard);
            let decided = it.arrived.filter(|_| is_heard && it.subject == *subject)?;
            let age = own_time - it.sent[1];
            let is_refused = !limit.judge(state, cost, at(BEGIN + decided + age));
            // While units are held a wait is an estimate.
            let is_held = rule.held(state, BEGIN + decided).iter().any(|it| *it > 0);
            let waits = limit.judge(state, cost, at(BEGIN + now + wait));
            let waits = waits || is_held || told.never_fits();
            let holds = [
                (age < longest, "it is too old"),
                (is_refused, "the cost would be admitted"),
                (waits, "the wait is too short"),
            ];
            let wrong = holds.iter().position(|it| !it.0);
            // After a pause it is late.
            let is_known = age == now - it.sent[0];
            Some((wrong.unwrap_or(3), wrong.map(|at| holds[at].1), is_known))
        });
        let Some((_, wrong, is_known)) = said.max() else {
            return Some("the server never said so");
        };
        // Others have settled or reset, or the process has and does not know, or gave up before.
        let is_unnoticed = |it: &Sent| {
            let is_recent = it.arrived.is_some_and(|at| now - at < longest);
            let is_own = it.who.began == who.began;
            let is_noticed = is_own && it.over.is_some_and(|(over, _)| it.arrived <= Some(over));
            (it.settles || it.resets) && is_recent && !is_noticed
        };
        let state = self.model.state(who.plan, BEGIN + now);
        let is_late = is_known
            && limit.judge(&state, cost, at(BEGIN + now))
            && !self.sent.values().any(is_unnoticed);
        wrong.or(is_late.then_some("the server would admit it"))
    }

    /// By plan, how many units are leased and not spent, here or on the way.
    pub(super) fn unspent(&self) -> [u64; 2] {
        [0, 1].map(|plan| {
            let left = self
                .processes
                .iter()
                .enumerate()
                .map(|(process, (store, _))| {
                    let known = lock(&store.leases.as_ref().expect("leases").known);
                    let bucket = known.buckets.get(&self.subject(process, plan));
                    let lease = bucket.and_then(|it| it.lease.as_ref());
                    lease.map_or(0, |lease| u64::from(lease.left))
                });
            let brought = self.sent.values().filter_map(|it| {
                let is_heard = it.who.plan == plan && it.over.is_none();
                let brought = it.replies.as_ref().filter(|_| is_heard)?;
                let decided = it.costs.len() + usize::from(it.settles);
                let held = brought.get(decided..)?.first()?;
                Some(u64::from(u32::from_le_bytes(*held.first_chunk()?)))
            });
            left.chain(brought).sum()
        })
    }

    pub(super) fn is_within_bounds(&mut self, now: u64) -> Result<(), String> {
        for ((spent, unspent), (_, bounds)) in self.spent.iter().zip(self.unspent).zip(&self.plans)
        {
            for bound in bounds {
                let is_in_span = |it: &&(u64, u64)| it.0 as i128 > now as i128 - bound.span;
                let units: u64 = spent.iter().filter(is_in_span).map(|it| it.1).sum();
                let (units, most) = (i128::from(units), bound.most + i128::from(unspent));
                if units > most {
                    return Err(format!("{units} of {most} in {}: {spent:?}", bound.span));
                }
                if most > 0 {
                    self.counts[3] = self.counts[3].max((units * 1_000 / most) as u64);
                }
            }
        }
        Ok(())
    }
}
