//! The script of a limit in shadow: that of the algorithm, but it always fits, and charges only if
//! the algorithm has room.

use std::fmt::Write;

use crate::algorithm::{Member, MemberReply, Script, ScriptReply, Scripted};

use super::{Shadow, ShadowSnapshot, ShadowState};

/// Stands for no admission: no number of one is as large.
const NONE: u64 = 1 << 53;

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

    /// Those of the algorithm; if it has none, whether it was charged.
    fn admission(&self, admission: &Self::Snapshot, tell: &mut dyn FnMut(u64)) {
        let (would_refuse, mut has_numbers) = (admission.would_refuse, false);
        self.0.admission(&admission.snapshot, &mut |number| {
            has_numbers = true;
            tell(if would_refuse { NONE } else { number });
        });
        if !has_numbers {
            tell(u64::from(!would_refuse));
        }
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
            "settle" => part(name, &only_if("m.settled_start < 2 ^ 53", text)),
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
