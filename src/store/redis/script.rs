//! The text that Redis runs: the frame, the files of the rules, and the lines that name members,
//! once for each of them. The folder `sent` shows scripts of each kind.

use crate::algorithm::{Member, Script};

use self::member::{GENERATIONS, HOLDING, Named};
use super::reply::{CHARGED_AND_MORE, CHARGED_AND_TELLS, NOT_CHARGED};

mod member;

const FRAME: &str = include_str!("frame.lua");
const HELD: &str = include_str!("../../algorithm/held.lua");

/// The code of the error for a value that no script wrote; Redis has none of this name.
pub(super) const UNREADABLE: &str = "UNREADABLE";

/// How many names of members a script about several limits may have. Lua allows 200 locals in a
/// function, and the frame and the rules need some too.
const MAX_NAMES: usize = 170;

/// How wide a line is at most.
const MAX_WIDTH: usize = 98;

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
}

/// A limit: one state, of one member or those of a tuple.
struct Limit<'a> {
    number: usize,
    /// The number of its state in `KEYS`.
    key: usize,
    members: Vec<Named<'a>>,
    /// Whether its value may have a tail.
    holds: bool,
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

/// The script that decides about one or several limits, in Lua 5.1. If it `holds`, a state may have
/// a tail: what is held beside it.
pub(super) fn text(limits: &[Script], holds: bool) -> String {
    let lines = Lines::of(limits, holds);
    let mut sources: Vec<&str> = Vec::new();
    for source in lines.members().map(|named| named.member.source) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    if holds {
        sources.push(HELD);
    }
    let mut text = wrapped(&lines.arguments()) + FRAME;
    for source in sources {
        text += "\n";
        text += source.trim_start_matches('\n');
    }
    text + "\n" + &wrapped(&lines.decision())
}

/// The same lines, none of which is wider than a reader's window.
fn wrapped(lines: &str) -> String {
    let mut text = String::new();
    for line in lines.lines() {
        let indent = " ".repeat(line.len() - line.trim_start().len() + 2);
        let mut rest = line.to_owned();
        while rest.len() > MAX_WIDTH {
            let begins =
                [", ", " .. ", " or ", " and "].map(|before| rest[..MAX_WIDTH].rfind(before));
            // What is broken at its own indentation is not shorter afterwards.
            let Some(at) = begins.into_iter().flatten().find(|at| *at > indent.len()) else {
                break;
            };
            let next = format!("{indent}{}", rest[at + 1..].trim_start());
            text += rest[..=at].trim_end();
            text += "\n";
            rest = next;
        }
        text += &rest;
        text += "\n";
    }
    text
}

/// The format of whole numbers, of 7 bytes each: none is negative, a fraction or not a number,
/// whoever wrote it.
fn whole(count: usize) -> String {
    "I7".repeat(count)
}

impl<'a> Lines<'a> {
    fn of(limits: &'a [Script], holds: bool) -> Self {
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
    fn decision(&self) -> String {
        let mut text = String::new();
        self.0.iter().for_each(|limit| text += &limit.read());
        if let [only] = &*self.0 {
            let [value, _] = only.without_leases();
            text += &format!("if op == TAKE_BACK and {value} ~= ARGV[2] then return '' end\n");
        }
        for limit in &self.0 {
            let members = limit.members.iter();
            members.for_each(|named| text += &limit.spend(named));
        }
        text += "\n";
        self.members().for_each(|named| text += &named.ask());
        let (refused, reply) = (self.refused(), self.reply(NOT_CHARGED));
        text += &format!("if not must and (op == LOOK{refused}) then\n  {reply}end\n");
        self.members().for_each(|named| text += &named.charge());
        self.0.iter().for_each(|limit| text += &limit.write());
        let kind = match self.holds() {
            true => CHARGED_AND_TELLS,
            false => CHARGED_AND_MORE,
        };
        if self.answers_more() {
            return text + &self.reply(kind);
        }
        let is_behind = |limit: &Limit<'_>| format!("now_{0} > now + ahead_{0}", limit.number);
        let is_behind: Vec<_> = self.0.iter().map(is_behind).collect();
        let values: Vec<_> = self.0.iter().map(|limit| limit.name("value")).collect();
        text + &format!(
            "if {} then\n  {}end\nreturn {}\n",
            is_behind.join(" or "),
            self.reply(kind),
            values.join(" .. ")
        )
    }

    /// Whether a member refuses, for a condition.
    fn refused(&self) -> String {
        let counted = self.members().filter(|named| !named.member.in_shadow);
        let fits: Vec<_> = counted.map(|named| named.name("fits")).collect();
        match &*fits {
            [] => String::new(),
            [only] => format!(" or not {only}"),
            fits => format!(" or not ({})", fits.join(" and ")),
        }
    }

    /// Whether the reply to a charge is more than the values.
    fn answers_more(&self) -> bool {
        self.members().any(|named| named.member.in_shadow)
            || self.holds()
                && (self.0.len() > 1 || self.members().any(|named| named.list.is_some()))
    }

    /// Answers with more than the values, which are those that are written if it is charged, else
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
        format!("return pack('<B{format}', {numbers}){values}\n")
    }
}

