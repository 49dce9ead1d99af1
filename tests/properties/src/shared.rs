//! A limiter over a store that many processes share, for one key.

use std::{future::Future, pin::Pin};

use tollgate::{
    Decision, OneKey, PolicyDecision, RateLimiter, StoreError, Timestamp,
    algorithm::{KeyLimit, Limit, Policy, PolicyId, Script, ScriptReply, Scripted},
    store::RedisStore,
};

/// A future of a store elsewhere.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The public face for one key, over a store that answers later.
pub trait SharedLimiter: Send + Sync {
    /// `check_cost`.
    fn check(&self, cost: u32) -> Coming<'_, Decision>;
    /// `peek`.
    fn peek(&self) -> Coming<'_, Decision>;
    /// `debit`.
    fn debit(&self, units: u32) -> Coming<'_, ()>;
    /// `refund`.
    fn refund(&self, cost: u32) -> Coming<'_, ()>;
    /// `reset`.
    fn reset(&self) -> Coming<'_, ()>;
}

pub(crate) fn limiter_over<A: Scripted>(
    rule: A,
    id: PolicyId,
    store: RedisStore,
    key: String,
) -> Box<dyn SharedLimiter> {
    let limiter = RateLimiter::new(KnownAs { rule, id }, store);
    Box::new(Keyed { limiter, key })
}

struct Keyed<A> {
    limiter: RateLimiter<KnownAs<A>, RedisStore>,
    key: String,
}

impl<A: Scripted> SharedLimiter for Keyed<A> {
    fn check(&self, cost: u32) -> Coming<'_, Decision> {
        Box::pin(self.limiter.check_cost(&*self.key, cost))
    }

    fn peek(&self) -> Coming<'_, Decision> {
        Box::pin(self.limiter.peek(&*self.key))
    }

    fn debit(&self, units: u32) -> Coming<'_, ()> {
        Box::pin(self.limiter.debit(&*self.key, units))
    }

    fn refund(&self, cost: u32) -> Coming<'_, ()> {
        Box::pin(self.limiter.refund(&*self.key, cost))
    }

    fn reset(&self) -> Coming<'_, ()> {
        Box::pin(self.limiter.reset(&*self.key))
    }
}

/// A rule with the buckets of another policy: what `named` does, for any algorithm of the list.
#[derive(Clone)]
struct KnownAs<A> {
    rule: A,
    id: PolicyId,
}

impl<A: KeyLimit> Limit for KnownAs<A> {
    type Snapshot = A::Snapshot;
    type Keys = OneKey;

    const SETTLES: bool = false;
    const IN_FLIGHT: bool = false;

    fn each_policy(&self, tell: &mut dyn FnMut(&Policy)) {
        self.rule.each_policy(tell);
    }

    fn policy_id(&self) -> PolicyId {
        self.id
    }

    fn describe(&self, snapshot: &A::Snapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        self.rule.describe(snapshot, tell);
    }
}

impl<A: KeyLimit> KeyLimit for KnownAs<A> {
    type State = A::State;

    fn fresh(&self, at: Timestamp) -> A::State {
        self.rule.fresh(at)
    }

    fn judge(&self, state: &A::State, cost: u32, now: Timestamp) -> bool {
        self.rule.judge(state, cost, now)
    }

    fn charge(&self, state: &mut A::State, cost: u32, now: Timestamp) {
        self.rule.charge(state, cost, now);
    }

    fn debit(&self, state: &mut A::State, units: u64, now: Timestamp) {
        self.rule.debit(state, units, now);
    }

    fn refund(&self, state: &mut A::State, cost: u32, now: Timestamp) {
        self.rule.refund(state, cost, now);
    }

    fn is_fresh(&self, state: &A::State, now: Timestamp) -> bool {
        self.rule.is_fresh(state, now)
    }

    fn snapshot(&self, state: &A::State, cost: u32, admitted: bool, now: Timestamp) -> A::Snapshot {
        self.rule.snapshot(state, cost, admitted, now)
    }

    fn inherit(&self, shared: &A::State, now: Timestamp) -> A::State {
        self.rule.inherit(shared, now)
    }
}

impl<A: Scripted> Scripted for KnownAs<A> {
    fn script() -> Script {
        A::script()
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        self.rule.parameters(tell);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<A::State> {
        self.rule.state(at, numbers)
    }

    fn numbers(&self, state: &A::State, at: Timestamp, tell: &mut dyn FnMut(u64)) {
        self.rule.numbers(state, at, tell);
    }

    fn admission(&self, admission: &A::Snapshot, tell: &mut dyn FnMut(u64)) {
        self.rule.admission(admission, tell);
    }

    fn read(&self, reply: &mut ScriptReply) -> Option<A::Snapshot> {
        self.rule.read(reply)
    }
}
