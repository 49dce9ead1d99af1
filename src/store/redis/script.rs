//! The text that Redis runs: the frame, the files of the rules, and the lines that name members,
//! once for each of them. The folder `sent` shows scripts of each kind.

use crate::algorithm::{Member, Script};

use self::{
    limit::Limit,
    member::{HOLDING, Named},
};
use super::reply::{CHARGED_AND_ALL, CHARGED_AND_MORE, NOT_CHARGED};

mod limit;
mod member;
mod several;

pub(super) use several::{can_be_joined, can_be_leased};

const FRAME: &str = include_str!("frame.lua");
const HELD: &str = include_str!("../../algorithm/held.lua");

/// The code of the error for a value that no script wrote; Redis has none of this name.
pub(super) const UNREADABLE: &str = "UNREADABLE";

/// How many names of members a script about several limits may have. Lua allows 200 locals in a
/// function, and the frame and the rules need some too.
const MAX_NAMES: usize = 170;

/// What a script does; its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// Charges what all members admit.
    Decide = 0,
    /// Charges nothing.
    Look = 1,
    /// Charges whether it fits or not; gives units back, if the cost is negative.
    Change = 2,
    /// Settles what an admission holds, or gives back its turn in a queue.
    Settle = 3,
    /// Takes a charge back as of its own instant, if nothing was written since.
    TakeBack = 4,
    /// Holds units that a process will spend without asking.
    Lease = 5,
}

/// The limits of a script.
struct Lines<'a>(Vec<Limit<'a>>);

/// Whether one script can be about all of these, also where others hold units.
pub(super) fn fits_one_script(limits: &[Script]) -> bool {
    let names = |member: &Member| {
        let own = [member.parameters, member.state, member.extra, member.kept];
        21 + own.concat().len()
    };
    let members = limits.iter().flat_map(Script::members);
    members.map(names).sum::<usize>() <= MAX_NAMES
}

/// Whether any of them holds units.
pub(super) fn hold(limits: &[Script]) -> bool {
    let mut members = limits.iter().flat_map(Script::members);
    members.any(|member| member.settled)
}

/// How many decisions a script makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decisions {
    One,
    /// One after the other, at one instant.
    Several,
    /// The same, beside what a process holds to spend it without asking.
    Leased,
}

