//! The script of an algorithm whose units are held: that of the algorithm, with what `settled.lua`
//! says around it.

use std::borrow::Cow;

use crate::{
    algorithm::{
        Additive, Algorithm, ConfigId, Member, MemberReply, Script, ScriptReply, Scripted,
        plans::next_of,
        script::{called_part, part_of, with_lines_replaced},
    },
    clock::Timestamp,
};

use super::{Generation, Settled, SettledSnapshot, SettledState};

const SOURCE: &str = include_str!("../settled.lua");

/// The retention of an algorithm that does not say its own: 366 days.
const DEFAULT_RETENTION_MICROS: u64 = 31_622_400_000_000;

/// How long what is charged by this algorithm matters, in microseconds; 0 if it has no state.
pub(in crate::algorithm) fn matters_for<A: Algorithm>(algorithm: &A) -> u64 {
    match size_of::<A::State>() {
        0 => 0,
        _ => retention_micros(algorithm.config_id()),
    }
}

fn retention_micros(config: ConfigId) -> u64 {
    let micros = config.retention().as_micros();
    match u64::try_from(micros).unwrap_or(u64::MAX) {
        0 => DEFAULT_RETENTION_MICROS,
        micros => micros.min(Timestamp::MAX.as_micros()),
    }
}

impl<A: Additive + Scripted> Scripted for Settled<A> {
    fn script() -> Script {
        A::script().with(settled)
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        self.rule.parameters(tell);
        tell(self.held_at_most_micros);
        tell(self.generation_micros);
        tell(matters_for(&self.rule));
    }

    fn state(&self, numbers: &[u64]) -> Option<Self::State> {
        let (numbers, generations) = numbers.split_last_chunk::<6>()?;
        let mut generations = &generations[..];
        let (earlier, later) = (
            Generation::read(&mut generations)?,
            Generation::read(&mut generations)?,
        );
        let state = self.rule.state(numbers)?;
        Some(SettledState {
            state,
            earlier,
            later,
        })
    }

    fn numbers(&self, state: &Self::State, tell: &mut dyn FnMut(u64)) {
        self.rule.numbers(&state.state, tell);
        for generation in [state.earlier, state.later] {
            tell(generation.start_micros);
            tell(generation.ends_at_micros);
            tell(generation.units);
        }
    }

