//! The text of the scripts: those of the members, with the reading and writing around them.

use crate::algorithm::{Member, Script};

/// So many locals a Lua function may have, less those that are here anyway.
const MOST_LOCALS: usize = 160;

/// What a stranger's state is answered with; its first word tells it from Redis's own errors.
pub(super) const UNREADABLE: &str = "UNREADABLE";

/// What a script does with the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Judges, and charges if asked to.
    Decide,
    /// Gives units back.
    Refund,
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
    Composer { members, task }.text()
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
    let all = [member.parameters, member.state, member.strings, member.keys];
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
        let parameters = self.all(|member| member.parameters);
        let mut names = vec!["now".to_owned(), "cost".to_owned(), "looks".to_owned()];
        let format = "d".repeat(names.len() + parameters.len());
        names.extend(parameters);
        let keys = self.all(|member| member.keys);
        let keys = keys.iter().zip(2..);
        let keys: String = keys
            .map(|(key, at)| format!("{key} = KEYS[{at}]\n"))
            .collect();
        format!(
            "local now, cost, looks\n{}{} = struct.unpack('<{format}', ARGV[1])\n{keys}{}",
            self.each(|member| member.declaration()),
            names.join(", "),
            include_str!("time.lua"),
        )
    }

    /// The numbers of the state that are kept: when, until when, who admitted, and those of the members.
    fn layout(&self) -> (Vec<String>, String) {
        let names = self.all(|member| member.state);
        let format = format!("<dd{}{}", self.bits_format(), "d".repeat(names.len()));
        (names, format)
    }

    fn bits_format(&self) -> char {
        if self.members.len() > 8 { 'd' } else { 'B' }
    }

    fn bytes_of_the_numbers(&self, numbers: usize) -> usize {
        let bits = if self.members.len() > 8 { 8 } else { 1 };
        16 + bits + 8 * numbers
    }

    /// Reads what is kept under the key: all zeros if nothing is.
    fn state(&self) -> String {
        let (numbers, format) = self.layout();
        let strings = self.all(|member| member.strings);
        let bytes = self.bytes_of_the_numbers(numbers.len());
        let mut fresh = vec!["0"; numbers.len()];
        fresh.extend(vec!["''"; strings.len()]);
        let kept: Vec<_> = numbers.iter().chain(&strings).map(String::as_str).collect();
        let unreadable = format!("return redis.error_reply('{UNREADABLE} state')");
        let mut lengths: Vec<_> = (1..=strings.len())
            .map(|at| format!("length{at}"))
            .collect();
        let mut read = vec!["_".to_owned(), "kept_until".to_owned(), "_".to_owned()];
        read.extend(numbers.iter().cloned());
        let mut text = format!(
            "local state = redis.call('GET', KEYS[1])\nlocal kept_until = 0\n{} = {}\nif state then\n",
            kept.join(", "),
            fresh.join(", "),
        );
        match strings.is_empty() {
            true => {
                text += &format!("  if #state ~= {bytes} then {unreadable} end\n  local _\n");
                text += &format!("  {} = struct.unpack('{format}', state)\n", read.join(", "));
            }
            false => {
                let fewest = bytes + 2 * strings.len();
                read.append(&mut lengths.clone());
                text += &format!(
                    "  if #state < {fewest} then {unreadable} end\n  local _, at, {}\n",
                    lengths.join(", ")
                );
                text += &format!(
                    "  {} = struct.unpack('{format}{}', state)\n  at = {}\n",
                    read.join(", "),
                    "H".repeat(strings.len()),
                    fewest + 1,
                );
                for (string, length) in strings.iter().zip(lengths.drain(..)) {
                    text += &format!(
                        "  {string} = string.sub(state, at, at + {length} - 1)\n  at = at + {length}\n"
                    );
                }
                text += &format!("  if at ~= #state + 1 then {unreadable} end\n");
            }
        }
        let checks: Vec<_> = numbers.iter().map(|name| format!("{name} >= 0")).collect();
        text += &format!(
            "  if not ({}) then {unreadable} end\nend\n",
            checks.join(" and ")
        );
        if self.task == Task::Refund {
            text += "if not state then return '' end\n";
        }
        text
    }

    fn judgement(&self) -> String {
        let mut bit = 1_u64;
        let mut text = String::from("local mends, fitting = false, 0\n");
        for member in &self.members {
            text += &member.part("judge");
            text += &format!(
                "if {} then fitting = fitting + {bit} end\n",
                member.name("fits")
            );
            bit <<= 1;
        }
        text
    }

    /// Changes the state, and writes it.
    fn change(&self) -> String {
        let charge = match self.task {
            Task::Decide => format!(
                "local charges = fitting == {} and cost > 0 and looks == 0\nif charges then\n{}end\nif charges or mends and looks == 0 then\n",
                (1_u64 << self.members.len()) - 1,
                self.each(|member| member.part("charge")),
            ),
            Task::Refund => format!(
                "local charges = false\nif state then\n{}",
                self.each(|member| match member.member.refunds {
                    true => member.part("refund"),
                    false => String::new(),
                }),
            ),
        };
        let forget = self.each(|member| {
            let over = member.name("over");
            format!(
                "{}if {over} > over then over = {over} end\n",
                member.part("forget")
            )
        });
        let kept = format!("  local kept = {}\n", self.packed_state("kept_until"));
        let answer = match (self.task, self.is_plain()) {
            (Task::Decide, true) => "  if charges then return kept end\n",
            _ => "",
        };
        format!(
            "{charge}  local over = 0\n{forget}{}{kept}{}{answer}end\n",
            include_str!("expiry.lua"),
            include_str!("keep.lua"),
        )
    }

    /// Whether what is told is what is kept.
    fn is_plain(&self) -> bool {
        self.members
            .iter()
            .all(|member| member.member.tells.is_none())
    }

    fn packed_state(&self, kept_until: &str) -> String {
        let (numbers, mut format) = self.layout();
        let strings = self.all(|member| member.strings);
        let mut values = vec![
            "now".to_owned(),
            kept_until.to_owned(),
            "fitting".to_owned(),
        ];
        values.extend(numbers);
        format += &"H".repeat(strings.len());
        values.extend(strings.iter().map(|string| format!("#{string}")));
        let mut packed = format!("struct.pack('{format}', {})", values.join(", "));
        for string in strings {
            packed += &format!(" .. {string}");
        }
        packed
    }

    fn answer(&self) -> String {
        if self.task == Task::Refund {
            return "return ''\n".to_owned();
        }
        let told = self.all(Member::told);
        let mut values = vec!["now".to_owned(), "0".to_owned(), "fitting".to_owned()];
        let format = format!("<dd{}{}", self.bits_format(), "d".repeat(told.len()));
        values.extend(told);
        let tell = self.each(|member| member.part("tell"));
        format!(
            "{tell}return struct.pack('{format}', {})\n",
            values.join(", ")
        )
    }
}
