//! The text of the scripts: those of the members, with the reading and writing around them.

use crate::algorithm::{Member, Script};

mod each_of;
mod named;

use self::named::{Named, part};

pub(super) use each_of::compose_each_of;

/// So many locals a Lua function may have, less those that are here anyway.
const MOST_LOCALS: usize = 160;

/// What a stranger's state is answered with; its first word tells it from Redis's own errors.
pub(super) const UNREADABLE: &str = "UNREADABLE";

/// What a script does with the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Judges, and charges what all members admit.
    Decide,
    /// Judges, and charges nothing.
    Peek,
    /// The same, but a state of the future is settled, as by a decision that refuses.
    Settle,
    /// Gives units back.
    Refund,
    /// Takes back the charge of a request that was dropped while it was held back.
    Withdraw,
    /// Takes a charge back, at its own instant, if nothing was written since.
    TakeBack,
}

/// The script of these members, in Lua 5.1.
pub(super) fn compose(script: &Script, task: Task) -> String {
    let composed: Vec<_> = script.members().iter().enumerate().collect();
    let is_wide = names_of_all(script) > MOST_LOCALS;
    let members: Vec<_> = composed
        .iter()
        .map(|(index, member)| Named {
            member,
            number: index + 1,
            is_wide,
        })
        .collect();
    Composer {
        members,
        task,
        first_further_key: 2,
        is_alone: true,
    }
    .text()
}

fn names_of_all(script: &Script) -> usize {
    script
        .members()
        .iter()
        .map(|member| names(member).len())
        .sum()
}

/// All names that follow an `m.` in the script of a member, or are declared.
fn names(member: &Member) -> Vec<&str> {
    let mut names: Vec<&str> = declared(member).collect();
    if member.lanes.is_some() {
        names.extend(["lanes", "lanes_at", "lanes_end"]);
    }
    for (at, _) in member.source.match_indices("m.") {
        let after = &member.source[at + 2..];
        let end = after.find(|character: char| !is_part_of_a_name(character));
        let name = &after[..end.unwrap_or(after.len())];
        let is_a_name = !member.source[..at].ends_with(is_part_of_a_name);
        if is_a_name && !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn declared(member: &Member) -> impl Iterator<Item = &'static str> {
    let all = [
        member.parameters,
        member.state,
        member.aside,
        member.keys,
        member.withdraws,
    ];
    all.into_iter().flatten().copied()
}

fn is_part_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

struct Composer<'a> {
    members: Vec<Named<'a>>,
    task: Task,
    /// Its number in `KEYS`.
    first_further_key: usize,
    /// Whether these members are all that the script is about, so that their state is read once
    /// and for all.
    is_alone: bool,
}

