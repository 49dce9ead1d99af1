//! The text of the scripts: those of the members, with the reading and writing around them.

use crate::algorithm::{Member, Script};

mod each_of;

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
        member.keys,
        member.withdraws,
    ];
    all.into_iter().flatten().copied()
}

fn is_part_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// A member whose names are its own: `m.debt` is `m2_debt`, or `m2.debt` where there are too many for locals.
struct Named<'a> {
    member: &'a Member,
    number: usize,
    is_wide: bool,
}

impl Named<'_> {
    fn name(&self, name: &str) -> String {
        let separator = if self.is_wide { '.' } else { '_' };
        format!("m{}{separator}{name}", self.number)
    }

    fn names(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.name(name)).collect()
    }

    fn declaration(&self) -> String {
        match self.is_wide {
            true => format!("local m{} = {{}}\n", self.number),
            false => format!("local {}\n", self.names(&names(self.member)).join(", ")),
        }
    }

    /// A part of the script with the names of this member.
    fn part(&self, name: &str) -> String {
        let mut text = String::new();
        let mut rest = part(self.member.source, name);
        while let Some(at) = rest.find("m.") {
            let is_a_name = !rest[..at].ends_with(is_part_of_a_name);
            text.push_str(&rest[..at]);
            rest = &rest[at + 2..];
            text.push_str(&match is_a_name {
                true => self.name(""),
                false => "m.".to_owned(),
            });
        }
        text + rest
    }
}

/// The lines below `--- name`, up to the next such line.
fn part<'a>(source: &'a str, name: &str) -> &'a str {
    let mut parts = source.split("--- ").skip(1);
    let part = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    part.unwrap_or("")
}

struct Composer<'a> {
    members: Vec<Named<'a>>,
    task: Task,
    /// Its number in `KEYS`.
    first_further_key: usize,
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

    /// Reads the numbers and the keys, and the time.
    fn arguments(&self) -> String {
        let mut parameters = self.all(|member| member.parameters);
        if self.task == Task::Withdraw {
            parameters.extend(self.all(|member| member.withdraws));
        }
        let mut names = vec!["cost".to_owned()];
        names.extend(parameters);
        let format = "d".repeat(names.len());
        let keys: String = (self.further_keys().iter())
            .map(|(name, key)| format!("{name} = {key}\n"))
            .collect();
        format!(
            "local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]\nlocal now, cost\n{}{} = struct.unpack('<{format}', numbers)\n{keys}{}",
            self.each(|member| member.declaration()),
            names.join(", "),
            include_str!("time.lua").replace("all_but_the_time", &(8 * names.len()).to_string()),
        )
    }

    /// The keys beside that of the state, each with its name.
    fn further_keys(&self) -> Vec<(String, String)> {
        let names = self.all(|member| member.keys).into_iter();
        names
            .zip(self.first_further_key..)
            .map(|(name, at)| (name, format!("KEYS[{at}]")))
            .collect()
    }

    /// What is kept, and what is answered to a charge: when, until when it is kept (both in microseconds), and the
    /// numbers of the members' states. Any other answer has, as a negative number, one bit for each member that
    /// admits in the place of the second.
    fn packed(&self, second: &str, numbers: &[String]) -> String {
        let format = "d".repeat(2 + numbers.len());
        format!(
            "struct.pack('<{format}', now, {second}, {})",
            numbers.join(", ")
        )
    }

    /// Reads what is kept under the key: all zeros if nothing is.
    fn state(&self) -> String {
        let numbers = self.all(|member| member.state);
        let names = numbers.join(", ");
        let zeros = vec!["0"; numbers.len()].join(", ");
        // Negative or huge numbers, fractions, infinity and what is not a number are a stranger's: a remainder of one of
        // the last two is not a number either.
        let kept: Vec<_> = ["kept_until"]
            .into_iter()
            .chain(numbers.iter().map(String::as_str))
            .collect();
        let mut checks: Vec<_> = kept.iter().map(|name| format!("{name} >= 0")).collect();
        checks.push(format!("{} < 2 ^ 58", kept.join(" + ")));
        let fractions: Vec<_> = kept.iter().map(|name| format!("{name} % 1")).collect();
        checks.push(format!("{} == 0", fractions.join(" + ")));
        let bytes = 8 * (2 + numbers.len());
        let unreadable = format!("return redis.error_reply('{UNREADABLE} state')");
        let mut text = format!(
            "local state = call('GET', key)
local kept_until
if state then
  if #state ~= {bytes} then {unreadable} end
  kept_until, {names} = struct.unpack('<{}', state, 9)
  if not ({}) then {unreadable} end
else
  kept_until, {names} = 0, {zeros}
end
",
            "d".repeat(1 + numbers.len()),
            checks.join(" and "),
        );
        if self.gives_back() {
            text += "if not state then return '' end\nmoves = true\n";
        }
        text
    }

    /// Whether it needs a state to work on, and answers nothing.
    fn gives_back(&self) -> bool {
        matches!(self.task, Task::Refund | Task::Withdraw)
    }

    fn judgement(&self) -> String {
        format!(
            "local mends = false\n{}",
            self.each(|member| member.part("judge"))
        )
    }

    /// Changes the state, and writes it.
    fn change(&self) -> String {
        let mut text = match self.task {
            Task::Peek => return String::new(),
            Task::Settle => "if mends then\n".to_owned(),
            Task::Decide => format!(
                "local charges = cost > 0 and {}\nif charges then\n{}end\nif charges or mends then\n",
                self.all_fit(),
                self.charge(),
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
        };
        text += &self.write();
        if self.task == Task::Decide {
            text += "  if charges then return kept end\n";
        }
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
        for (index, member) in self.members.iter().enumerate() {
            let over = member.name("over");
            text += &member.part("forget");
            text += &match index {
                0 => format!("local over = {over}\n"),
                _ => format!("if {over} > over then over = {over} end\n"),
            };
        }
        let numbers = self.all(|member| member.state);
        let further: String = (self.further_keys().iter())
            .map(|(_, key)| format!("    call('PEXPIRE' .. at, {key}, expires)\n"))
            .collect();
        text += include_str!("expiry.lua");
        text += &format!("  local kept = {}\n", self.packed("kept_until", &numbers));
        text + &include_str!("keep.lua").replace("    -- further keys\n", &further)
    }

    fn answer(&self) -> String {
        if self.gives_back() {
            return "return ''\n".to_owned();
        }
        let tell = self.each(|member| member.part("tell"));
        let told = self.all(|member| member.told(false));
        let mut admits = String::new();
        let mut bit = 1_u64;
        for member in &self.members {
            let fits = member.name("fits");
            admits += &format!("if {fits} then admits = admits + {bit} end\n");
            bit <<= 1;
        }
        format!(
            "{tell}local admits = 0\n{admits}return {}\n",
            self.packed("-1 - admits", &told)
        )
    }
}
