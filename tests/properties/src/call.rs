//! What is asked of the state of one key, wherever it is, and what is told.

use std::any::Any;

use tollgate::{
    Decision, PolicyDecision,
    algorithm::{self, Limit, Override},
};

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// Decide about this cost.
    Check(u32),
    /// Look, as if for this cost.
    Look(u32),
    /// Charge, whether it fits or not.
    Debit(u32),
    /// Give back.
    Refund(u32),
    /// Forget.
    Reset,
    /// Refuse or let through until an instant.
    Override(Override),
    /// End a request that was admitted here.
    End(&'a Admission, Ending),
}

/// What was decided about a request, and what its caller keeps until it ends.
#[derive(Debug)]
pub struct Admission {
    /// What was decided.
    pub decision: Decision,
    /// What each limit in shadow decided, and whether it would have refused.
    pub in_shadow: Vec<(PolicyDecision, bool)>,
    /// What it was asked for.
    pub cost: u32,
    snapshot: Box<dyn Any + Send + Sync>,
}

/// What is told, if it was a decision or a look.
pub type Answer = Option<Admission>;

impl Admission {
    pub(crate) fn of<A: Limit>(algorithm: &A, cost: u32, snapshot: A::Snapshot) -> Answer {
        let mut in_shadow = Vec::new();
        algorithm.shadows_of(&snapshot, &mut |policy, would_refuse| {
            in_shadow.push((policy, would_refuse));
        });
        Some(Self {
            decision: algorithm.decision_of(&snapshot),
            in_shadow,
            cost,
            snapshot: Box::new(snapshot),
        })
    }

    pub(crate) fn snapshot<A: Limit>(&self) -> &A::Snapshot {
        let snapshot = self.snapshot.downcast_ref();
        snapshot.expect("an admission by the same algorithm")
    }
}

/// What was decided, or seen.
pub(crate) fn decided(answer: Answer) -> Decision {
    answer.expect("an answer to a check or a look").decision
}

/// How a request ends that was admitted.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    /// It was dropped before its turn.
    Withdrawn,
    /// It has spent this share of its cost, in quarters.
    Settled(u8),
    /// It has spent nothing, and is no longer in flight.
    Over,
}

impl Ending {
    /// How much of this cost is spent.
    pub fn spent(self, cost: u32) -> u32 {
        let quarters = match self {
            Self::Settled(quarters) => quarters,
            Self::Withdrawn | Self::Over => 0,
        };
        let spent = (u64::from(cost) * u64::from(quarters)).div_ceil(4);
        u32::try_from(spent).unwrap_or(u32::MAX)
    }

    /// What a store is told of it.
    pub(crate) fn told(self, cost: u32) -> Vec<algorithm::Ending> {
        let (held, spent) = (cost, self.spent(cost));
        let settled = algorithm::Ending::Settled { held, spent };
        match self {
            Self::Withdrawn => vec![algorithm::Ending::Withdrawn { cost }],
            Self::Settled(_) => vec![settled],
            Self::Over => vec![settled, algorithm::Ending::Over],
        }
    }
}
