//! The names in a script's text.

use super::Member;

impl Member {
    /// All names that follow an `m.` in its text, or are declared.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names = self.declared();
        if self.tail.is_some() {
            names.extend(TAIL);
        }
        for (at, _) in self.source.match_indices("m.") {
            let after = &self.source[at + 2..];
            let end = after.find(|character: char| !is_part_of_a_name(character));
            let name = &after[..end.unwrap_or(after.len())];
            let is_a_name = !self.source[..at].ends_with(is_part_of_a_name);
            if is_a_name && !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The names of what it is given, and of what it keeps.
    fn declared(&self) -> Vec<&str> {
        let all = [
            &*self.parameters,
            &*self.state,
            self.private_state,
            self.keys,
        ];
        all.into_iter().flatten().copied().collect()
    }

    /// Its names that are used only within one judgement and its charge.
    pub(in crate::algorithm) fn temporary_names(&self) -> Vec<&str> {
        let (mut names, declared) = (self.names(), self.declared());
        names.retain(|name| !declared.contains(name) && !TAIL.contains(name));
        names
    }
}

/// The names of a tail.
const TAIL: [&str; 3] = ["tail", "tail_at", "tail_end"];

pub(crate) fn is_part_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
