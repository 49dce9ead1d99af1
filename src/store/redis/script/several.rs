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

/// How many bytes a step of a call that leases has, of a limit with so many members.
pub(in crate::store::redis) const fn step_bytes(members: usize) -> usize {
    5 + BYTES * (2 + members)
}

impl Lines<'_> {
    /// Decides about each cost of the second argument, and writes what all of them leave. A refusal
    /// leaves all numbers as they were before.
    pub(super) fn several_decisions(&self, leases: bool) -> String {
        let (mut begin, mut leave) = (String::new(), String::new());
        let (mut before, mut restored) = (Vec::new(), String::new());
        for limit in &self.0 {
            let (k, ends, value) = (limit.number, limit.ends(), limit.value("now"));
            begin += &format!("local until_{k}, value_{k}\n");
            leave += &format!(
                "until_{k}, value_{k} = {ends}, {value}\nstored_{k}, last_{k} = value_{k}, now_{k}\n"
            );
            let numbers = limit.decided_by();
            let saved = (1..=numbers.len()).map(|at| format!("before[{}]", before.len() + at));
            let saved: Vec<_> = saved.collect();
            restored += &format!("  {} = {}\n", numbers.join(", "), saved.join(", "));
            before.extend(numbers);
        }
        let costs: Vec<_> = self.members().map(|named| named.name("cost")).collect();
        let units = self.members().filter(|named| named.counts_parts());
        let units = units.map(|named| named.name("unit"));
        let units: String = units.map(|it| format!("local {it} = {it}\n")).collect();
        let read = match leases {
            true => self.leased(),
            false => format!(
                "local {} = unpack('<{}', ARGV[2], at)\n",
                costs.join(", "),
                "I4".repeat(costs.len())
            ),
        };
        let mut refused = self.refused();
        if leases {
            let admitted = self.members().flat_map(|it| it.names(&["named", "taken"]));
            let admitted = admitted.collect::<Vec<_>>().join(", ");
            begin += &format!("local LEASE, all_fit, {admitted} = 5, true\n");
            restored += "  all_fit = false\n";
            refused = format!("not must and {refused}");
        }
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
        let bytes = match leases {
            true => step_bytes(costs.len()),
            false => 4 * costs.len(),
        };
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
        let all = |name: &str| {
            let names = self.members().map(|named| named.name(name));
            names.collect::<Vec<_>>()
        };
        let (named, count) = (all("named").join(", "), all("named").len());
        let parts = self.members().map(Named::parts_of_a_unit);
        let bounds: String = self.members().map(Named::most_leased).collect();
        let each = |value: &str| vec![value; count].join(", ");
        format!(
            "local cost, units, held_for\n\
             op, cost, units, held_for, {named} = unpack('<BI4I7I7{}', ARGV[2], at)\n\
             must = op == SETTLE\n\
             if op == LEASE then\n  \
               if not all_fit then break end\n\
             {bounds}  \
               if cost <= 0 then break end\n  \
               replies[#replies + 1], op = pack('<I4{}', cost, {}), 0\n\
             end\n\
             {} = {}\n{} = {}\n{} = {}\n",
            whole(count),
            whole(count),
            parts.collect::<Vec<_>>().join(", "),
            all("cost").join(", "),
            each("cost"),
            all("taken").join(", "),
            each("units"),
            all("at_most").join(", "),
            each("held_for"),
        )
    }
}