impl Limit<'_> {
    fn name(&self, name: &str) -> String {
        format!("{name}_{}", self.number)
    }

    /// The numbers of its value.
    fn names(&self) -> Vec<String> {
        let times = ["last", "ahead", "key_expires_at"].map(|name| self.name(name));
        let states = self.members.iter().flat_map(Named::state);
        times.into_iter().chain(states).collect()
    }

    /// The generations of all members, if its value may have a tail.
    fn generations(&self) -> Vec<String> {
        let members = self.members.iter().filter(|_| self.holds);
        members.flat_map(|named| named.names(GENERATIONS)).collect()
    }

    /// The names of something of its members in flight. Their leases stand behind the tail.
    fn in_flight(&self, name: &str) -> Vec<String> {
        let members = self.members.iter().filter(|named| named.member.in_flight);
        members.map(|named| named.name(name)).collect()
    }

    /// What is stored without leases, and how many bytes that is.
    fn without_leases(&self) -> [String; 2] {
        let stored = self.name("stored");
        match self.in_flight("before").into_iter().next() {
            Some(before) => [format!("{stored}:sub(1, {before})"), before],
            None => [stored.clone(), format!("#{stored}")],
        }
    }

    /// Counts the bytes before the leases of each member.
    fn find_leases(&self) -> String {
        let (stored, bytes) = (self.name("stored"), self.in_flight("bytes"));
        let befores = self.in_flight("before").into_iter().enumerate();
        let line = |(at, before)| format!("  {before} = #{stored} - {}\n", bytes[at..].join(" - "));
        befores.map(line).collect()
    }

    fn read(&self) -> String {
        let (k, key) = (self.number, self.key);
        let (names, held) = (self.names(), self.generations());
        let bytes = 1 + 7 * names.len();
        let with_tail = bytes + 7 * GENERATIONS.len() * self.members.len();
        let unreadable = format!("then error('{UNREADABLE} state') end");
        let too_large = |names: &[String]| names.join(" >= 2 ^ 53 or ") + " >= 2 ^ 53";
        let zeros = [&names[..], &held, &self.in_flight("before")].concat();
        let [_, size] = self.without_leases();
        let tail = match self.holds {
            true => format!(
                "  if {size} == {with_tail} then\n    \
                   {} = unpack('<{}', stored_{k}, {})\n    \
                   if {} {unreadable}\n  \
                 end\n",
                held.join(", "),
                whole(held.len()),
                bytes + 1,
                too_large(&held)
            ),
            false => format!("  if {size} == {with_tail} then return '\\2' end\n"),
        };
        format!(
            "local stored_{k} = call('GET', KEYS[{key}])\n\
             local now_{k}, {} = now, now{}\n\
             if stored_{k} then\n  \
               if #stored_{k} < {bytes} {unreadable}\n  \
               mark, {} = unpack('<B{}', stored_{k})\n\
               {}  \
               if mark ~= 1 or {size} ~= {bytes} and {size} ~= {with_tail} or {} {unreadable}\n\
               {tail}  \
               now_{k} = now + ahead_{k}\n  \
               if servers_time and now_{k} < last_{k} and last_{k} - now_{k} > key_expires_at_{k} - last_{k} then\n    \
                 ahead_{k} = ahead_{k} + last_{k} - now_{k}\n    \
                 call('SET', KEYS[{key}], pack('<BI7I7', 1, last_{k}, ahead_{k}) .. stored_{k}:sub(16), 'KEEPTTL')\n  \
               end\n  \
               if now_{k} < last_{k} or op == TAKE_BACK then now_{k} = last_{k} end\n\
             else stored_{k} = '' end\n",
            zeros.join(", "),
            ", 0".repeat(zeros.len() - 1),
            names.join(", "),
            whole(names.len()),
            self.find_leases(),
            too_large(&names),
        )
    }

    /// The value as of this time, with a tail if anything is held.
    fn value(&self, time: &str) -> String {
        let mut names = self.names();
        names[0] = self.name(time);
        let packed = |names: &[String]| {
            let (format, names) = (whole(names.len()), names.join(", "));
            format!("pack('<B{format}', 1, {names})")
        };
        if !self.holds {
            return packed(&names);
        }
        let held = self.members.iter().filter(|named| named.holds);
        let held = held.map(Named::held).collect::<Vec<_>>().join(" + ");
        let all = [&names[..], &self.generations()].concat();
        format!("{held} > 0 and {} or {}", packed(&all), packed(&names))
    }

    fn write(&self) -> String {
        let (k, key) = (self.number, self.key);
        let ends: Vec<_> = self
            .members
            .iter()
            .map(|named| named.name("ends"))
            .collect();
        let lists = self.members.iter().filter_map(|named| named.list);
        let expire = lists.map(|list| format!("  call('PEXPIRE', KEYS[{list}], ttl_ms_{k})\n"));
        let all = [vec![self.name("value")], self.in_flight("leases")].concat();
        let all = all.join(" .. ");
        format!(
            "local ttl_ms_{k}, until_{k} = nil, math.max({})\n\
             if until_{k} >= key_expires_at_{k} or not servers_time or has_new_list then\n  \
               local expiry = until_{k} + math.ceil((until_{k} - now_{k}) / 64) + 1e6\n  \
               expiry = math.min(expiry, 2 ^ 53 - 1)\n  \
               key_expires_at_{k} = math.max(key_expires_at_{k}, expiry)\n  \
               ttl_ms_{k} = math.max(math.ceil((key_expires_at_{k} - ahead_{k} - now) / 1000), min_ttl_ms)\n\
             end\n\
             local value_{k} = {}\n\
             if ttl_ms_{k} then\n  \
               call('SET', KEYS[{key}], {all}, 'PX', ttl_ms_{k})\n\
               {}\
             else\n  \
               call('SET', KEYS[{key}], {all}, 'KEEPTTL')\n\
             end\n",
            ends.join(", "),
            self.value("now"),
            expire.collect::<String>()
        )
    }

    /// Spends what a member that keeps a list has held, and writes the state at once: the list is
    /// written whatever is decided.
    fn spend(&self, named: &Named<'_>) -> String {
        let (Some(list), true) = (named.list, named.holds) else {
            return String::new();
        };
        let (k, key) = (self.number, self.key);
        let before = self.in_flight("before").into_iter().take(1);
        let leases = before.map(|before| format!(" .. stored_{k}:sub({before} + 1)"));
        named.spend(&format!(
            "  stored_{k} = {}{}\n\
             {}  \
               call('SET', KEYS[{key}], stored_{k}, 'KEEPTTL')\n  \
               if has_new_list then\n    \
                 call('PEXPIRE', KEYS[{list}], \
                   math.ceil((key_expires_at_{k} - ahead_{k} - now) / 1000) + 60000)\n  \
               end\n",
            self.value("last"),
            leases.collect::<String>(),
            self.find_leases(),
        ))
    }
}

#[cfg(test)]
mod tests;
