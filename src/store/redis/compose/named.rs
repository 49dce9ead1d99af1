//! The text of one member, with names of its own.

use crate::algorithm::{Member, is_part_of_a_name};

use super::text::indented;

/// A member whose names are its own: `m.debt` is `m2_debt`, or `m2.debt` where there are too many
/// for locals.
pub(super) struct Named<'a> {
    pub(super) member: &'a Member,
    pub(super) number: usize,
    pub(super) is_wide: bool,
}

impl Named<'_> {
    pub(super) fn name(&self, name: &str) -> String {
        let separator = if self.is_wide { '.' } else { '_' };
        format!("m{}{separator}{name}", self.number)
    }

    pub(super) fn names(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.name(name)).collect()
    }

    /// Declares those of its names that are to be: each is told as it is in the script of the
    /// member, and here.
    pub(super) fn declaration(&self, is_declared: impl Fn(&str, &str) -> bool) -> String {
        if self.is_wide {
            return format!("local m{} = {{}}\n", self.number);
        }
        let mut names = self.member.names();
        names.retain(|name| is_declared(name, &self.name(name)));
        match &*names {
            [] => String::new(),
            names => super::wrapped("local ", &self.names(names), ", ", "\n"),
        }
    }

    /// A part of the script with the names of this member, and with what it requires.
    pub(super) fn part(&self, name: &str) -> String {
        let mut text = String::new();
        let mut rest = self.member.part(name);
        while let Some(at) = rest.find("m.") {
            let is_a_name = !rest[..at].ends_with(is_part_of_a_name);
            text.push_str(&rest[..at]);
            rest = &rest[at + 2..];
            text.push_str(&match is_a_name {
                true => self.name(""),
                false => "m.".to_owned(),
            });
        }
        text.push_str(rest);
        let modules = self.member.modules.iter();
        let text = modules.fold(text, |text, (name, module)| required(&text, name, module));
        match self.member.per_request && names_cost(&text) {
            true => format!(
                "do\n{}end\n",
                indented(1, &format!("local cost = cost > 0 and 1 or 0\n{text}"))
            ),
            false => text,
        }
    }
}

/// All names that follow an `m.` in the script of a member, or are declared.
pub(super) fn names(member: &Member) -> Vec<&str> {
    let mut names: Vec<&str> = declared(member).collect();
    if member.tail.is_some() {
        names.extend(["tail", "tail_at", "tail_end"]);
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
        member.private_state,
        member.keys,
    ];
    all.into_iter().flatten().copied()
}

/// Whether the text names the cost.
fn names_cost(text: &str) -> bool {
    let is_other = |character| !is_part_of_a_name(character);
    text.split(is_other).any(|word| word == "cost")
}

fn is_part_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The lines below `--- name`, up to the next such line.
pub(super) fn part<'a>(source: &'a str, name: &str) -> &'a str {
    let mut parts = source.split("--- ").skip(1);
    let part = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    part.unwrap_or("")
}

/// The text with each `require('name')` as a call of a function of what this module says.
fn required(text: &str, name: &str, module: &str) -> String {
    let required = format!("require('{name}')");
    let is_head = |line: &&str| line.starts_with("--") || line.is_empty();
    let body: String = (module.lines().skip_while(is_head))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut lines = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let body = || indented(indent / 2 + 1, &format!("-- {name}.lua\n{body}"));
        if line.contains(&required) {
            let called = format!("(function()\n{}{}end)()", body(), &line[..indent]);
            lines.push_str(&line.replace(&required, &called));
        } else {
            lines.push_str(line);
        }
        lines.push('\n');
    }
    lines
}
