//! The lines that make several decisions in turn, at one instant.

use crate::algorithm::Script;

use super::{Lines, fits_one_script, indented};
use crate::store::redis::reply::NOT_CHARGED;

/// Whether decisions by these can share a call: all say the same but for their cost, and the script
/// is not too long.
pub(in crate::store::redis) fn can_be_joined(limits: &[Script]) -> bool {
    let mut members = limits.iter().flat_map(Script::members);
    fits_one_script(limits) && !members.any(|member| member.in_flight)
}

/// Whether a process can hold units by these and spend them without asking.
pub(in crate::store::redis) fn can_be_leased(limits: &[Script]) -> bool {
    let mut members = limits.iter().flat_map(Script::members);
    let (Some(only), None) = (members.next(), members.next()) else {
        return false;
    };
    only.can_be_leased && !only.settled && !only.per_request && !only.in_shadow
}

impl Lines<'_> {
    /// Decides about each cost of the second argument, and writes what all of them leave. A refusal
    /// leaves all numbers as they were before.
    pub(super) fn several_decisions(&self, leases: bool) -> String {
        let (mut begin, mut leave) = (String::new(), String::new());
        let (mut before, mut restored) = (Vec::new(), String::new());
        for limit in &self.0 {
            let [until, value, stored, now, last] =
                ["until", "value", "stored", "now", "last"].map(|name| limit.name(name));
            begin += &format!("local {until}, {value}\n");
            leave += &format!(
                "{until}, {value} = {}, {}\n{stored}, {last} = {value}, {now}\n",
                limit.ends(),
                limit.value("now")
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
        if leases {
            begin += "local LEASE, all_fit, named_1, taken_1 = 5, true\n";
            restored += "  all_fit = false\n";
        }
        let decision = format!(
            "{units}{read}local before = {{{}}}\n\
             {}if {} then\n  \
               replies[#replies + 1] = {}\n\
             {restored}\
             else\n{}  \
               replies[#replies + 1] = {}\n\
             end\n",
            before.join(", "),
            self.ask(),
            self.refused(),
            self.reply(NOT_CHARGED),
            indented(&(self.charge() + &leave)),
            self.charged()
        );
        let bytes = if leases { 26 } else { 4 * costs.len() };
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
        let lines = self.members().map(|named| {
            let unit = if named.counts_parts() { "unit_1" } else { "1" };
            let (held, fits) = (named.held(), named.has_room("2 * cost_1 + held"));
            format!(
                "op, cost_1, named_1, taken_1, at_most_1 = unpack('<BI4I7I7I7', ARGV[2], at)\n\
                 must = op == SETTLE\n\
                 if op == LEASE then\n  \
                   -- At most half of the room, and no more than may be held in all.\n  \
                   local held = ({held}) / {unit}\n  \
                   cost_1 = all_fit and math.min(cost_1, math.floor(taken_1 - held)) or 0\n  \
                   while cost_1 > 0 and not {fits} do cost_1 = math.floor(cost_1 / 2) end\n  \
                   if cost_1 <= 0 then break end\n  \
                   replies[#replies + 1], op = pack('<I4I7', cost_1, {unit}), 0\n\
                 end\n"
            )
        });
        lines.collect()
    }
}
