//! A key that is refused, or let through, until an instant, wherever its state is.

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{Decision, Timestamp, algorithm::Override};

use crate::{
    alike::Rule,
    call::Call,
    history::{History, Op, Turn, forward, forward_history_with_debits},
    replay::wait_of,
    subject::{Subject, instant},
};

/// A history in which time moves forward, and before some steps what is said of the key: whether it
/// is let through, and until when.
pub fn overridden_history() -> impl Strategy<Value = (History, Vec<Option<(bool, Turn)>>)> {
    let told = prop::option::weighted(0.2, (any::<bool>(), forward()));
    (
        forward_history_with_debits(),
        prop::collection::vec(told, 80),
    )
}

/// From here on a queue could promise instants that no script can write.
const TOO_LATE: i128 = Timestamp::MAX.as_micros() as i128 / 2;

/// Asks about a key at an instant.
pub type Ask<'a> = &'a mut dyn FnMut(Call<'_>, i128) -> Result<Option<Decision>, TestCaseError>;

/// A key is refused or let through as it was said last, and decided about by a fresh state from
/// that instant on.
///
/// # Errors
///
/// It is not.
pub fn decides_as_was_said(
    subject: &Subject,
    (history, told): (&History, &[Option<(bool, Turn)>]),
    ask: Ask<'_>,
) -> TestCaseResult {
    let (mut rule, mut in_force) = (Rule::unknown(subject), None);
    let (mut now, mut wait) = (history.start, 0);
    for (at, (step, told)) in history.steps.iter().zip(told).enumerate() {
        now = step.turn.of(now, wait, subject);
        if now > TOO_LATE {
            break;
        }
        if let Some((lets_through, turn)) = *told {
            let until = turn.of(now, wait, subject);
            let told = Override {
                until: instant(until),
                lets_through,
            };
            ask(Call::Override(told), now)?;
            (rule, in_force) = (Rule::unknown(subject), Some((lets_through, until)));
        }
        let call = step.op.call(subject.limit());
        let answer = ask(call, now)?;
        let place = format!("{} at {now}, step {at}: {call:?}", subject.name);
        let in_force_now = in_force.filter(|&(_, until)| now < until);
        let should = match (in_force_now, step.op) {
            (Some(_), Op::Reset) => {
                in_force = None;
                continue;
            }
            (Some((false, until)), Op::Check(_) | Op::Peek) if !matches!(call, Call::Check(0)) => {
                let refused = answer.expect("a decision");
                let waits = (
                    refused.is_admitted(),
                    refused.remaining(),
                    wait_of(&refused),
                );
                prop_assert_eq!(waits, (false, 0, until - now), "{}", place);
                wait = wait_of(&refused);
                continue;
            }
            (Some(_), Op::Check(_) | Op::Peek) => {
                let nothing = Rule::unknown(subject).ask(subject, Call::Check(0), now);
                nothing.map(|told| told.decision)
            }
            (Some(_), _) => None,
            (None, _) => rule.ask(subject, call, now).map(|told| told.decision),
        };
        prop_assert_eq!(&answer, &should, "{}", place);
        wait = answer.as_ref().map_or(wait, wait_of);
    }
    Ok(())
}
