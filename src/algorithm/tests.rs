//! What holds for every algorithm, and for one that has only the required methods.

use super::*;

/// By hand, and not by the list of all algorithms: the bytes of each state are the claim.
#[test]
fn memory_per_key_is_what_the_table_says() {
    fn bytes<A: Algorithm>() -> usize {
        size_of::<A::State>()
    }
    assert_eq!(
        [
            bytes::<TokenBucket>(),
            bytes::<Gcra>(),
            bytes::<LeakyBucket>(),
        ],
        [24; 3]
    );
    assert_eq!(bytes::<FixedWindow>(), 16);
    let waits = [bytes::<LeakyBucketQueue>(), bytes::<WaitAtMost<Gcra>>()];
    assert_eq!(waits, [24; 2]);
    assert_eq!(bytes::<InFlight>(), 48);
    assert_eq!([bytes::<SlidingLog>(), bytes::<SlidingBuckets>()], [48; 2]);
    assert_eq!(admissions::BYTES_PER_ENTRY, 16);
    assert_eq!(bytes::<SlidingWindow>(), 24);
    assert_eq!(bytes::<MinInterval>(), 8);
    assert_eq!(bytes::<(TokenBucket, FixedWindow)>(), 40);
    assert_eq!(bytes::<Shadow<TokenBucket>>(), bytes::<TokenBucket>() + 8);
    assert_eq!(bytes::<Shadow<InFlight>>(), bytes::<InFlight>() + 8);
    assert_eq!(bytes::<Shadow<MinInterval>>(), 9);
}

/// So many units, which never come back.
#[derive(Debug, Clone)]
struct Allowance(u64);

impl Algorithm for Allowance {
    type State = u64;
    type Snapshot = ();

    fn policy_id(&self) -> PolicyId {
        Policy::new("allowance", &[self.0], Duration::ZERO).id()
    }

    fn fresh(&self, _at: Timestamp) -> u64 {
        0
    }

    fn judge(&self, used: &u64, cost: u32, _now: Timestamp) -> bool {
        used + u64::from(cost) <= self.0
    }

    fn charge(&self, used: &mut u64, cost: u32, now: Timestamp) {
        assert!(cost > 0 && self.judge(used, cost, now), "{cost} of {used}");
        *used += u64::from(cost);
    }

    fn refund(&self, used: &mut u64, cost: u32, _now: Timestamp) {
        *used = used.saturating_sub(u64::from(cost));
    }

    fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool {
        *used == 0
    }

    fn snapshot(&self, _used: &u64, _cost: u32, _admitted: bool, _now: Timestamp) {}

    fn describe(&self, _snapshot: &(), _tell: &mut dyn FnMut(PolicyDecision)) {}
}

#[test]
fn unless_a_rule_says_otherwise_a_debit_charges_what_fits() {
    let now = Timestamp::from_micros(0);
    let most = u64::from(u32::MAX);
    for limit in [0, 1, 2, 3, 9, 1_000, most, most + 5] {
        let rule = Allowance(limit);
        for units in [1, 2, 3, 7, 8, 9, 10, most - 1, most, u64::MAX] {
            let (mut used, at_once) = (0, units.min(most));
            for debits in 1..=3 {
                rule.debit(&mut used, units, now);
                assert_eq!(used, limit.min(at_once * debits), "{units} of {limit}");
            }
        }
    }
}

#[test]
fn unless_a_rule_says_otherwise_it_holds_nothing() {
    assert!(!Allowance(3).holds(&1, &()));
}
