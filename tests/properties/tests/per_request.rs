//! A limit that counts requests decides as its algorithm does about a cost of 1.

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::algorithm::*;
use tollgate_algorithms::every_algorithm;
use tollgate_properties::{
    for_all,
    history::{History, Op, any_history},
    model::*,
    numbers::{Numbers, numbers},
    replay::wait_of,
    subject::Subject,
};

/// Every algorithm counting requests, and beside it the algorithm itself.
fn pairs(numbers: &Numbers) -> Vec<[Subject; 2]> {
    let (quota, burst) = (numbers.quota(), numbers.burst);
    let (step, gap) = (numbers.precision(), numbers.interval());
    macro_rules! both {
        ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {
            vec![$({
                let model = || [$model($(numbers.$number),*)];
                let requests = PerRequest::new($algorithm);
                [Subject::new($name, requests, model()), Subject::new($name, $algorithm, model())]
            }),+]
        };
    }
    every_algorithm!(both, quota, burst, step, gap)
}

/// Both take the same steps, but the plain one with costs of at most 1: they say the same, and keep
/// the same.
fn decide_alike([requests, plain]: &[Subject; 2], history: &History) -> TestCaseResult {
    let (mut one, mut other) = (requests.bucket.fork(), plain.bucket.fork());
    let (mut now, mut own, mut wait) = (history.start, 0, 0);
    for (at, step) in history.steps.iter().enumerate() {
        now = step.turn.of(now, wait, plain);
        own = own.max(now);
        let (left, right) = match step.op {
            Op::Check(cost) => {
                let cost = cost.of(plain.limit());
                (one.check(cost, now), other.check(cost.min(1), now))
            }
            Op::Peek => (one.peek(7, now), other.peek(1, now)),
            Op::Refund(cost) => {
                let cost = cost.of(plain.limit());
                one.refund(cost, now);
                other.refund(cost.min(1), now);
                (one.peek(0, now), other.peek(0, now))
            }
            Op::Debit(cost) => {
                let cost = cost.of(plain.limit());
                one.debit(cost, now);
                other.debit(cost.min(1), now);
                (one.peek(0, now), other.peek(0, now))
            }
            Op::Reset => {
                one.forget(0);
                other.forget(0);
                (one.peek(0, now), other.peek(0, now))
            }
        };
        wait = wait_of(&left);
        prop_assert_eq!(left, right, "{} at {}, step {}", plain.name, now, at);
        prop_assert_eq!(one.told(own), other.told(own), "{}", plain.name);
    }
    Ok(())
}

#[test]
fn a_request_is_charged_1_whatever_it_costs_by_every_algorithm() {
    for_all((numbers(), any_history()), |(numbers, history)| {
        let pairs = pairs(&numbers);
        pairs
            .iter()
            .try_for_each(|pair| decide_alike(pair, &history))
    });
}

/// The last in line leaves a queue with what it was charged, and not with what it cost.
#[test]
fn who_leaves_a_queue_gives_one_place_back() {
    let quota = tollgate::Quota::per_second(10);
    let queue = LeakyBucket::new(quota).queue().per_request();
    let now = tollgate::Timestamp::from_micros(1_000_000);
    let mut state = queue.fresh(now);
    let (first, _) = queue.step(&mut state, 5, now);
    let (second, admission) = queue.step(&mut state, 5, now);
    assert!(first && second);
    queue.withdraw(&mut state, &admission, 5, now);
    let (_, left) = queue.look(&state, 1, now);
    assert_eq!(queue.decision(&left).remaining(), 9);
}
