//! The text that Redis runs: the frame, the files of the rules, and the lines that name members,
//! once for each of them. The folder `sent` shows scripts of each kind.

use crate::algorithm::{Member, Script};

const FRAME: &str = include_str!("frame.lua");
const HELD: &str = include_str!("../../algorithm/held.lua");

/// The code of the error for a value that no script wrote; Redis has none of this name.
pub(super) const UNREADABLE: &str = "UNREADABLE";

/// How many names of members a script about several limits may have. Lua allows 200 locals in a
/// function, and the rest of a script needs some too.
const MAX_NAMES: usize = 160;

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

/// A member, with the numbers by which the lines name it and its limit.
struct Named<'a> {
    member: &'a Member,
    number: usize,
    limit: usize,
    /// The number of its list in `KEYS`, if it keeps one.
    list: Option<usize>,
    /// Whether units may be held beside its state.
    holds: bool,
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

/// Whether one script can be about all of these.
pub(super) fn fits_one_script(limits: &[Script]) -> bool {
    let names = |member: &Member| {
        let held = if hold(limits) { 11 } else { 0 };
        7 + held + member.parameters.len() + member.state.len() + member.told.len()
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
    let (mut all, mut number, mut key) = (Vec::new(), 0, 0);
    for (limit, script) in (1..).zip(limits) {
        key += 1;
        let of_state = key;
        let members = script.members().iter().map(|member| {
            number += 1;
            let list = member.has_list().then(|| {
                key += 1;
                key
            });
            Named {
                member,
                number,
                limit,
                list,
                holds: holds && !member.in_flight,
            }
        });
        all.push(Limit {
            members: members.collect(),
            number: limit,
            key: of_state,
            holds,
        });
    }
    let members = || all.iter().flat_map(|limit| &limit.members);
    let mut text = FRAME.to_owned();
    let mut sources: Vec<&str> = Vec::new();
    for source in members().map(|named| named.member.source) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    if holds {
        sources.push(HELD);
    }
    for source in sources {
        text += "\n";
        text += source.trim_start_matches('\n');
    }
    text + "\n" + &wrapped(&lines(&all))
}

/// The lines that name members.
fn lines(all: &[Limit<'_>]) -> String {
    let members = || all.iter().flat_map(|limit| &limit.members);
    let mut text = arguments(&members().collect::<Vec<_>>());
    for limit in all {
        text += &limit.read(all.len() == 1);
    }
    text += "\n";
    for named in members() {
        text += &named.ask();
    }
    let refused = refused(all);
    text += &format!(
        "if not must and (op == LOOK{refused}) then\n  {}end\n",
        reply(all, false)
    );
    for named in members() {
        text += &named.charge();
    }
    for limit in all {
        text += &limit.write();
    }
    text + &reply(all, true)
}

/// The same lines, none of which is wider than a reader's window.
fn wrapped(lines: &str) -> String {
    let mut text = String::new();
    for line in lines.lines() {
        let indent = " ".repeat(line.len() - line.trim_start().len() + 2);
        let mut rest = line.to_owned();
        while rest.len() > MAX_WIDTH {
            let begins = [", ", " .. ", " or "].map(|before| rest[..MAX_WIDTH].rfind(before));
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

/// Reads the costs and the numbers of the members.
fn arguments(members: &[&Named<'_>]) -> String {
    let holding = members.iter().flat_map(|named| match named.holds {
        true => named.names(HOLDING),
        // The numbers of a member that never holds are skipped.
        false if members.iter().any(|named| named.holds) => vec!["_".to_owned(); HOLDING.len()],
        false => Vec::new(),
    });
    let of_each = members.iter().flat_map(|named| named.arguments());
    let all: Vec<_> = of_each.chain(holding).collect();
    let (names, doubles) = (all.join(", "), "d".repeat(all.len()));
    let mut text = format!("local {names} = unpack('<{doubles}', ARGV[1], 17)\n");
    let admitted: Vec<_> = members.iter().flat_map(|named| named.admitted()).collect();
    if !admitted.is_empty() {
        let (names, doubles) = (admitted.join(", "), "d".repeat(admitted.len()));
        text += &format!("local {names}\n");
        text += &format!("if op == SETTLE then\n  {names} = unpack('<{doubles}', ARGV[2])\nend\n");
    }
    text
}

/// How a member holds.
const HOLDING: &[&str] = &["at_most", "matters_for"];

/// What is held beside the state of a member.
const GENERATIONS: &[&str] = &[
    "earlier_start",
    "earlier_end",
    "earlier_held",
    "later_start",
    "later_end",
    "later_held",
];

/// The format of whole numbers, of 7 bytes each: none is negative, a fraction or not a number,
/// whoever wrote it.
fn whole(count: usize) -> String {
    "I7".repeat(count)
}

impl Limit<'_> {
    fn states(&self) -> Vec<String> {
        let states = self.members.iter().map(Named::state);
        states.collect::<Vec<_>>().concat()
    }

    /// The generations of all members, if the script holds.
    fn generations(&self) -> Vec<String> {
        let of_holding = self.members.iter().filter(|_| self.holds);
        of_holding
            .flat_map(|named| named.names(GENERATIONS))
            .collect()
    }

    fn read(&self, is_alone: bool) -> String {
        let (k, key) = (self.number, self.key);
        let times = [format!("last_{k}"), format!("ahead_{k}")];
        let (states, held) = (self.states(), self.generations());
        let read = [&times[..], &states, &held].concat().join(", ");
        let names = [&times[..], &states, &[format!("key_expires_at_{k}")]].concat();
        let bytes = 1 + 7 * names.len();
        let with_tail = bytes + 7 * GENERATIONS.len() * self.members.len();
        let (tail, or_tail) = match self.holds {
            true => {
                let (after, whole) = (bytes + 1, whole(held.len()));
                let tail = format!(
                    "{} = unpack('<{whole}', stored_{k}, {after})",
                    held.join(", ")
                );
                (tail, format!(" and #stored_{k} ~= {with_tail}"))
            }
            false => ("return '\\2'".to_owned(), String::new()),
        };
        let mut text = format!(
            "local stored_{k} = call('GET', KEYS[{key}])\n\
             local now_{k}, {all} = now, now{zeros}\n\
             if stored_{k} then\n  \
               if #stored_{k} == {with_tail} then {tail} end\n  \
               if #stored_{k} ~= {bytes}{or_tail} or string.byte(stored_{k}) ~= 1 then error('{UNREADABLE} state') end\n  \
               {names} = unpack('<{whole}', stored_{k}, 2)\n  \
               if math.max({read}) >= 2 ^ 53 then error('{UNREADABLE} state') end\n  \
               now_{k}, ahead_{k} = catch_up(KEYS[{key}], last_{k}, ahead_{k}, key_expires_at_{k})\n\
             else stored_{k} = '' end\n",
            all = [&names[..], &held].concat().join(", "),
            zeros = ", 0".repeat(names.len() + held.len() - 1),
            whole = whole(names.len()),
            names = names.join(", "),
        );
        if is_alone {
            text += "if op == TAKE_BACK then now_1 = last_1 end\n\
                if op == TAKE_BACK and string.sub(stored_1, 1, #ARGV[2]) ~= ARGV[2] then return '' end\n";
        }
        // The whole state is written where a list is: what others hold is not yet converted then.
        for named in self.members.iter().filter(|named| named.list.is_some()) {
            text += &named.rule();
            text += &self.spend(named);
        }
        for named in self.members.iter().filter(|named| named.list.is_none()) {
            text += &named.rule();
        }
        text
    }

    /// Spends what was held in generations that have ended, if the rule of the member keeps a list:
    /// it is written whatever is decided.
    fn spend(&self, named: &Named<'_>) -> String {
        let (Some(list), true) = (named.list, named.holds) else {
            return String::new();
        };
        let (k, key) = (self.number, self.key);
        let [e_end, e_held, l_end, l_held] =
            ["earlier_end", "earlier_held", "later_end", "later_held"].map(|name| named.name(name));
        let (state, rule) = (named.state().join(", "), named.name("rule"));
        format!(
            "if ({e_held} > 0 and {e_end} <= now_{k}) or ({l_held} > 0 and {l_end} <= now_{k}) then\n  \
               _, {e_held}, {l_held}, {state} = held_spent({rule}, last_{k}, now_{k}, \
                 {e_end}, {e_held}, {l_end}, {l_held}, {state})\n  \
               stored_{k} = {} .. pack('<I7', key_expires_at_{k}) .. {}\n  \
               call('SET', KEYS[{key}], stored_{k}, 'KEEPTTL')\n  \
               if has_new_list then\n    \
                 call('PEXPIRE', KEYS[{list}], \
                   math.ceil((key_expires_at_{k} - ahead_{k} - now) / 1000) + 60000)\n  \
               end\n\
             end\n",
            self.packed("last"),
            self.tail(),
        )
    }

    /// A value with this time, up to when its key expires.
    fn packed(&self, time: &str) -> String {
        let k = self.number;
        let mut names = vec![format!("1, {time}_{k}"), format!("ahead_{k}")];
        names.extend(self.states());
        format!("pack('<B{}', {})", whole(names.len()), names.join(", "))
    }

    /// What is held, if anything is.
    fn tail(&self) -> String {
        let generations = self.generations();
        if generations.is_empty() {
            return "''".to_owned();
        }
        let held = self.members.iter().filter(|named| named.holds);
        let held: Vec<_> = held.map(Named::held).collect();
        let (held, whole) = (held.join(" + "), whole(generations.len()));
        format!(
            "({held} > 0 and pack('<{whole}', {}) or '')",
            generations.join(", ")
        )
    }

    fn write(&self) -> String {
        let (k, key) = (self.number, self.key);
        let ends = self.members.iter().map(|named| named.name("ends"));
        let ends = match &*ends.collect::<Vec<_>>() {
            [only] => only.clone(),
            ends => format!("math.max({})", ends.join(", ")),
        };
        let lists = self.members.iter().filter_map(|named| named.list);
        let lists: String = lists.map(|list| format!(", KEYS[{list}]")).collect();
        let mut text = format!("local value_{k} = {}\n", self.packed("now"));
        let mut tail = self.tail();
        if self.holds {
            text += &format!("local tail_{k} = {tail}\n");
            tail = format!("tail_{k}");
        }
        text + &format!(
            "write(stored_{k}, value_{k}, {tail}, now_{k}, ahead_{k}, {ends}, key_expires_at_{k}, KEYS[{key}]{lists})\n",
        )
    }

    /// What is replied as its value, in pieces: as it is written, or as it is stored.
    fn value(&self, charged: bool) -> Vec<String> {
        let k = self.number;
        match (charged, self.holds) {
            (true, true) => vec![format!("value_{k}"), format!("tail_{k}")],
            (true, false) => vec![format!("value_{k}")],
            (false, _) => vec![format!("stored_{k}")],
        }
    }
}

impl Named<'_> {
    fn name(&self, name: &str) -> String {
        format!("{name}_{}", self.number)
    }

    fn names(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.name(name)).collect()
    }

    /// What the frame says of this process, if it counts requests in flight.
    fn process(&self) -> Vec<String> {
        match self.member.in_flight {
            true => self.names(&["process", "number", "running"]),
            false => Vec::new(),
        }
    }

    /// Its cost and its numbers, in the order of the arguments.
    fn arguments(&self) -> Vec<String> {
        let own = [vec![self.name("cost")], self.names(self.member.parameters)];
        [own.concat(), self.process()].concat()
    }

    /// What is said of an admission that is settled or gives its turn back.
    fn admitted(&self) -> Vec<String> {
        match (self.member.settled, self.member.withdraws) {
            (true, _) => self.names(&["named", "taken"]),
            (_, true) => self.names(&["left_tick", "left_debt"]),
            _ => Vec::new(),
        }
    }

    fn state(&self) -> Vec<String> {
        self.names(self.member.state)
    }

    fn told(&self) -> Vec<String> {
        self.names(self.member.told)
    }

    /// A call of its function, with these arguments before the numbers, and this state.
    fn call(&self, ask: &str, before: &str, state: &[String]) -> String {
        let mut arguments = vec![before.to_owned()];
        arguments.extend(self.names(self.member.parameters));
        arguments.extend(self.process());
        arguments.extend(self.list.map(|list| format!("KEYS[{list}]")));
        arguments.extend_from_slice(state);
        format!("{}{ask}({})", self.member.function, arguments.join(", "))
    }

    /// A call of its function with its cost; where units are held, of the one around it.
    fn called(&self) -> String {
        let (k, cost) = (self.limit, self.name("cost"));
        if self.holds {
            let admission = match self.member.settled {
                true => self.names(&["named", "taken"]),
                false => vec!["0".to_owned(); 2],
            };
            let (rule, holding, held) = (
                self.name("rule"),
                self.names(HOLDING),
                self.names(GENERATIONS),
            );
            let names = [holding, admission, held, self.state()].concat().join(", ");
            return format!("held({rule}, last_{k}, now_{k}, {cost}, {names})");
        }
        match self.list {
            Some(_) => self.call("", &format!("now_{k}, {cost}"), &self.state()),
            None => {
                let before = format!("last_{k}, now_{k}, {cost}, must");
                self.call("", &before, &self.state())
            }
        }
    }

    /// Its rule as a function of its state, if units may be held beside it.
    fn rule(&self) -> String {
        if !self.holds {
            return String::new();
        }
        let (rule, others) = (self.name("rule"), ["...".to_owned()]);
        let head = format!("local function {rule}(last, now, cost, must, ...)\n");
        match self.list {
            Some(_) => {
                let charge = self.call("", "now, cost", &others);
                let ask = self.call("_ask", "now, cost, 0", &others);
                format!("{head}  if must then return {charge} end\n  return ({ask})\nend\n")
            }
            None => {
                let call = match self.member.holds_parts {
                    // A cost of nothing is charged too, so that the debt is counted by these
                    // numbers from now on, as what is held is.
                    true => self
                        .call("", "last, now, math.max(cost, 1), must", &others)
                        .replace(&self.name("unit"), "math.min(cost, 1)"),
                    false => self.call("", "last, now, cost, must", &others),
                };
                format!("{}{head}  return {call}\nend\n", self.in_parts())
            }
        }
    }

    /// Counts what is held in parts of a unit, if its rule does.
    fn in_parts(&self) -> String {
        if !self.member.holds_parts {
            return String::new();
        }
        let [cost, taken, unit, speed, rate] =
            ["cost", "taken", "unit", "speed", "rate"].map(|name| self.name(name));
        let held = ["earlier_held", "later_held"].map(|held| {
            let held = self.name(held);
            format!("{held} = math.min(bucket_converted({held}, {speed}, {rate}), 2 ^ 53 - 1)\n")
        });
        let mut text = held.concat();
        if self.member.settled {
            text += &format!("{taken} = ({taken} or 0) * {unit}\n");
        }
        text + &format!("{cost}, {unit} = {cost} * {unit}, 1\n")
    }

    /// How much is held beside its state.
    fn held(&self) -> String {
        match self.holds {
            true => self.names(&["earlier_held", "later_held"]).join(" + "),
            false => "0".to_owned(),
        }
    }

    /// Asks its rule whether the cost fits.
    fn ask(&self) -> String {
        let (k, cost, fits) = (self.limit, self.name("cost"), self.name("fits"));
        let mut text = String::new();
        if self.member.withdraws {
            // Only the last in line can leave it: then the debt is still what its admission left.
            let [debt, speed, rate, tick, left_tick, left_debt] =
                ["debt", "speed", "rate", "tick", "left_tick", "left_debt"]
                    .map(|name| self.name(name));
            text += &format!(
                "if op == SETTLE and ({speed} ~= {rate}\n  \
                   or {debt} + (math.floor(last_{k} / {tick}) - {left_tick}) * {rate} ~= {left_debt}) then\n  \
                   {cost} = 0\n\
                 end\n"
            );
        }
        let refused = format!("if not {fits} then {cost} = 0 end\n");
        if self.list.is_some() {
            let ask = format!("now_{k}, {cost}, {}", self.held());
            let names = [vec![fits.clone()], self.told()].concat().join(", ");
            text += &format!(
                "local {names} =\n  {}\n",
                self.call("_ask", &ask, &self.state())
            );
            if self.member.in_shadow {
                text += &refused;
            }
            return text;
        }
        let ends = self.name("ends");
        if self.member.in_shadow {
            text += &format!("local {fits} = {}\n{refused}", self.called());
            text += &format!("local {ends}\n_, {}\n", self.charged());
        } else {
            text += &format!("local {fits}, {ends}\n{fits}, {}\n", self.charged());
        }
        text
    }

    /// Assigns when its state ends, and its state.
    fn charged(&self) -> String {
        let held = match self.holds {
            true => self.names(GENERATIONS),
            false => Vec::new(),
        };
        let names = [vec![self.name("ends")], held, self.state()].concat();
        format!("{} =\n  {}", names.join(", "), self.called())
    }

    /// Charges a rule that keeps a list.
    fn charge(&self) -> String {
        if self.list.is_none() {
            return String::new();
        }
        let mut text = format!("local {}\n_, {}\n", self.name("ends"), self.charged());
        if self.holds {
            let ask = format!("now_{}, 0, {}", self.limit, self.held());
            let asked = self.call("_ask", &ask, &self.state());
            text += &format!("_, {} =\n  {asked}\n", self.told().join(", "));
        }
        text
    }
}

/// Whether a member refuses, for a condition.
fn refused(all: &[Limit<'_>]) -> String {
    let members = all.iter().flat_map(|limit| &limit.members);
    let counted = members.filter(|named| !named.member.in_shadow);
    let fits: Vec<_> = counted.map(|named| named.name("fits")).collect();
    match &*fits {
        [] => String::new(),
        [only] => format!(" or not {only}"),
        fits => format!(" or not ({})", fits.join(" and ")),
    }
}

/// Answers: with what is written if it is charged, else with what is stored.
fn reply(all: &[Limit<'_>], charged: bool) -> String {
    let members = || all.iter().flat_map(|limit| &limit.members);
    let bits = members().map(|named| {
        let bit = 1_u64 << (named.number - 1);
        format!("({} and {bit} or 0)", named.name("fits"))
    });
    let bits = bits.collect::<Vec<_>>().join(" + ");
    let holds = all.iter().any(|limit| limit.holds);
    let kind = match (charged, holds) {
        (false, _) => "0",
        (true, false) => "1",
        (true, true) => "3",
    };
    let mut numbers = vec![kind.to_owned(), bits];
    let told = members().filter(|_| !charged || holds);
    numbers.extend(told.flat_map(Named::told));
    let mut values = String::new();
    for limit in all {
        let pieces = limit.value(charged);
        numbers.push(format!("now + ahead_{}", limit.number));
        numbers.push(format!("#{}", pieces.join(" + #")));
        values += &format!(" .. {}", pieces.join(" .. "));
    }
    let (format, numbers) = (whole(numbers.len() - 1), numbers.join(", "));
    format!("return pack('<B{format}', {numbers}){values}\n")
}

#[cfg(test)]
mod tests;
