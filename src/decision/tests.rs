use super::*;
use crate::policy::Policy;

const MINUTE: Duration = Duration::from_secs(60);

fn policy(name: &str, limit: u64, window: Duration) -> Policy {
    let policy = Policy::new("x", &[limit], window);
    policy.named(name).unwrap()
}

fn status(remaining: u64, judgement: Judgement) -> Status {
    Status {
        remaining,
        judgement,
        replenished_after_micros: 2_000_000,
        reset_after_micros: 3_000_000,
        delay_micros: 0,
    }
}

fn decided(name: &str, remaining: u64, judgement: Judgement) -> PolicyDecision {
    PolicyDecision::new(&policy(name, 10, MINUTE), status(remaining, judgement))
}

#[test]
fn what_never_fits_binds_before_a_wait_and_that_before_what_is_left() {
    let policies = [
        decided("little", 1, Judgement::Admitted),
        decided("none", 0, Judgement::Admitted),
        decided("short", 9, Judgement::RefusedForMicros(1)),
        decided("long", 9, Judgement::RefusedForMicros(u64::MAX)),
        decided("hopeless", 9, Judgement::NeverFits),
    ];
    for (weaker, stronger) in policies.iter().zip(&policies[1..]) {
        for pair in [[weaker, stronger], [stronger, weaker]] {
            let together = Decision::of_all(pair.map(PolicyDecision::clone).into());
            assert_eq!(together.policy(), stronger.policy());
            assert_eq!(together.never_fits(), stronger.never_fits());
            assert_eq!(together.retry_after(), stronger.retry_after());
            assert_eq!(together.is_admitted(), stronger.is_admitted());
        }
    }
}

#[cfg(feature = "layer")]
#[test]
fn what_is_freed_is_left_up_to_the_limit_and_no_wait_is_told_where_all_is_there() {
    let decided = || decided("a", 4, Judgement::Admitted);
    assert_eq!(decided().once_settled(3, 0), decided(), "nothing is held");
    let freed = |units| {
        let holds = decided().counting(Counts::HeldUnits);
        holds.once_settled(u32::MAX, u32::MAX - units)
    };
    assert_eq!(freed(0), decided());
    let beyond = |spent| decided().counting(Counts::HeldUnits).once_settled(1, spent);
    assert_eq!(beyond(4).remaining(), 1, "more was spent than was held");
    assert_eq!(beyond(9).remaining(), 0);
    let requests = || decided().counting(Counts::HeldRequests);
    assert_eq!(requests().once_settled(9, 1), decided());
    assert_eq!(requests().once_settled(9, 0).remaining(), 5);
    let some = freed(5);
    assert_eq!(some.remaining(), 9);
    assert_eq!(some.replenished_after(), Duration::from_secs(2));
    assert_eq!(some.reset_after(), Duration::from_secs(3));
    for all in [6, 7, u32::MAX].map(freed) {
        assert_eq!(all.remaining(), 10);
        assert_eq!(all.replenished_after(), Duration::ZERO);
        assert_eq!(all.reset_after(), Duration::ZERO);
    }
}

#[test]
fn decisions_are_equal_if_all_that_they_say_of_each_policy_is() {
    let of = |name, remaining| {
        let first = decided("first", 5, Judgement::Admitted);
        let second = decided(name, remaining, Judgement::Admitted);
        Decision::of_all(vec![first, second])
    };
    assert_eq!(of("second", 5), of("second", 5));
    assert_ne!(of("second", 5), of("other", 5));
    assert_ne!(of("second", 5), of("second", 4));
    let first = Decision::of_one(decided("first", 5, Judgement::Admitted));
    assert_ne!(first, of("second", 5));
}
