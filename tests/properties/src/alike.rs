//! A state that is kept elsewhere, beside the pure rule: both must say the same.

use proptest::{prelude::*, sample::Index, test_runner::TestCaseResult};

use crate::{
    call::{Admission, Answer, Call, Ending},
    history::{Cost, History, LAST, Op},
    replay::wait_of,
    subject::{Bucket, Subject},
};

/// Asks a state that is kept elsewhere, under one of the plans, by its index, at this instant. The
/// rule's own state has been asked before.
pub type Elsewhere<'a> =
    &'a mut dyn FnMut(usize, Call<'_>, i128, &dyn Bucket) -> Result<Answer, TestCaseError>;

/// What happens to a key.
#[derive(Debug, Clone)]
pub struct Story<'a> {
    /// The steps.
    pub history: &'a History,
    /// The plan of each step.
    pub turns: &'a [u8],
    /// For each step, which of the requests that were admitted ends after it, and how.
    pub endings: &'a [Option<(Index, Ending)>],
    /// Whether the clock may step back.
    pub steps_back: bool,
    /// Whether limits in shadow are compared, too.
    pub shadows: bool,
}

impl<'a> Story<'a> {
    /// Of one plan; no request ends.
    pub fn of(history: &'a History) -> Self {
        Self {
            history,
            turns: &[0],
            endings: &[None],
            steps_back: true,
            shadows: true,
        }
    }
}

/// For each step, which of the requests that were admitted ends after it, and in which of these
/// ways.
pub fn endings(
    ending: impl Strategy<Value = Ending>,
) -> impl Strategy<Value = Vec<Option<(Index, Ending)>>> {
    prop::collection::vec(prop::option::of((any::<Index>(), ending)), 1..80)
}

/// One state of the rule, without a store that forgets; a key that was never charged has none.
pub(crate) struct Rule {
    bucket: Box<dyn Bucket>,
    is_known: bool,
}

impl Rule {
    pub(crate) fn unknown(subject: &Subject) -> Self {
        let (mut bucket, is_known) = (subject.bucket.fork(), false);
        bucket.forget(0);
        Self { bucket, is_known }
    }

    /// Asks under this plan. Who is refused writes nothing, nor spends what was held by another
    /// plan.
    pub(crate) fn ask(&mut self, plan: &Subject, call: Call<'_>, now: i128) -> Answer {
        let mut asked = match self.is_known {
            true => self.bucket.with_the_numbers_of(&*plan.bucket),
            false => plan.bucket.fork(),
        };
        if !self.is_known {
            asked.forget(0);
        }
        let answer = asked.ask(call, now);
        let writes = match call {
            Call::Check(cost) => cost > 0 && is_admitted(&answer),
            Call::Look(_) => false,
            Call::Debit(units) => units > 0,
            Call::Refund(cost) => self.is_known && cost > 0,
            Call::Reset | Call::Override(_) => true,
            Call::End(ended, ending) => self.is_known || ending.spent(ended.cost) > ended.cost,
        };
        if writes {
            (self.bucket, self.is_known) = (asked, !matches!(call, Call::Reset));
        }
        answer
    }
}

fn is_admitted(answer: &Answer) -> bool {
    let admits = |admission: &Admission| admission.decision.is_admitted();
    answer.as_ref().is_some_and(admits)
}

/// When steps are taken, by a clock that may step back. What a rule without a time of its own was
/// given back is fresh at any time, but not in Redis.
#[derive(Default)]
struct Time {
    latest: i128,
    earliest: i128,
}

impl Time {
    /// The instant of a step that is to be taken at this one, or later.
    fn of(&mut self, op: Op, now: i128, steps_back: bool) -> i128 {
        // In Redis a state that matters until after 2^53 µs, in the year 2255, is not kept exactly.
        let last = if steps_back { LAST - (1 << 50) } else { LAST };
        let now = now.max(self.earliest).min(last);
        self.latest = self.latest.max(now);
        self.earliest = match op {
            _ if !steps_back => self.latest,
            Op::Refund(_) => self.latest,
            Op::Reset => 0,
            Op::Check(_) | Op::Debit(_) | Op::Peek => self.earliest,
        };
        now
    }
}

/// Every decision and look at the state elsewhere is that of the pure rule in every field. The
/// plans share a state.
///
/// # Errors
///
/// One is not.
pub fn decides_as_the_rule(
    plans: &[Subject],
    story: &Story<'_>,
    elsewhere: Elsewhere<'_>,
) -> TestCaseResult {
    let (mut rule, mut time) = (Rule::unknown(&plans[0]), Time::default());
    let in_shadow = |it: &Admission| story.shadows.then(|| it.in_shadow.clone());
    // Each with its plan.
    let mut admitted: Vec<(usize, [Admission; 2])> = Vec::new();
    let (mut now, mut wait) = (story.history.start, 0);
    for (at, step) in story.history.steps.iter().enumerate() {
        let plan = usize::from(story.turns[at % story.turns.len()]) % plans.len();
        let subject = &plans[plan];
        let time_of_it = step.turn.of(now, wait, subject);
        now = time.of(step.op, time_of_it, story.steps_back);
        let op = match step.op {
            // No debt of plans in turn becomes too large to be counted: then the order of charges
            // matters.
            Op::Debit(Cost::Huge) if plans.len() > 1 => Op::Debit(Cost::Limit),
            op => op,
        };
        let call = op.call(subject.limit());
        let (should, told) = (
            rule.ask(subject, call, now),
            elsewhere(plan, call, now, &*rule.bucket)?,
        );
        let [both_should, both_tell] =
            [&should, &told].map(|it| it.as_ref().map(|it| (&it.decision, in_shadow(it))));
        let place = format!("{} at {now}, step {at}, plan {plan}", subject.name);
        prop_assert_eq!(both_tell, both_should, "{}", place);
        if let (Call::Check(cost), Some(ours), Some(theirs)) = (call, should, told) {
            wait = wait_of(&ours.decision);
            if ours.decision.is_admitted() && cost > 0 {
                admitted.push((plan, [ours, theirs]));
            }
        }
        let ended = story.endings[at % story.endings.len()].filter(|_| !admitted.is_empty());
        if let Some((which, ending)) = ended {
            // The plan that admitted it ends it, whichever plan asks next.
            let (plan, [ours, theirs]) = admitted.swap_remove(which.index(admitted.len()));
            rule.ask(&plans[plan], Call::End(&ours, ending), now);
            elsewhere(plan, Call::End(&theirs, ending), now, &*rule.bucket)?;
        }
    }
    // With this nothing is renewed any more.
    for (plan, [ours, theirs]) in &admitted {
        rule.ask(&plans[*plan], Call::End(ours, Ending::Over), now);
        elsewhere(*plan, Call::End(theirs, Ending::Over), now, &*rule.bucket)?;
    }
    Ok(())
}
