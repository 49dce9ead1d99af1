//! What must hold of a limit in shadow, over any store.

use std::time::Duration;

use tollgate::{
    EachOf, PolicyDecision, Quota, RateLimiter,
    algorithm::{KeyLimit, Limit, Shadow, TokenBucket},
    clock::ManualClock,
    key::Key,
    store::{Ask, Store, Verdict},
};

pub(crate) use crate::steps::{START, steps};

/// The enforced limit. It refuses about as often as those in shadow would.
pub(crate) fn gate() -> TokenBucket {
    TokenBucket::new(Quota::per_second(12))
        .burst(9)
        .named("gate")
}

/// The status of the only limit in shadow, and whether it would have refused.
pub(crate) fn shadow_of<A: KeyLimit>(limits: &A, snapshot: &A::Snapshot) -> (PolicyDecision, bool) {
    let mut all = Vec::new();
    limits.shadows_of(snapshot, &mut |policy, would_refuse| {
        all.push((policy, would_refuse));
    });
    assert_eq!(all.len(), 1);
    all.remove(0)
}

async fn asked<L: Limit, K: Key, S: Store<L, K>>(
    store: &S,
    limit: &L,
    key: &K,
    ask: Ask,
) -> Verdict<L::Snapshot> {
    store.decide(limit, key, ask).wait().await.unwrap()
}

/// Beside an enforced limit the shadow has the status that it has alone, over exactly what that
/// limit admits; and that limit decides as if it were alone.
pub(crate) async fn stands_as_if_alone<A, Both, Alone, Gate>(
    name: &str,
    (algorithm, shadow): (A, Shadow<A>),
    (both, alone, gate_alone): (Both, Alone, Gate),
    clock: &ManualClock,
    count: usize,
) where
    A: KeyLimit,
    Both: Store<(TokenBucket, Shadow<A>), ()>,
    Alone: Store<A, ()>,
    Gate: Store<TokenBucket, ()>,
{
    let limits = (gate(), shadow);
    let plain = RateLimiter::new(algorithm.clone(), alone.clone());
    let gate = RateLimiter::new(gate(), gate_alone);
    let (mut refused, mut would_refuse) = (0, 0);
    for (passes, cost) in steps(count) {
        clock.advance(Duration::from_micros(passes));
        let verdict = asked(&both, &limits, &(), Ask::Charge(cost)).await;
        let decision = limits.decision_of(&verdict.snapshot);
        assert_eq!(
            decision,
            gate.check_cost(&(), cost).await.unwrap(),
            "{name}"
        );
        let (told, refuses) = shadow_of(&limits, &verdict.snapshot);
        let mut charged = None;
        match verdict.admitted {
            true => {
                let decision = plain.check_cost(&(), cost).await.unwrap();
                assert_eq!(refuses, !decision.is_admitted(), "{name}");
                would_refuse += u32::from(refuses);
                charged = decision.is_admitted().then_some(decision);
            }
            false => {
                assert!(!refuses, "{name}");
                refused += 1;
            }
        }
        let stands = asked(&both, &limits, &(), Ask::Look(0)).await;
        let expected = asked(&alone, &algorithm, &(), Ask::Look(0)).await;
        let expected = algorithm.decision_of(&expected.snapshot).policies()[0].clone();
        assert_eq!(
            shadow_of(&limits, &stands.snapshot),
            (expected.clone(), false),
            "{name}"
        );
        let expected = charged.map_or(expected, |decision| decision.policies()[0].clone());
        assert_eq!(told, expected, "{name}");
    }
    let several = count as u32 / 50..count as u32;
    assert!(several.contains(&refused), "{name}: {refused}");
    assert!(several.contains(&would_refuse), "{name}: {would_refuse}");
}

/// The same where each limit has a key of its own.
pub(crate) async fn stands_as_if_alone_by_its_key<A, Both, Alone>(
    name: &str,
    (algorithm, shadow): (A, Shadow<A>),
    (both, alone): (Both, Alone),
    clock: &ManualClock,
    count: usize,
) where
    A: KeyLimit,
    Both: Store<EachOf<(TokenBucket, Shadow<A>)>, EachOf<(Option<u32>, Option<u32>)>>,
    Alone: Store<A, u32>,
{
    let limits = EachOf((gate(), shadow));
    let plain = RateLimiter::new(algorithm.clone(), alone.clone());
    for (step, (passes, cost)) in (0_u32..).zip(steps(count)) {
        clock.advance(Duration::from_micros(passes));
        let key = step % 2;
        let keys = EachOf((Some(step % 3), Some(key)));
        let verdict = asked(&both, &limits, &keys, Ask::Charge(cost)).await;
        if verdict.admitted {
            plain.check_cost(&key, cost).await.unwrap();
        }
        let stands = asked(&both, &limits, &keys, Ask::Look(0)).await;
        let expected = asked(&alone, &algorithm, &key, Ask::Look(0)).await;
        let expected = algorithm.decision_of(&expected.snapshot).policies()[0].clone();
        let stands = stands.snapshot.1.expect("its key is there");
        assert_eq!(shadow_of(&limits.0.1, &stands), (expected, false), "{name}");
    }
}
