//! The text of one member, with names of its own.

use crate::algorithm::{Member, script::names::is_part_of_a_name};

use super::text::indented;

/// A member with its number: its `m.debt` becomes `m2_debt`, or `m2.debt` where there are too many
/// names for locals.
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

    /// Declares the names for which the closure says so. It is given each name as in the member's
    /// script, and as here.
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
        let held = (name == "judge before a settlement").then_some("held");
        let counted = ["cost", "spent"].into_iter().chain(held);
        let ones: String = counted
            .filter(|word| self.member.per_request && names_word(&text, word))
            .map(|word| format!("local {word} = {word} > 0 and 1 or 0\n"))
            .collect();
        match ones.is_empty() {
            true => text,
            false => format!("do\n{}end\n", indented(1, &(ones + &text))),
        }
    }
}

/// Whether the text names this variable, in more than a comment.
fn names_word(text: &str, variable: &str) -> bool {
    let is_other = |character| !is_part_of_a_name(character);
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"));
    code.flat_map(|line| line.split(is_other))
        .any(|word| word == variable)
}

/// The text with each `require('name')` replaced by a call of a function with the module's text.
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
