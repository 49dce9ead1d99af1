//! Settles what lies idle.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::store::redis::{Shared, arguments::Units, joined::Subject, lock, script::Op};

use super::{Lease, Leases};

/// What lies idle is settled once in a lease time, and no more often than this.
const MIN_ROUND: Duration = Duration::from_millis(10);

/// So many are settled at once, and the others after 10 ms: decisions come between.
const SETTLED_AT_ONCE: usize = 500;

impl Leases {
    /// What lies idle, up to so many; none, if nothing is leased. What cannot be settled now, as
    /// its server is out, is settled later, if it is still held then.
    pub(super) fn idle(
        &self,
        shared: &Shared,
        mut is_out: impl FnMut(&Subject) -> bool,
    ) -> Option<Vec<(Subject, Lease)>> {
        let mut known = lock(&self.known);
        let mut idle = Vec::new();
        let is_wall_time = shared.clock.is_none();
        for (subject, bucket) in &mut known.buckets {
            let is_due = |lease: &mut Lease| {
                let now = shared.stamp(subject);
                let age = now.at.saturating_sub(lease.asked.at);
                let mut is_kept = || age < self.held_for && is_out(subject);
                !lease.can_be_spent(now, self.time, is_wall_time) && !is_kept()
            };
            if idle.len() == SETTLED_AT_ONCE {
                break;
            }
            if let Some(lease) = shared.taken(bucket.lease.take_if(is_due)) {
                idle.push((subject.clone(), lease));
            }
        }
        if known.leased == 0 {
            known.settling = None;
            return None;
        }
        known.leased -= idle.len();
        Some(idle)
    }
}

/// It ends once nothing is leased.
pub(super) async fn settle(leases: Arc<Leases>, shared: Arc<Shared>) {
    let round = Duration::from_micros(leases.time).max(MIN_ROUND);
    let mut pause = round;
    loop {
        tokio::time::sleep(pause).await;
        let mut out = HashMap::new();
        let is_out = |subject: &Subject| {
            let slot = shared.servers.slot_of(&subject.queries[0].keys[0]);
            *out.entry(slot).or_insert_with(|| {
                let node = shared.servers.known_node_of(slot).and_then(Result::ok);
                node.is_none_or(|node| node.outage(true).is_some())
            })
        };
        let Some(idle) = leases.idle(&shared, is_out) else {
            return;
        };
        pause = match idle.len() {
            SETTLED_AT_ONCE => MIN_ROUND,
            _ => round,
        };
        for (subject, lease) in idle {
            let (leases, shared) = (Arc::clone(&leases), Arc::clone(&shared));
            tokio::spawn(settle_one(leases, shared, subject, lease));
        }
    }
}

/// Says what was spent of a lease: once, and late is better than never.
async fn settle_one(leases: Arc<Leases>, shared: Arc<Shared>, subject: Subject, lease: Lease) {
    let (keys, mut steps) = (subject.keys(), Vec::new());
    leases.settle(&mut steps, &lease);
    let _changing = shared.changing(&keys[0]);
    let nothing = (Op::Decide, Units::Cost(0));
    let words = [shared.arguments(&*subject.queries, nothing), steps.into()];
    let (script, sent) = (subject.script.leased(), (&keys[..], &words[..]));
    let settled = shared.replies(Some(script), sent, shared.late()).await;
    shared.count_unspent(lease.left, settled.is_ok());
    shared.health.record(&settled, subject.states());
}
