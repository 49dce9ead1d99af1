//! What is logged about a limit that refuses.

use crate::{
    decision::{Decision, PolicyDecision},
    logged_once::LoggedOnce,
};

/// Logs once for each policy that it would refuse requests.
pub(super) fn warn_of_rehearsal(decision: &Decision) {
    static WARNED: LoggedOnce = LoggedOnce::new();

    for policy in decision.policies() {
        if !policy.is_admitted() && WARNED.is_new(policy.policy()) {
            tracing::warn!(
                name: "layer.would_refuse",
                target: "tollgate::layer",
                policy = policy.policy(),
                "this limit would have refused a request, but is not enforced"
            );
        }
    }
}

/// Logs once for each policy that its burst or capacity is 0: that is legal, but may have been
/// meant as "no bursts".
///
/// A quota of 0 units is clear, and needs no warning. It has a window; a burst of 0 has none.
pub(super) fn warn_of_bursts_of_zero(decision: &Decision) {
    static WARNED: LoggedOnce = LoggedOnce::new();

    let is_zero = |policy: &&PolicyDecision| policy.limit() == 0 && policy.window().is_zero();
    for policy in decision.policies().iter().filter(is_zero) {
        if WARNED.is_new(policy.policy()) {
            tracing::warn!(
                name: "layer.nothing_let_through",
                target: "tollgate::layer",
                policy = policy.policy(),
                "a limit with a burst or a capacity of 0 refuses every request: with 1 it admits them one by one"
            );
        }
    }
}