impl Composer<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        for line in [
            self.libraries(),
            self.arguments(),
            self.state(),
            self.judgement(),
            self.change(),
            self.answer(),
        ] {
            text.push_str(&line);
        }
        text
    }

    fn each(&self, text: impl Fn(&Named<'_>) -> String) -> String {
        self.members.iter().map(text).collect()
    }

    fn all(&self, names: impl Fn(&Member) -> &'static [&'static str]) -> Vec<String> {
        let of_one = |member: &Named<'_>| member.names(names(member.member));
        self.members.iter().flat_map(of_one).collect()
    }

    fn libraries(&self) -> String {
        let mut libraries: Vec<&str> = Vec::new();
        for member in &self.members {
            let library = part(member.member.source, "library");
            if !libraries.contains(&library) {
                libraries.push(library);
            }
        }
        libraries.concat()
    }

    /// Reads the numbers and the keys, and the time. A step of Lua is not cheap: what is read is
    /// declared there.
    fn arguments(&self) -> String {
        let withdraws = matches!(self.task, Task::Withdraw | Task::TakeBack);
        let mut parameters = self.all(|member| member.parameters);
        if withdraws {
            parameters.extend(self.all(|member| member.withdraws));
        }
        let declarations = self.each(|named| {
            let mut elsewhere = named.member.parameters.to_vec();
            if withdraws {
                elsewhere.extend(named.member.withdraws);
            }
            if self.is_alone {
                elsewhere.extend(named.member.state.iter().chain(named.member.aside));
            }
            named.declaration(&elsewhere)
        });
        let mut names = vec!["cost".to_owned()];
        names.extend(parameters);
        let keys: String = (self.further_keys().iter())
            .map(|(name, key)| format!("{name} = {key}\n"))
            .collect();
        format!(
            "local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local moves, mends, relative
{declarations}{}{keys}{}",
            self.unpacked(&["cost"], &names, "numbers"),
            self.time(8 * names.len()),
        )
    }

    /// What the time is: for a charge that is taken back, its own.
    fn time(&self, bytes_before: usize) -> String {
        let (text, what_follows) = match self.task {
            Task::TakeBack => (include_str!("take_back.lua"), "all_but_the_charge"),
            _ => (include_str!("time.lua"), "all_but_the_time"),
        };
        text.replace(what_follows, &bytes_before.to_string())
    }

    /// Reads numbers into names, of which some are not the members'.
    fn unpacked(&self, others: &[&str], names: &[String], from: &str) -> String {
        let unpack = format!(
            "{} = struct.unpack('<{}', {from})\n",
            names.join(", "),
            "d".repeat(names.len())
        );
        match self.members.iter().any(|member| member.is_wide) {
            true => format!("local {}\n{unpack}", others.join(", ")),
            false => format!("local {unpack}"),
        }
    }

    /// The keys beside that of the state, each with its name.
    fn further_keys(&self) -> Vec<(String, String)> {
        let names = self.all(|member| member.keys).into_iter();
        names
            .zip(self.first_further_key..)
            .map(|(name, at)| (name, format!("KEYS[{at}]")))
            .collect()
    }

    /// Numbers as they are kept and answered.
    fn packed(numbers: &[String]) -> String {
        let format = "d".repeat(numbers.len());
        format!("struct.pack('<{format}', {})", numbers.join(", "))
    }

    /// What is answered to a charge, and kept: when it was, and the numbers of the members' states.
    /// Until when it is kept stands behind, with the numbers that are set aside.
    fn told_and_kept(&self) -> String {
        Self::packed(&self.behind("now", |member| member.state))
    }

    fn behind(
        &self,
        first: &str,
        names: impl Fn(&Member) -> &'static [&'static str],
    ) -> Vec<String> {
        let mut all = vec![first.to_owned()];
        all.extend(self.all(names));
        all
    }

    /// Reads what is kept under the key: all zeros if nothing is.
    fn state(&self) -> String {
        let numbers = self.all(|member| member.state);
        let aside = self.behind("kept_until", |member| member.aside);
        let kept = [&*numbers, &*aside].concat();
        // Negative or huge numbers, fractions, infinity and what is not a number are a stranger's:
        // a remainder of one of the last two is not a number either.
        let checked = [&*numbers, &["kept_until".to_owned()]].concat();
        let mut checks: Vec<_> = checked.iter().map(|name| format!("{name} >= 0")).collect();
        checks.push(format!("{} < 2 ^ 58", checked.join(" + ")));
        let fractions: Vec<_> = checked.iter().map(|name| format!("{name} % 1")).collect();
        checks.push(format!("{} == 0", fractions.join(" + ")));
        let bytes = 8 * (1 + kept.len());
        let unreadable = format!("return redis.error_reply('{UNREADABLE} state')");
        let few: usize = self.laned().map(|(_, [few, _])| 8 * few).sum();
        let (is_not, lanes) = match few {
            0 if self.laned().next().is_none() => ("~=", String::new()),
            _ => ("<", self.lanes(bytes, few, &unreadable)),
        };
        let nothing = match self.task {
            Task::Refund | Task::Withdraw => "if not state then return '' end\nmoves = true\n",
            Task::TakeBack => {
                "if not state or string.sub(state, 1, #charge) ~= charge then return '' end\nmoves = true\n"
            }
            _ => "",
        };
        let zeros = format!("state or '{}', 9", "\\0".repeat(bytes));
        let unpacked = match self.is_alone {
            true => self.unpacked(&["kept_until"], &kept, &zeros),
            false => format!(
                "local kept_until\n{} = struct.unpack('<{}', {zeros})\n",
                kept.join(", "),
                "d".repeat(kept.len())
            ),
        };
        format!(
            "local state = call('GET', key)
{nothing}if state and #state {is_not} {bytes} then {unreadable} end
{unpacked}{lanes}if not ({}) then {unreadable} end
",
            checks.join(" and "),
        )
    }

    /// The members that keep lanes.
    fn laned(&self) -> impl Iterator<Item = (&Named<'_>, [usize; 2])> {
        let members = self.members.iter();
        members.filter_map(|named| Some((named, named.member.lanes?)))
    }

    /// Where the lanes of each member stand: the first number aside tells how many there are.
    /// Mostly there are few of all, and then nothing is worked out.
    fn lanes(&self, bytes: usize, few_of_all: usize, unreadable: &str) -> String {
        let mut few_at = bytes + 1;
        let (mut few, mut any, mut which_are_many) = (String::new(), String::new(), String::new());
        for (named, [few_numbers, many_numbers]) in self.laned() {
            let [at, end, which] =
                ["lanes_at", "lanes_end", named.member.aside[0]].map(|name| named.name(name));
            let few_end = few_at + 8 * few_numbers;
            few += &format!("{at}, {end} = {few_at}, {few_end}\n");
            few_at = few_end;
            which_are_many += &format!(" or {which} == 0");
            let length = match few_numbers == many_numbers {
                true => (8 * few_numbers).to_string(),
                false => format!(
                    "({which} == 0 and {} or {})",
                    8 * many_numbers,
                    8 * few_numbers
                ),
            };
            any += &format!(
                "  {at} = lanes_end\n  lanes_end = lanes_end + {length}\n  {end} = lanes_end\n"
            );
        }
        format!(
            "{few}if state and (#state ~= {}{which_are_many}) then
  local lanes_end = {}
{any}  if #state ~= lanes_end - 1 then {unreadable} end
end
",
            bytes + few_of_all,
            bytes + 1,
        )
    }

    /// Whether it needs a state to work on, and answers nothing.
    fn gives_back(&self) -> bool {
        matches!(self.task, Task::Refund | Task::Withdraw | Task::TakeBack)
    }

    fn judgement(&self) -> String {
        self.each(|member| member.part("judge"))
    }

    /// Changes the state, and writes it.
    fn change(&self) -> String {
        let mut text = match self.task {
            Task::Peek => return String::new(),
            Task::Settle => "if mends then\n".to_owned(),
            Task::Decide => format!(
                "if {} and cost > 0 then\n{}{}  return kept\nend\nif mends then\n",
                self.all_fit(),
                self.charge(),
                self.write(),
            ),
            Task::Refund => format!(
                "do\n{}",
                self.each(|member| match member.member.refunds {
                    true => member.part("refund"),
                    false => String::new(),
                }),
            ),
            Task::Withdraw => format!(
                "do\n{}",
                self.each(|member| match member.member.withdraws {
                    [] => String::new(),
                    _ => member.part("withdraw"),
                }),
            ),
            Task::TakeBack => format!(
                "do\n{}",
                self.each(|member| match member.member.withdraws {
                    [] if member.member.refunds => member.part("refund"),
                    [] => String::new(),
                    _ => member.part("withdraw"),
                }),
            ),
        };
        text += &self.write();
        text + "end\n"
    }

    fn all_fit(&self) -> String {
        let fits = self.members.iter().map(|member| member.name("fits"));
        fits.collect::<Vec<_>>().join(" and ")
    }

    fn charge(&self) -> String {
        self.each(|member| member.part("charge"))
    }

    fn write(&self) -> String {
        let mut text = String::new();
        let overs: Vec<_> = (self.members.iter())
            .map(|member| member.name("over"))
            .collect();
        text += &self.each(|member| member.part("forget"));
        let latest = match &*overs {
            [over] => over,
            [first, others @ ..] => {
                text += &format!("local over = {first}\n");
                for over in others {
                    text += &format!("if {over} > over then over = {over} end\n");
                }
                "over"
            }
            [] => "now",
        };
        let further: String = (self.further_keys().iter())
            .map(|(_, key)| format!("    call(command, {key}, expires)\n"))
            .collect();
        let aside = Self::packed(&self.behind("kept_until", |member| member.aside));
        text += &format!("  local kept = {}\n", self.told_and_kept());
        let changed: Vec<_> = self.laned().map(|(named, _)| named.name("lanes")).collect();
        let lanes = self.laned().map(|(named, _)| {
            let [lanes, at, end] = ["lanes", "lanes_at", "lanes_end"].map(|name| named.name(name));
            format!(" .. ({lanes} or string.sub(state, {at}, {end} - 1))")
        });
        let is_the_same = match &*changed {
            [] => String::new(),
            _ => format!(" and not ({})", changed.join(" or ")),
        };
        text + &include_str!("keep.lua")
            .replace("the_latest", latest)
            .replace(" and lanes_are_the_same", &is_the_same)
            .replace(" .. lanes", &lanes.collect::<String>())
            .replace("what_is_aside", &aside)
            .replace("    -- further keys\n", &further)
    }

    /// A charge is answered with what is kept; anything else with the time as a negative number,
    /// one bit for each member that admits, and what the members tell.
    fn answer(&self) -> String {
        if self.gives_back() {
            return "return ''\n".to_owned();
        }
        let tell = self.each(|member| member.part("tell"));
        let mut told = vec!["-1 - now".to_owned(), "admits".to_owned()];
        told.extend(self.all(|member| member.told(false)));
        let mut admits = String::new();
        let mut bit = 1_u64;
        for member in &self.members {
            let fits = member.name("fits");
            admits += &format!("if {fits} then admits = admits + {bit} end\n");
            bit <<= 1;
        }
        format!(
            "{tell}local admits = 0\n{admits}return {}\n",
            Self::packed(&told)
        )
    }
}