/// The script that decides about one or several limits, in Lua 5.1. If it `holds`, a state may have
/// a tail: what is held beside it.
pub(super) fn text(limits: &[Script], holds: bool, decisions: Decisions) -> String {
    let lines = Lines::of(limits, holds, decisions == Decisions::Leased);
    let (mut text, mut sources) = (lines.arguments() + FRAME, Vec::new());
    let rules = lines.members().map(|named| named.member.source);
    for source in rules.chain(holds.then_some(HELD)) {
        if !sources.contains(&source) {
            sources.push(source);
            text += "\n";
            text += source.trim_start_matches('\n');
        }
    }
    text + "\n" + &lines.body(decisions)
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// The format of whole numbers, of 7 bytes each: none is negative, a fraction or not a number,
/// whoever wrote it.
fn whole(count: usize) -> String {
    "I7".repeat(count)
}

impl<'a> Lines<'a> {
    fn of(limits: &'a [Script], holds: bool, leases: bool) -> Self {
        let (mut all, mut number, mut keys) = (Vec::new(), 0, 0);
        for (limit, script) in (1..).zip(limits) {
            keys += 1;
            let key = keys;
            let named = |member: &'a Member| {
                number += 1;
                keys += usize::from(member.has_list());
                Named {
                    member,
                    number,
                    limit,
                    list: member.has_list().then_some(keys),
                    holds: holds && !member.in_flight,
                    leases,
                }
            };
            let members: Vec<_> = script.members().iter().map(named).collect();
            all.push(Limit {
                number: limit,
                key,
                holds: members.iter().any(|named| named.holds),
                members,
            });
        }
        Self(all)
    }

    fn members(&self) -> impl Iterator<Item = &Named<'a>> {
        self.0.iter().flat_map(|limit| &limit.members)
    }

    fn holds(&self) -> bool {
        self.0.iter().any(|limit| limit.holds)
    }

    /// This text of each member, in which marks stand for its numbers: see [`Named::lua`].
    fn of_members(&self, text: &str) -> String {
        let all: Vec<_> = self.members().map(|named| named.lua(text)).collect();
        all.join(", ")
    }

    /// This text of each limit, in which `$` stands for its number.
    fn of_limits(&self, text: &str, between: &str) -> String {
        let of = |limit: &Limit<'_>| text.replace('$', &limit.number.to_string());
        self.0.iter().map(of).collect::<Vec<_>>().join(between)
    }

    /// Reads the first argument.
    fn arguments(&self) -> String {
        let mut names = vec!["op".to_owned(), "now".to_owned()];
        names.extend(self.members().flat_map(Named::arguments));
        if self.holds() {
            names.extend(self.members().flat_map(|named| match named.holds {
                true => named.names(HOLDING),
                // The numbers of a member that never holds are skipped.
                false => vec!["_".to_owned(); HOLDING.len()],
            }));
        }
        let (formats, names) = ("d".repeat(names.len()), names.join(", "));
        format!("local {names} = struct.unpack('<{formats}', ARGV[1])\n")
    }

    /// The lines that name members.
    fn body(&self, decisions: Decisions) -> String {
        let mut text = String::new();
        self.0.iter().for_each(|limit| text += &limit.read());
        if let ([only], Decisions::One) = (&*self.0, decisions) {
            let [value, _] = only.without_leases();
            text += &format!("if op == TAKE_BACK and {value} ~= ARGV[2] then return '' end\n");
        }
        for limit in &self.0 {
            let members = limit.members.iter();
            members.for_each(|named| text += &limit.spend(named));
        }
        text += "\n";
        match decisions {
            Decisions::One => text + &self.one_decision(),
            Decisions::Several => text + &self.several_decisions(false),
            Decisions::Leased => text + &self.several_decisions(true),
        }
    }

    fn ask(&self) -> String {
        self.members().map(Named::ask).collect()
    }

    fn charge(&self) -> String {
        self.members().map(Named::charge).collect()
    }

    fn write(&self) -> String {
        self.0.iter().map(Limit::write).collect()
    }

    fn one_decision(&self) -> String {
        let (refused, refusal) = (self.refused(), self.reply(NOT_CHARGED));
        let until: String = self.0.iter().map(Limit::until).collect();
        format!(
            "{}if not must and (op == LOOK or {refused}) then\n  return {refusal}\nend\n\
             {}{until}{}return {}\n",
            self.ask(),
            self.charge(),
            self.write(),
            self.charged()
        )
    }

    /// Whether a member refuses, for a condition.
    fn refused(&self) -> String {
        let counted = self.members().filter(|named| !named.member.in_shadow);
        let fits: Vec<_> = counted.map(|named| named.name("fits")).collect();
        match &*fits {
            [] => "false".to_owned(),
            [only] => format!("not {only}"),
            fits => format!("not ({})", fits.join(" and ")),
        }
    }

    /// The reply to a charge.
    fn charged(&self) -> String {
        let more = self.reply(match self.holds() {
            true => CHARGED_AND_ALL,
            false => CHARGED_AND_MORE,
        });
        if self.answers_more() {
            return more;
        }
        let mut is_behind = self.of_limits("now_$ > now + ahead_$", " or ");
        if self.0.len() > 1 {
            is_behind = format!("({is_behind})");
        }
        format!(
            "{is_behind} and {more} or {}",
            self.of_limits("value_$", " .. ")
        )
    }

    /// Whether the reply to a charge is more than the values.
    fn answers_more(&self) -> bool {
        self.members().any(|named| named.member.in_shadow)
            || self.holds()
                && (self.0.len() > 1 || self.members().any(|named| named.list.is_some()))
    }

    /// A reply with more than the values, which are those that are written if it is charged, else
    /// those that are stored.
    fn reply(&self, kind: u8) -> String {
        let bits = self.members().map(|named| {
            let bit = 1_u64 << (named.number - 1);
            format!("({} and {bit} or 0)", named.name("fits"))
        });
        let bits = bits.collect::<Vec<_>>().join(" + ");
        let mut numbers = vec![kind.to_string(), bits];
        if kind != CHARGED_AND_MORE {
            numbers.extend(self.members().flat_map(Named::extra));
        }
        let mut values = String::new();
        for limit in &self.0 {
            let [value, size] = match kind {
                NOT_CHARGED => limit.without_leases(),
                _ => ["value", "#value"].map(|name| limit.name(name)),
            };
            numbers.push(format!("now + {}", limit.name("ahead")));
            numbers.push(size);
            values += &format!(" .. {value}");
        }
        let (format, numbers) = (whole(numbers.len() - 1), numbers.join(", "));
        format!("pack('<B{format}', {numbers}){values}")
    }
}

#[cfg(test)]
mod tests;
