//! The reply to a charge where members are in shadow: after the states, whether each of these
//! members would refuse, and its status then.

use super::{Composer, Named, packed, text::indented};

impl Composer<'_> {
    /// Returns what is kept, if the cost was charged.
    pub(super) fn returned_if_charged(&self) -> String {
        let kept = [&["1".to_owned()], &*self.kept()].concat();
        let returned = self.returned(kept);
        format!("if charged then\n{}end\n", indented(1, &returned))
    }

    /// Returns these numbers, and those of the members in shadow.
    pub(super) fn returned(&self, mut numbers: Vec<String>) -> String {
        let mut text = String::new();
        for named in self.members.iter().filter(|named| named.member.in_shadow) {
            let [refused, others @ ..] = &*named.names(&named.member.replied_in_shadow()) else {
                continue;
            };
            let reply = named.part("reply");
            // Settled members always reply.
            if !reply.is_empty() && !named.member.is_settled() {
                let number = named.number;
                text += &format!("-- m{number}: reply, if it would refuse\n");
                text += &format!("if {refused} == 1 then\n{}end\n", indented(1, &reply));
            }
            numbers.push(refused.clone());
            numbers.extend(others.iter().map(|name| format!("{name} or 0")));
        }
        text + &packed("return ", "B", &numbers) + "\n"
    }

    /// What the members in shadow add to the reply to a charge.
    pub(super) fn replied_in_shadow(&self) -> Vec<String> {
        let members = self.members.iter();
        let names = |named: &Named<'_>| named.names(&named.member.replied_in_shadow());
        members.flat_map(names).collect()
    }

    /// Whether any member is in shadow.
    pub(super) fn has_shadows(&self) -> bool {
        self.members.iter().any(|named| named.member.in_shadow)
    }
}
