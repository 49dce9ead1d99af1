//! A state that is kept as numbers, anywhere, is the same state.

use proptest::{prelude::*, sample::Index};
use tollgate::algorithm::{FixedWindow, SlidingLog, TokenBucket};
use tollgate_properties::{
    alike::{self, Story, decides_as_the_rule},
    call::{Admission, Call, Ending},
    conformance::every_algorithm,
    for_all,
    history::{Op, any_history_with_debits},
    model::{Counts, debt_bucket, fixed_window, sliding_log},
    numbers::{Numbers, numbers, small},
    subject::Subject,
};

/// Every algorithm, and what holds units or places, or is in shadow.
#[rustfmt::skip]
fn every_limit(numbers: &Numbers) -> Vec<Subject> {
    let (units, period) = (numbers.units, numbers.period);
    let (quota, held_at_most) = (numbers.quota(), numbers.interval());
    let bucket = TokenBucket::new(quota).burst(numbers.burst);
    let settled = bucket.clone().settled().held_at_most(held_at_most);
    let window = FixedWindow::new(quota).settled().held_at_most(held_at_most);
    let log = SlidingLog::new(quota).settled().held_at_most(held_at_most);
    let of_bucket = || [debt_bucket(units, period, numbers.burst)];
    let of_window = || [fixed_window(units, period)];
    let of_log = || [sliding_log(units, period)];
    let mut all = every_algorithm(numbers);
    all.extend([
        Subject::without_limiter("settled token bucket", settled.clone(), of_bucket()),
        Subject::without_limiter("settled fixed window", window.clone(), of_window()),
        Subject::without_limiter("settled sliding log", log.clone(), of_log()),
        Subject::without_limiter("shadow of a token bucket", bucket.shadow(), of_bucket()),
        Subject::without_limiter("shadow of a settled token bucket", settled.shadow(), of_bucket()),
        Subject::without_limiter("shadow of a settled sliding log", log.clone().shadow(), of_log()),
        Subject::without_limiter(
            "(settled sliding log, shadow of a settled fixed window)",
            (log, window.shadow()),
            [sliding_log(units, period), fixed_window(units, period)],
        ),
    ]);
    all
}

/// The plans that may share a state with the first, for the limit of this index.
fn of_one_shape(plans: &[Numbers], index: usize) -> Vec<Subject> {
    let all = plans.iter();
    let mut all: Vec<Subject> = all
        .map(|plan| every_limit(plan).swap_remove(index))
        .collect();
    let of_the_first = all[0].shape();
    all.retain(|subject| subject.shape() == of_the_first);
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

fn endings() -> impl Strategy<Value = Vec<Option<(Index, Ending)>>> {
    alike::endings(prop_oneof![
        2 => Just(Ending::Withdrawn),
        1 => (0..=9_u8).prop_map(Ending::Settled),
        1 => Just(Ending::Over),
    ])
}

#[test]
fn a_state_that_is_written_as_numbers_and_read_again_at_each_step_decides_as_before() {
    let values = (plans(), any_history_with_debits(), endings());
    for_all(values, |((plans, turns), mut history, endings)| {
        // A key that is reset is another state.
        (history.steps).retain(|step| !matches!(step.op, Op::Reset));
        for index in 0..every_limit(&plans[0]).len() {
            let all = of_one_shape(&plans, index);
            let mut endings = endings.clone();
            if all.iter().any(holds_back) {
                // Dropped requests that a queue remembers are not told.
                let is_told = |it: &(_, Ending)| !matches!(it.1, Ending::Withdrawn);
                endings.iter_mut().for_each(|it| *it = it.filter(is_told));
            }
            let story = Story {
                turns: &turns,
                endings: &endings,
                // What is told is as of an instant, which no later one comes before.
                steps_back: false,
                ..Story::of(&history)
            };
            let mut state = all[0].bucket.fork();
            state.forget(0);
            // Written by the numbers of before, and read by those of the step.
            decides_as_the_rule(&all, &story, &mut |plan, call, now, rule| {
                let (plan, told) = (&all[plan], state.told(now));
                let made = plan.bucket.made_of(now, &told);
                let no_state = || TestCaseError::fail(format!("{}: {told:?} is none", plan.name));
                state = made.ok_or_else(no_state)?;
                let answer = match call {
                    Call::Debit(0) => None,
                    call => state.ask(call, now),
                };
                prop_assert_eq!(state.is_fresh(now), rule.is_fresh(now), "{}", plan.name);
                Ok(answer)
            })?;
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
                    if let Op::Check(_) = step.op {
                        let admission = bucket.ask(step.op.call(subject.limit()), now);
                        admitted.extend(admission.filter(|it| it.decision.is_admitted()));
                    }
                    let ended = endings[at % endings.len()].filter(|_| !admitted.is_empty());
                    if let Some((which, ending)) = ended {
                        let admission = admitted.swap_remove(which.index(admitted.len()));
                        bucket.ask(Call::End(&admission, ending), now);
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
                            let told = made.ask(Call::Check(cost), now).expect("a decision");
                            let in_shadow = told.in_shadow.iter();
                            let mut left: Vec<_> = in_shadow.map(|it| it.0.remaining()).collect();
                            if left.is_empty() {
                                left.push(told.decision.remaining());
                            }
                            prop_assert!(left.iter().all(|left| *left <= plan.limit()));
                            let _ = (told.decision.retry_after(), told.decision.reset_after());
                        }
                        for ending in [Ending::Withdrawn, Ending::Settled(9), Ending::Over] {
                            for admission in &admitted {
                                made.ask(Call::End(admission, ending), now);
                            }
                        }
                        made.ask(Call::Refund(3), now);
                        made.check(1, now + 1);
                    }
                }
            }
            Ok(())
        },
    );
}
