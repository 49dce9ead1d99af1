//! A state that is kept as numbers, anywhere, is the same state.

use proptest::{prelude::*, sample::Index};
use tollgate::algorithm::{FixedWindow, SlidingLog, TokenBucket};
use tollgate_properties::{
    conformance::every_algorithm,
    for_all,
    history::{Op, any_history_with_debits},
    model::{Counts, debt_bucket, fixed_window, sliding_log},
    numbers::{Numbers, numbers, small},
    replay::wait_of,
    subject::{Admission, Bucket, Ending, Subject},
};

/// Every algorithm, and what holds units or places, or is in shadow.
fn every_limit(numbers: &Numbers) -> Vec<Subject> {
    let Numbers {
        units,
        period,
        burst,
        ..
    } = *numbers;
    let (quota, held_at_most) = (numbers.quota(), numbers.interval());
    let bucket = TokenBucket::new(quota).burst(burst);
    let settled = bucket.clone().settled().held_at_most(held_at_most);
    let window = FixedWindow::new(quota).settled().held_at_most(held_at_most);
    let log = SlidingLog::new(quota).settled().held_at_most(held_at_most);
    let of_bucket = || [debt_bucket(units, period, burst)];
    let of_window = || [fixed_window(units, period)];
    let of_log = || [sliding_log(units, period)];
    let mut all = every_algorithm(numbers);
    all.extend([
        Subject::without_limiters("settled token bucket", settled.clone(), of_bucket()),
        Subject::without_limiters("settled fixed window", window.clone(), of_window()),
        Subject::without_limiters("settled sliding log", log.clone(), of_log()),
        Subject::without_limiters("shadow of a token bucket", bucket.shadow(), of_bucket()),
        Subject::without_limiters(
            "shadow of a settled token bucket",
            settled.shadow(),
            of_bucket(),
        ),
        Subject::without_limiters(
            "shadow of a settled sliding log",
            log.clone().shadow(),
            of_log(),
        ),
        Subject::without_limiters(
            "(settled sliding log, shadow of a settled fixed window)",
            (log, window.shadow()),
            [sliding_log(units, period), fixed_window(units, period)],
        ),
    ]);
    all
}

/// The plans that may share a state with the first, for the limit of this index.
fn of_one_shape(plans: &[Numbers], index: usize) -> Vec<Subject> {
    let shape = |subject: &Subject| -> Vec<Vec<i128>> {
        subject.models.iter().map(|model| model.shape()).collect()
    };
    let all = plans
        .iter()
        .map(|plan| every_limit(plan).swap_remove(index));
    let mut all: Vec<Subject> = all.collect();
    let of_the_first = shape(&all[0]);
    all.retain(|subject| shape(subject) == of_the_first);
    if all[0].name.contains("settled") {
        // What ends is spent by the numbers of whoever writes, and is rounded up by those.
        all.truncate(1);
    }
    all
}

fn plans() -> impl Strategy<Value = (Vec<Numbers>, Vec<u8>)> {
    let some = prop_oneof![
        1 => prop::collection::vec(small(), 1..=4),
        1 => prop::collection::vec(numbers(), 1..=3),
    ];
    (some, prop::collection::vec(any::<u8>(), 80))
}

fn holds_back(subject: &Subject) -> bool {
    let mut models = subject.models.iter();
    models.any(|model| model.bound(1).counts == Counts::Releases)
}

/// For each step, which of the requests that were admitted ends after it, and how.
fn endings() -> impl Strategy<Value = Vec<Option<(Index, Ending)>>> {
    let ending = prop_oneof![
        2 => Just(Ending::Withdrawn),
        1 => (0..=9_u8).prop_map(Ending::Settled),
        1 => Just(Ending::Over),
    ];
    prop::collection::vec(prop::option::of((any::<Index>(), ending)), 1..80)
}

/// Writes the state under the numbers of before, and reads it under these.
fn written_and_read(
    state: &dyn Bucket,
    subject: &Subject,
    now: i128,
) -> Result<Box<dyn Bucket>, TestCaseError> {
    let told = state.told(now);
    let made = subject.bucket.made_of(now, &told);
    made.ok_or_else(|| TestCaseError::fail(format!("{}: {told:?} is no state", subject.name)))
}

