//! The script of a limit in shadow: that of the algorithm, but it always fits, and charges only if
//! the algorithm has room.

use std::fmt::Write;

use crate::algorithm::{Member, MemberReply, Script, ScriptReply, Scripted};

use super::{Shadow, ShadowSnapshot, ShadowState};

impl<A: Scripted> Scripted for Shadow<A> {
    fn script() -> Script {
        const {
            assert!(
                !A::IN_FLIGHT,
                "requests in flight are rehearsed in memory only: over Redis places would be renewed \
                 for requests that have none"
            );
        }
        A::script().with(in_shadow)
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        self.0.parameters(tell);
    }

    fn state(&self, numbers: &[u64]) -> Option<Self::State> {
        Some(ShadowState {
            state: self.0.state(numbers)?,
            would_refuse: false,
        })
    }

    fn numbers(&self, state: &Self::State, tell: &mut dyn FnMut(u64)) {
        self.0.numbers(&state.state, tell);
    }

    /// Whether it was charged, then the numbers of the algorithm: zeros if it was not.
    fn admission(&self, admission: &Self::Snapshot, tell: &mut dyn FnMut(u64)) {
        let was_charged = !admission.would_refuse;
        tell(u64::from(was_charged));
        self.0.admission(&admission.snapshot, &mut |number| {
            tell(if was_charged { number } else { 0 });
        });
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<Self::Snapshot> {
        let decided = (reply.is_admitted(), reply.now());
        let member = reply.next_member()?;
        let (would_refuse, own) = match member.in_shadow {
            Some([refused, numbers @ ..]) if *refused != 0 => {
                let not_charged = MemberReply {
                    cost: 0,
                    charged: false,
                    numbers,
                    ..member
                };
                (true, not_charged)
            }
            _ => (false, member),
        };
        Some(ShadowSnapshot {
            snapshot: self.0.read(&mut ScriptReply::of_one(own, decided))?,
            would_refuse,
        })
    }
}

/// Makes it a script that never refuses.
fn in_shadow(rule: &mut Member) {
    let mut source = String::new();
    let mut part = |name: &str, text: &str| {
        // Writing to a `String` does not fail.
        let _ = write!(source, "--- {name}\n{text}");
    };
    for both in rule.source.split("--- ").skip(1) {
        let (name, text) = both.split_once('\n').unwrap_or((both, ""));
        match name {
            "judge" => part(
                name,
                &format!("{text}m.refused = m.fits and 0 or 1\nm.fits = true\n"),
            ),
            "charge" => part(name, &only_if("m.refused == 0", text)),
            "settle" | "withdraw" => part(name, &only_if("m.was_charged == 1", text)),
            "debit" => {}
            _ => part(name, text),
        }
    }
    // A debit is charged whether there is room or not.
    part("debit", &format!("m.refused = 0\n{}", rule.part("debit")));
    if rule.admission().is_empty() {
        part(
            "take back",
            &only_if("m.was_charged == 1", rule.part("refund")),
        );
    }
    rule.source = source.into();
    rule.in_shadow = true;
}

fn only_if(condition: &str, text: &str) -> String {
    let mut only = format!("if {condition} then\n");
    for line in text.lines() {
        let indent = if line.is_empty() { "" } else { "  " };
        only.extend([indent, line, "\n"]);
    }
    only + "end\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Quota, Timestamp,
        algorithm::{Algorithm, FixedWindow, LeakyBucket, TokenBucket},
    };

    /// The names of the numbers of an admission, and the numbers of two in a row at 7 µs: one of
    /// 2 units that is charged, and one of 3 that would be refused.
    fn told<A: Scripted>(rule: &Shadow<A>) -> (Vec<&'static str>, [Vec<u64>; 2]) {
        let now = Timestamp::from_micros(7);
        let mut state = rule.fresh(now);
        let numbers = [2, 3].map(|cost| {
            let (admitted, admission) = rule.step(&mut state, cost, now);
            assert!(admitted);
            let mut numbers = Vec::new();
            rule.admission(&admission, &mut |number| numbers.push(number));
            numbers
        });
        let script = Shadow::<A>::script();
        let [member] = script.members() else {
            panic!("it is no tuple");
        };
        (member.admission().to_vec(), numbers)
    }

    #[test]
    fn an_admission_tells_whether_it_was_charged_and_its_numbers_if_it_was() {
        let quota = Quota::new(4, Duration::from_micros(4));
        let window = FixedWindow::new(quota).shadow();
        assert_eq!(told(&window), (vec!["was_charged"], [vec![1], vec![0]]));
        let queue = LeakyBucket::new(quota).queue().shadow();
        let names = vec!["was_charged", "admitted_tick", "admitted_debt"];
        assert_eq!(told(&queue), (names, [vec![1, 7, 2], vec![0, 0, 0]]));
        let held = TokenBucket::new(quota).settled().shadow();
        let names = vec!["was_charged", "settled_start"];
        assert_eq!(told(&held), (names, [vec![1, 7], vec![0, 0]]));
    }
}
