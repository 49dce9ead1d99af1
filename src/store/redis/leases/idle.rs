//! Settles what lies idle.

use std::{sync::Arc, time::Duration};

use crate::store::redis::{Shared, joined::Subject, lock};

use super::{Lease, Leases, Leasing};

/// What lies idle is settled once in a lease time, and no more often than this.
const MIN_ROUND: Duration = Duration::from_millis(10);

/// So many are settled at once, and the others after 10 ms: decisions come between.
const SETTLED_AT_ONCE: usize = 500;

impl Leases {
    /// What lies idle, up to so many; none, if nothing is leased. What cannot be settled now, as
    /// its server is out, is settled later, if it is still held then.
    pub(super) fn idle(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        mut is_out: impl FnMut(&Subject) -> bool,
    ) -> Option<Vec<Leasing>> {
        let mut known = lock(&self.known);
        let due = known.buckets.iter_mut().filter_map(|(subject, bucket)| {
            let is_due = |lease: &mut Lease| {
                let now = shared.stamp(subject);
                let age = now.at.saturating_sub(lease.asked.at);
                let mut is_kept = || age < self.held_for && is_out(subject);
                !shared.can_be_spent(lease, now, self.time) && !is_kept()
            };
            let lease = Some(bucket.lease.take_if(is_due)?);
            Some(Leasing::new(shared, self, subject, (lease, 0)))
        });
        let idle: Vec<_> = due.take(SETTLED_AT_ONCE).collect();
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
        let is_out = |subject: &Subject| shared.is_out(&subject.queries[0].keys[0], true);
        let Some(idle) = leases.idle(&shared, is_out) else {
            return;
        };
        pause = match idle.len() {
            SETTLED_AT_ONCE => MIN_ROUND,
            _ => round,
        };
        for mut settling in idle {
            // Once, and late is better than never.
            tokio::spawn(async move {
                let (shared, subject) = (Arc::clone(&settling.shared), settling.subject.clone());
                let _changing = shared.changing(&subject.queries[0].keys[0]);
                let settled = settling.ask(&[], shared.late()).await;
                shared.health.record(&settled, subject.states());
            });
        }
    }
}
