//! The lines that make several decisions in turn, at one instant.

use crate::algorithm::Script;

use super::{Lines, fits_one_script, indented, member::Named, whole};
use crate::store::redis::reply::{BYTES, NOT_CHARGED};

/// Whether decisions by these can share a call: all say the same but for their cost, and the script
/// is not too long.
pub(in crate::store::redis) fn can_be_joined(limits: &[Script]) -> bool {
    let mut members = limits.iter().flat_map(Script::members);
    fits_one_script(limits) && !members.any(|member| member.in_flight)
}

/// Whether a process can hold units by these and spend them without asking.
pub(in crate::store::redis) fn can_be_leased(limits: &[Script]) -> bool {
    let [only] = limits else { return false };
    let mut members = only.members().iter();
    members.all(|member| {
        member.can_be_leased && !member.settled && !member.per_request && !member.in_shadow
    })
}

impl Lines<'_> {
    /// Decides about each cost of the second argument, and writes what all of them leave. A refusal
    /// leaves all numbers as they were before.
    pub(super) fn several_decisions(&self, leases: bool) -> String {
        let mut begin = self.of_limits("local until_$, value_$\n", "");
        let (mut leave, mut before, mut restored) = (String::new(), Vec::new(), String::new());
        for limit in &self.0 {
            let (k, ends, value) = (limit.number, limit.ends(), limit.value("now"));
            leave += &format!(
                "until_{k}, value_{k} = {ends}, {value}\nstored_{k}, last_{k} = value_{k}, now_{k}\n"
            );
            let numbers = limit.decided_by();
            let saved = (1..=numbers.len()).map(|at| format!("before[{}]", before.len() + at));
            let saved: Vec<_> = saved.collect();
            restored += &format!("  {} = {}\n", numbers.join(", "), saved.join(", "));
            before.extend(numbers);
        }
        let units = self.members().filter(|named| named.counts_parts());
        let units: String = units.map(|it| it.lua("local unit_@ = unit_@\n")).collect();
        let (mut refused, members) = (self.refused(), self.members().count());
        let (read, bytes) = if leases {
            let admitted = self.of_members("named_@, taken_@");
            begin += &format!("local LEASE, all_fit, {admitted} = 5, true\n");
            restored += "  all_fit = false\n";
            refused = format!("not must and {refused}");
            // A step has its op and its cost, then numbers.
            (self.leased(), 5 + BYTES * (2 + members))
        } else {
            let (costs, formats) = (self.of_members("cost_@"), "I4".repeat(members));
            let read = format!("local {costs} = unpack('<{formats}', ARGV[2], at)\n");
            (read, 4 * members)
        };
        let decision = format!(
            "{units}{read}local before = {{{}}}\n\
             {}if {refused} then\n  \
               replies[#replies + 1] = {}\n\
             {restored}\
             else\n{}  \
               replies[#replies + 1] = {}\n\
             end\n",
            before.join(", "),
            self.ask(),
            self.reply(NOT_CHARGED),
            indented(&(self.charge() + &leave)),
            self.charged()
        );
        format!(
            "local replies = {{}}\n{begin}\
             for at = 1, #ARGV[2], {bytes} do\n{}end\n\
             if not {} then return replies end\n{}return replies\n",
            indented(&decision),
            self.0[0].name("value"),
            self.write()
        )
    }

    /// Reads one step of a call that leases: a settlement, a decision, or a new lease.
    fn leased(&self) -> String {
        let numbers = whole(self.members().count());
        let parts: Vec<_> = self.members().map(Named::parts_of_a_unit).collect();
        let bounds: String = self.members().map(Named::most_leased).collect();
        let set = |name, value| format!("{} = {}\n", self.of_members(name), self.of_members(value));
        format!(
            "local cost, units, held_for\n\
             op, cost, units, held_for, {} = unpack('<BI4I7I7{numbers}', ARGV[2], at)\n\
             must = op == SETTLE\n\
             if op == LEASE then\n  \
               if not all_fit then break end\n\
             {bounds}  \
               if cost <= 0 then break end\n  \
               replies[#replies + 1], op = pack('<I4{numbers}', cost, {}), 0\n\
             end\n",
            self.of_members("named_@"),
            parts.join(", ")
        ) + &set("cost_@", "cost")
            + &set("taken_@", "units")
            + &set("at_most_@", "held_for")
    }
}
