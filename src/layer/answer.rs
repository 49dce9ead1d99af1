//! The answers in the inner service's place: to requests that are refused or have no key.

use std::any::Any;

use crate::{
    decision::{Decision, PolicyDecision},
    key::Rejection,
    logged_once::LoggedOnce,
    response::{Reason, Refusal, Respond},
};

use super::Options;

impl<C, R, X, E, D, Z, N, W> Options<C, R, X, E, D, Z, N, W> {
    /// Answers a request that was refused.
    #[cold]
    pub(super) fn refuse<Req, Res, Err>(
        &self,
        request: &Req,
        key: &(dyn Any + Send + Sync),
        mut decision: Decision,
    ) -> Result<Res, R::Error>
    where
        R: Respond<Req, Res, Err>,
    {
        decision.resolve();
        warn_of_bursts_of_zero(&decision);
        let refusal = Refusal::new(Reason::Limited(&decision)).with_key(key);
        self.respond.answer(request, refusal)
    }

    /// Logs that a request would have been refused, if its limit were enforced.
    #[cold]
    pub(super) fn would_refuse(&self, mut decision: Decision) {
        decision.resolve();
        warn_of_bursts_of_zero(&decision);
        tell_of_rehearsal(&decision);
    }

    /// Answers a request whose key extractor rejected it.
    #[cold]
    pub(super) fn reject<Req, Res, Err>(
        &self,
        request: &Req,
        rejection: impl Rejection,
    ) -> Result<Res, R::Error>
    where
        R: Respond<Req, Res, Err>,
    {
        let rejection = rejection.into_response();
        let refusal = Refusal::new(Reason::Rejected(&rejection));
        self.respond.answer(request, refusal)
    }
}

/// Logs once for each policy that it would refuse requests.
fn tell_of_rehearsal(decision: &Decision) {
    static TOLD: LoggedOnce = LoggedOnce::new();

    for policy in decision.policies() {
        if !policy.is_admitted() && TOLD.is_new(policy.policy()) {
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
fn warn_of_bursts_of_zero(decision: &Decision) {
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
