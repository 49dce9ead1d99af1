//! The decision where every limit is in shadow.

use std::sync::{Arc, LazyLock};

use super::{Decision, Judgement, LazyStatus, OneOrSeveral, PolicyDecision, Several, Status};

impl Decision {
    /// Admitted, without a limit.
    pub(crate) fn of_no_policy() -> Self {
        static ADMITTED: LazyLock<Arc<Several>> = LazyLock::new(|| {
            let unlimited = Status {
                remaining: u64::MAX,
                judgement: Judgement::Admitted,
                replenished_after_micros: 0,
                reset_after_micros: 0,
                delay_micros: 0,
            };
            let none = PolicyDecision {
                policy: "none".into(),
                limit: u64::MAX,
                window_micros: 0,
                status: LazyStatus::Known(unlimited),
                counts_in_flight: false,
                is_degraded: false,
            };
            Arc::new(Several {
                policies: vec![none],
                told: 0,
            })
        });
        Self(OneOrSeveral::Several(Arc::clone(&ADMITTED)))
    }
}
