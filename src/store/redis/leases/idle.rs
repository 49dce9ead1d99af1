//! Settles what lies idle.

use std::{sync::Arc, time::Duration};

use crate::store::redis::{
    Shared,
    arguments::Units,
    joined::Subject,
    lock,
    run::{LATE_TIMEOUT, Wait},
    script::Op,
};

use super::{Lease, Leases, Spent};

/// What lies idle is settled once in a lease time, and no more often than this.
const MIN_ROUND: Duration = Duration::from_millis(10);

/// So many are settled at once, and the others after 10 ms: decisions come between.
const SETTLED_AT_ONCE: usize = 500;

impl Leases {
    /// What lies idle, up to so many; none, if nothing is leased.
    pub(super) fn idle(&self, shared: &Shared, is_out: bool) -> Option<Vec<(Subject, Spent)>> {
        let mut known = lock(&self.known);
        let mut idle = Vec::new();
        let is_wall_time = shared.clock.is_none();
        for (subject, bucket) in &mut known.buckets {
            let is_over = |lease: &mut Lease| {
                let now = shared.asked(subject);
                let age = now.at.saturating_sub(lease.asked.at);
                // It is settled later, if it is still held then.
                let is_kept = is_out && age < self.held_for;
                !is_kept && !lease.can_be_spent(now, self.time, is_wall_time)
            };
            if idle.len() == SETTLED_AT_ONCE {
                break;
            }
            if let Some(lease) = bucket.lease.take_if(is_over) {
                idle.push((subject.clone(), lease.settlement()));
            }
        }
        known.is_timed = known.leased > 0;
        known.leased -= idle.len();
        known.is_timed.then_some(idle)
    }
}

/// It ends once nothing is leased, or with its runtime.
pub(super) async fn settle(mut timed: Timed, shared: Arc<Shared>) {
    let leases = Arc::clone(&timed.leases);
    let round = leases.time().max(MIN_ROUND);
    let mut pause = round;
    loop {
        tokio::time::sleep(pause).await;
        let only = shared.servers.only.as_ref();
        let is_out = only.is_some_and(|server| server.outage(true).is_some());
        let Some(idle) = leases.idle(&shared, is_out) else {
            timed.has_ended = true;
            return;
        };
        pause = match idle.len() {
            SETTLED_AT_ONCE => MIN_ROUND,
            _ => round,
        };
        for (subject, settlement) in idle {
            let of_all = (Arc::clone(&leases), Arc::clone(&shared));
            tokio::spawn(settle_one(of_all, subject, settlement));
        }
    }
}

/// That a task settles what lies idle, until it is dropped.
pub(super) struct Timed {
    leases: Arc<Leases>,
    has_ended: bool,
}

impl Timed {
    pub(super) fn new(leases: &Arc<Leases>) -> Self {
        Self {
            leases: Arc::clone(leases),
            has_ended: false,
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.leases.known).is_timed = false;
        }
    }
}

/// Says what was spent of a lease: once, and late is better than never.
async fn settle_one(
    (leases, shared): (Arc<Leases>, Arc<Shared>),
    subject: Subject,
    settlement: Spent,
) {
    let mut steps = Vec::new();
    leases.settle(&mut steps, &settlement);
    let keys = subject.keys();
    let _changing = shared.changing(&keys[0]);
    let nothing = (Op::Decide, Units::Cost(0));
    let words = [shared.arguments(&*subject.queries, nothing), steps.into()];
    let wait = Wait::Late(shared.deadline().max(LATE_TIMEOUT));
    let script = Some(subject.script.leased());
    let settled = shared.replies(script, (&keys, &words), wait).await;
    shared.count_units(settled.is_ok(), settlement.unspent(), 0);
    shared.health.record(&settled, subject.states());
}