#[test]
fn a_state_that_is_written_as_numbers_and_read_again_at_each_step_decides_as_before() {
    let values = (plans(), any_history_with_debits(), endings());
    for_all(values, |((plans, turns), history, endings)| {
        for index in 0..every_limit(&plans[0]).len() {
            let all = of_one_shape(&plans, index);
            let is_a_queue = all.iter().any(holds_back);
            let mut bucket = all[0].bucket.fork();
            bucket.forget(0);
            let mut elsewhere = bucket.fork();
            // Each with its plan.
            let mut admitted: Vec<(usize, [Admission; 2])> = Vec::new();
            let (mut now, mut wait) = (history.start, 0);
            for (at, step) in history.steps.iter().enumerate() {
                let plan = usize::from(turns[at % turns.len()]) % plans.len() % all.len();
                let subject = &all[plan];
                // What is told is as of an instant, which no later one comes before.
                now = step.turn.of(now, wait, subject).max(now);
                bucket = bucket.with_the_numbers_of(&*subject.bucket);
                elsewhere = written_and_read(&*elsewhere, subject, now)?;
                match step.op {
                    Op::Check(asked) => {
                        let cost = asked.of(subject.limit());
                        let both = [&mut bucket, &mut elsewhere].map(|it| it.admit(cost, now));
                        let [told, again] = both.each_ref().map(|it| (&it.decision, &it.in_shadow));
                        prop_assert_eq!(again, told, "{}, plan {}", subject.name, plan);
                        wait = wait_of(told.0);
                        if told.0.is_admitted() {
                            admitted.push((plan, both));
                        }
                    }
                    Op::Debit(asked) => {
                        let units = asked.of(subject.limit());
                        if units > 0 {
                            bucket.debit(units, now);
                            elsewhere.debit(units, now);
                        }
                    }
                    Op::Refund(asked) => {
                        let cost = asked.of(subject.limit());
                        bucket.refund(cost, now);
                        elsewhere.refund(cost, now);
                    }
                    Op::Peek | Op::Reset => {
                        let looks = [&elsewhere, &bucket].map(|it| it.peek(1, now));
                        prop_assert_eq!(&looks[0], &looks[1], "{}", subject.name);
                    }
                }
                let ended = endings[at % endings.len()].filter(|_| !admitted.is_empty());
                // Dropped requests that a queue remembers are not told.
                let ended =
                    ended.filter(|(_, ending)| !is_a_queue || !matches!(ending, Ending::Withdrawn));
                if let Some((which, ending)) = ended {
                    let (plan, both) = admitted.swap_remove(which.index(admitted.len()));
                    let subject = &all[plan];
                    bucket = bucket.with_the_numbers_of(&*subject.bucket);
                    elsewhere = written_and_read(&*elsewhere, subject, now)?;
                    bucket.end(&both[0], ending, now);
                    elsewhere.end(&both[1], ending, now);
                }
                let fresh = [&elsewhere, &bucket].map(|it| it.is_fresh(now));
                prop_assert_eq!(fresh[0], fresh[1], "{} is fresh", subject.name);
            }
        }
        Ok(())
    });
}

#[test]
fn numbers_that_are_no_state_are_refused_or_decided_without_a_panic() {
    let changes = prop::collection::vec((any::<Index>(), any::<u64>(), 0..64_u32), 0..4);
    let values = (
        plans(),
        any_history_with_debits(),
        endings(),
        changes,
        any::<u8>(),
    );
    for_all(
        values,
        |((plans, turns), history, endings, changes, cut)| {
            for index in 0..every_limit(&plans[0]).len() {
                let all = of_one_shape(&plans, index);
                let mut bucket = all[0].bucket.fork();
                bucket.forget(0);
                let mut admitted: Vec<Admission> = Vec::new();
                let mut now = history.start;
                for (at, step) in history.steps.iter().enumerate() {
                    let plan = usize::from(turns[at % turns.len()]) % plans.len() % all.len();
                    let subject = &all[plan];
                    now = step.turn.of(now, 0, subject).max(now);
                    bucket = bucket.with_the_numbers_of(&*subject.bucket);
                    if let Op::Check(asked) = step.op {
                        let admission = bucket.admit(asked.of(subject.limit()), now);
                        if admission.decision.is_admitted() {
                            admitted.push(admission);
                        }
                    }
                    let ended = endings[at % endings.len()].filter(|_| !admitted.is_empty());
                    if let Some((which, ending)) = ended {
                        let admission = admitted.swap_remove(which.index(admitted.len()));
                        bucket.end(&admission, ending, now);
                    }
                }
                let mut told = bucket.told(now);
                for (which, number, shift) in &changes {
                    let at = which.index(told.len());
                    told[at] = number >> shift;
                }
                if cut < 20 {
                    told.truncate(told.len() * usize::from(cut) / 20);
                }
                for plan in &all {
                    if let Some(mut made) = plan.bucket.made_of(now, &told) {
                        for cost in [0, 1, u32::MAX] {
                            let told = made.admit(cost, now);
                            let in_shadow =
                                told.in_shadow.iter().map(|(policy, _)| policy.remaining());
                            let decided = [told.decision.remaining()]
                                .into_iter()
                                .filter(|_| told.in_shadow.is_empty());
                            for remaining in in_shadow.chain(decided) {
                                prop_assert!(remaining <= plan.limit());
                            }
                            let _ = (told.decision.retry_after(), told.decision.reset_after());
                        }
                        for ending in [Ending::Withdrawn, Ending::Settled(9), Ending::Over] {
                            for admission in &admitted {
                                made.end(admission, ending, now);
                            }
                        }
                        made.refund(3, now);
                        made.check(1, now + 1);
                    }
                }
            }
            Ok(())
        },
    );
}