    fn admission(&self, admission: &Self::Snapshot, tell: &mut dyn FnMut(u64)) {
        tell(admission.generation_start_micros);
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<Self::Snapshot> {
        let decided = (reply.is_admitted(), reply.now());
        let member = reply.next_member()?;
        let (generation_start_micros, numbers) = member.numbers.split_last()?;
        // A hold leaves the state of the rule as it is.
        let of_the_rule = MemberReply {
            numbers,
            charged: false,
            ..member
        };
        Some(SettledSnapshot {
            snapshot: (self.rule).read(&mut ScriptReply::of_one(of_the_rule, decided))?,
            generation_start_micros: *generation_start_micros,
            freed_units: 0,
        })
    }
}

impl Generation {
    fn read(numbers: &mut &[u64]) -> Option<Self> {
        Some(Self {
            start_micros: next_of(numbers)?,
            ends_at_micros: next_of(numbers)?,
            units: next_of(numbers)?,
        })
    }
}

/// Makes it a script that holds units.
fn settled(rule: &mut Member) {
    let source = source(rule);
    rule.layout = format!("{}-held", rule.layout).into();
    rule.source = source.into();
    let with =
        |names: &[&'static str], others: &[&'static str]| Cow::Owned([names, others].concat());
    rule.replies = Some(with(rule.replied(false), &["generation_start"]));
    rule.parameters = with(
        &rule.parameters,
        &["held_at_most", "generation_time", "matters_for"],
    );
    rule.state = with(
        &rule.state,
        &[
            "earlier_start",
            "earlier_end",
            "earlier_held",
            "later_start",
            "later_end",
            "later_held",
        ],
    );
    rule.settles = &["settled_start"];
}

/// The parts of `settled.lua`, with those of the rule filled in.
fn source(rule: &Member) -> String {
    let judge = |units| filled(rule, part_of(SOURCE, "judge"), units);
    let mut parts = vec![
        ("library", rule.part("library").to_owned()),
        ("judge", judge("held units")),
        ("judge before a debit", judge("debited units")),
        ("judge before a settlement", judge("settled units")),
        ("judge before a renewal", judge("renewed units")),
    ];
    for name in ["charge", "renew", "debit", "refund", "expire", "reply"] {
        parts.push((name, filled(rule, part_of(SOURCE, name), "")));
    }
    // It stands in the part `renew`: this one only tells that the rule has it.
    if !rule.part("capacity").is_empty() {
        parts.push(("capacity", rule.part("capacity").to_owned()));
    }
    // A rule whose charge is nothing has nothing to settle.
    if !rule.part("charge").is_empty() {
        parts.push(("settle", filled(rule, part_of(SOURCE, "settle"), "")));
    }
    (parts.iter())
        .map(|(name, text)| format!("--- {name}\n{text}"))
        .collect()
}

/// A part of `settled.lua`, with the parts of the rule filled in.
fn filled(rule: &Member, part: &str, units: &str) -> String {
    let lines = with_lines_replaced(part, |line| match line {
        "units()" => Some(part_of(SOURCE, units).to_owned()),
        "generation()" => Some(part_of(SOURCE, "generation").to_owned()),
        "forget_what_was_worked_out()" => Some(clearing(rule)),
        line => called_part(line).map(|name| rule.part(name).to_owned()),
    });
    let mut filled: Vec<String> = Vec::new();
    for line in lines {
        filled.push(line);
        // A rule without the parts of a block leaves it empty.
        if let [.., start, end] = &*filled
            && (start.trim(), end.trim()) == ("do", "end")
        {
            filled.truncate(filled.len() - 2);
        }
    }
    filled.concat()
}

/// Lua that clears the rule's temporary names, so that a state can be judged once more in the same
/// script. A tail that has changed is then read from `m.rewritten`.
fn clearing(rule: &Member) -> String {
    let mut text = String::new();
    for names in rule.temporary_names().chunks(5) {
        text += &format!("m.{} = nil\n", names.join(", m."));
    }
    if rule.tail.is_some() {
        text += "if m.tail then m.rewritten, m.tail_at, m.tail_end = m.tail, 1, #m.tail end\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Quota,
        algorithm::{FixedWindow, InFlight, Policy},
    };

    /// The value of the last parameter.
    fn last<A: Scripted>(rule: &A) -> u64 {
        let mut told = 0;
        rule.parameters(&mut |number| told = number);
        told
    }

    #[test]
    fn what_is_charged_after_it_was_held_matters_for_as_long_as_the_rule_says() {
        let window = FixedWindow::new(Quota::new(5, Duration::from_micros(60)));
        let of_the_rule = u64::try_from(window.config_id().retention().as_micros()).unwrap();
        assert!(of_the_rule >= 60);
        let settled = window.settled();
        assert_eq!(last(&settled), of_the_rule);
        let nothing_is_charged = InFlight::new(2);
        assert_eq!(last(&nothing_is_charged), 0);
    }

    #[test]
    fn a_retention_that_nobody_says_is_a_year_and_none_is_beyond_the_last_instant() {
        let policy = |window| Policy::new("policy", &[1], window);
        let unsaid = ConfigId::unchanging(policy(Duration::ZERO).id());
        assert_eq!(retention_micros(unsaid), 366 * 86_400 * 1_000_000);
        let endless = policy(Duration::MAX).config_id();
        assert_eq!(retention_micros(endless), Timestamp::MAX.as_micros());
    }
}
