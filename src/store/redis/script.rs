//! The text that Redis runs: the frame, the files of the rules, and the lines that name members,
//! once for each of them. The folder `sent` shows scripts of each kind.

use crate::algorithm::{Member, Script};

const FRAME: &str = include_str!("frame.lua");
const HELD: &str = include_str!("../../algorithm/held.lua");

/// The code of the error for a value that no script wrote; Redis has none of this name.
pub(super) const UNREADABLE: &str = "UNREADABLE";

/// How many names of members a script may have. Lua allows 200 locals in a function, and the rest
/// of a script needs some too. A tuple with more has them in a table.
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
}

/// A limit: one state, of one member or those of a tuple.
struct Limit<'a> {
    number: usize,
    /// The number of its state in `KEYS`.
    key: usize,
    members: Vec<Named<'a>>,
}

/// Whether one script can be about all of these.
pub(super) fn fits_one_script(limits: &[Script]) -> bool {
    limits
        .iter()
        .flat_map(Script::members)
        .map(names)
        .sum::<usize>()
        <= MAX_NAMES
}

fn names(member: &Member) -> usize {
    let held = if member.settled { 6 } else { 0 };
    7 + held + member.parameters.len() + member.numbers() + member.told()
}

/// The script that decides about one or several limits, in Lua 5.1.
pub(super) fn text(limits: &[Script]) -> String {
    let (mut all, mut number, mut key) = (Vec::new(), 0, 0);
    for (limit, script) in (1..).zip(limits) {
        key += 1;
        let of_state = key;
        let members = script.members().iter().map(|member| {
            number += 1;
            let list = member.told.is_some().then(|| {
                key += 1;
                key
            });
            Named {
                member,
                number,
                limit,
                list,
            }
        });
        all.push(Limit {
            members: members.collect(),
            number: limit,
            key: of_state,
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
    if members().any(|named| named.member.settled) {
        sources.push(HELD);
    }
    for source in sources {
        text += "\n";
        text += source.trim_start_matches('\n');
    }
    let mut lines = lines(&all);
    if !fits_one_script(limits) {
        lines = in_a_table(&lines);
    }
    text + "\n" + &wrapped(&lines)
}

/// The same lines, with the names of members and limits in a table.
fn in_a_table(lines: &str) -> String {
    let is_numbered = |token: &str| {
        let name = token.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
        let number = name.rsplit_once('_').map_or("", |(_, number)| number);
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    };
    let mut text = "local m = {}\n".to_owned();
    for line in lines.lines() {
        let assigned = match line.strip_prefix("local ") {
            Some(names) if !names.contains(['=', '(']) => continue,
            Some(assigned) => assigned,
            None => line,
        };
        for token in
            assigned.split_inclusive(|end: char| !end.is_ascii_alphanumeric() && end != '_')
        {
            text += if is_numbered(token) { "m." } else { "" };
            text += token;
        }
        text += "\n";
    }
    text
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
    let all: Vec<_> = members.iter().flat_map(|named| named.arguments()).collect();
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

/// The format of whole numbers, of 7 bytes each: none is negative, a fraction or not a number,
/// whoever wrote it.
fn whole(count: usize) -> String {
    "I7".repeat(count)
}

impl Limit<'_> {
    fn states(&self) -> Vec<String> {
        self.members.iter().flat_map(Named::state).collect()
    }

    fn read(&self, is_alone: bool) -> String {
        let (k, key, states) = (self.number, self.key, self.states());
        let names = [
            vec![format!("last_{k}"), format!("ahead_{k}")],
            states.clone(),
        ]
        .concat();
        let (count, names) = (1 + names.len(), names.join(", "));
        let mut text = format!(
            "local stored_{k} = call('GET', KEYS[{key}])\n\
             local now_{k}, {names}, key_expires_at_{k} = now, now{zeros}\n\
             if stored_{k} then\n  \
               if #stored_{k} ~= {bytes} or string.byte(stored_{k}) ~= 1 then \
                 error('{UNREADABLE} state') end\n  \
               {names}, key_expires_at_{k} = unpack('<{whole}', stored_{k}, 2)\n  \
               if math.max({names}) >= 2 ^ 53 then error('{UNREADABLE} state') end\n  \
               now_{k}, ahead_{k} = catch_up(KEYS[{key}], last_{k}, ahead_{k}, key_expires_at_{k})\n\
             end\n",
            zeros = ", 0".repeat(count - 1),
            bytes = 1 + 7 * count,
            whole = whole(count),
        );
        if is_alone {
            text += "if op == TAKE_BACK then now_1 = last_1 end\n\
                if op == TAKE_BACK and string.sub(stored_1 or '', 1, #ARGV[2]) ~= ARGV[2] then return '' end\n";
        }
        // The whole state is written where a list is: what others hold is not yet converted then.
        for named in self.members.iter().filter(|named| named.list.is_some()) {
            text += &named.spend(&self.packed(1, &states), key);
        }
        for named in self.members.iter().filter(|named| named.list.is_none()) {
            text += &named.rule();
        }
        text
    }

    /// The numbers of the value, after so many bytes.
    fn packed(&self, bytes: usize, states: &[String]) -> String {
        let k = self.number;
        let (byte, time) = match bytes {
            0 => ("B", format!("1, now_{k}")),
            _ => ("", format!("last_{k}")),
        };
        let mut names = vec![time, format!("ahead_{k}")];
        names.extend_from_slice(states);
        let format = format!("{byte}{}", whole(2 + states.len()));
        format!("pack('<{format}', {})", names.join(", "))
    }

    fn write(&self) -> String {
        let (k, key) = (self.number, self.key);
        let ends: Vec<_> = (self.members.iter())
            .map(|named| named.name("ends"))
            .collect();
        let ends = match &*ends {
            [only] => only.clone(),
            ends => format!("math.max({})", ends.join(", ")),
        };
        let lists = self.members.iter().filter_map(|named| named.list);
        let lists: String = lists.map(|list| format!(", KEYS[{list}]")).collect();
        format!(
            "local value_{k} = {}\n\
             write(stored_{k}, value_{k}, now_{k}, ahead_{k}, {ends}, key_expires_at_{k}, KEYS[{key}]{lists})\n",
            self.packed(0, &self.states()),
        )
    }
}

impl Named<'_> {
    fn name(&self, name: &str) -> String {
        format!("{name}_{}", self.number)
    }

    fn names<'n>(&self, names: impl IntoIterator<Item = &'n &'static str>) -> Vec<String> {
        names.into_iter().map(|name| self.name(name)).collect()
    }

    /// Its cost and its numbers, in the order of the arguments.
    fn arguments(&self) -> Vec<String> {
        let mut names = vec![self.name("cost")];
        names.extend(self.names(&*self.member.parameters));
        if self.member.settled {
            names.extend(self.names(&["at_most", "lasts", "matters_for"]));
        }
        if self.member.in_flight {
            names.extend(self.names(&["process", "number", "running"]));
        }
        names
    }

    /// What is said of an admission that is settled or gives its turn back.
    fn admitted(&self) -> Vec<String> {
        match (self.member.settled, self.member.withdraws) {
            (true, _) => self.names(&["named", "taken"]),
            (_, true) => self.names(&["left_tick", "left_debt"]),
            _ => Vec::new(),
        }
    }

    /// The numbers of its state: the generations first, if it holds units.
    fn state(&self) -> Vec<String> {
        let mut names = Vec::new();
        if self.member.settled {
            names.extend(self.names(&[
                "earlier_start",
                "earlier_end",
                "earlier_held",
                "later_start",
                "later_end",
                "later_held",
            ]));
        }
        names.extend(self.names(&*self.member.state));
        names
    }

    fn told(&self) -> Vec<String> {
        self.member
            .told
            .as_ref()
            .map_or_else(Vec::new, |told| self.names(&**told))
    }

    /// A call of its function, with these arguments before the numbers, and this state.
    fn call(&self, ask: &str, before: &str, state: &[String]) -> String {
        let mut arguments = vec![before.to_owned()];
        arguments.extend(self.names(&*self.member.parameters));
        if self.member.in_flight {
            arguments.extend(self.names(&["process", "number", "running"]));
        }
        arguments.extend(self.list.map(|list| format!("KEYS[{list}]")));
        arguments.extend_from_slice(state);
        format!("{}{ask}({})", self.member.function, arguments.join(", "))
    }

    /// A call of its function with its cost; where units are held, of the one around it.
    fn called(&self) -> String {
        let (k, state) = (self.limit, self.state());
        let cost = self.name("cost");
        if self.member.settled {
            let of_it = ["at_most", "lasts", "matters_for", "named", "taken"];
            let names = [self.names(&of_it), state].concat().join(", ");
            let rule = self.name("rule");
            return format!("held({rule}, last_{k}, now_{k}, {cost}, {names})");
        }
        match self.list {
            Some(_) => self.call("", &format!("now_{k}, {cost}"), &state),
            None => self.call("", &format!("last_{k}, now_{k}, {cost}, must"), &state),
        }
    }

    /// Its rule as a function of its state, if it holds units.
    fn rule(&self) -> String {
        if !self.member.settled {
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
        let scaled = format!("{cost} * {unit}, ({taken} or 0) * {unit}, 1");
        format!("{}{cost}, {taken}, {unit} = {scaled}\n", held.concat())
    }

    /// Spends what was held in generations that have ended, if the rule keeps a list: it is written
    /// whatever is decided.
    fn spend(&self, value: &str, key: usize) -> String {
        let mut text = self.rule();
        let (true, Some(list)) = (self.member.settled, self.list) else {
            return text;
        };
        let k = self.limit;
        let [e_end, e_held, l_end, l_held] =
            ["earlier_end", "earlier_held", "later_end", "later_held"].map(|name| self.name(name));
        let state = self.names(&*self.member.state).join(", ");
        text += &format!(
            "if ({e_held} > 0 and {e_end} <= now_{k}) or ({l_held} > 0 and {l_end} <= now_{k}) then\n  \
               _, {e_held}, {l_held}, {state} = held_spent({}, last_{k}, now_{k}, \
                 {e_end}, {e_held}, {l_end}, {l_held}, {state})\n  \
               call('SETRANGE', KEYS[{key}], 1, {value})\n  \
               stored_{k} = call('GET', KEYS[{key}])\n  \
               if has_new_list then\n    \
                 call('PEXPIRE', KEYS[{list}], \
                   math.ceil((key_expires_at_{k} - ahead_{k} - now) / 1000) + 60000)\n  \
               end\n\
             end\n",
            self.name("rule"),
        );
        text
    }

    /// How many units are held beside its state.
    fn beside(&self) -> String {
        match self.member.settled {
            true => format!(
                "{} + {}",
                self.name("earlier_held"),
                self.name("later_held")
            ),
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
            let ask = format!("now_{k}, {cost}, {}", self.beside());
            let state = self.names(&*self.member.state);
            let names = [vec![fits.clone()], self.told()].concat().join(", ");
            text += &format!("local {names} =\n  {}\n", self.call("_ask", &ask, &state));
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
        let names = [vec![self.name("ends")], self.state()].concat();
        format!("{} =\n  {}", names.join(", "), self.called())
    }

    /// Charges a rule that keeps a list.
    fn charge(&self) -> String {
        if self.list.is_none() {
            return String::new();
        }
        let mut text = format!("local {}\n_, {}\n", self.name("ends"), self.charged());
        if self.member.settled {
            let state = self.names(&*self.member.state);
            let ask = format!("now_{}, 0, {}", self.limit, self.beside());
            let told = self.told().join(", ");
            text += &format!("_, {told} =\n  {}\n", self.call("_ask", &ask, &state));
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
    let mut numbers = vec![u8::from(charged).to_string(), bits];
    let told = members().filter(|named| !charged || named.member.settled);
    numbers.extend(told.flat_map(Named::told));
    let mut values = String::new();
    for Limit { number: k, .. } in all {
        let value = match charged {
            true => format!("value_{k}"),
            false => format!("(stored_{k} or '')"),
        };
        numbers.extend([format!("now + ahead_{k}"), format!("#{value}")]);
        values += &format!(" .. {value}");
    }
    let (format, numbers) = (whole(numbers.len() - 1), numbers.join(", "));
    format!("return pack('<B{format}', {numbers}){values}\n")
}

#[cfg(test)]
mod tests;
