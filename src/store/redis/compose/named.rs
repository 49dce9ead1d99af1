//! The text of one member, with names of its own.

use crate::algorithm::Member;

use super::{is_part_of_a_name, names};

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

    /// Declares its names, but for those that are declared where they are read.
    pub(super) fn declaration(&self, elsewhere: &[&str]) -> String {
        if self.is_wide {
            return format!("local m{} = {{}}\n", self.number);
        }
        let mut names = names(self.member);
        names.retain(|name| !elsewhere.contains(name));
        match &*names {
            [] => String::new(),
            names => format!("local {}\n", self.names(names).join(", ")),
        }
    }

    /// A part of the script with the names of this member.
    pub(super) fn part(&self, name: &str) -> String {
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
pub(super) fn part<'a>(source: &'a str, name: &str) -> &'a str {
    let mut parts = source.split("--- ").skip(1);
    let part = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    part.unwrap_or("")
}
