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

impl Lines<'_> {
    /// Decides about each cost of the second argument, and writes what all of them leave. A refusal
    /// leaves all numbers as they were before.
    pub(super) fn several_decisions(&self) -> String {
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
        let decision = format!(
            "local {} = unpack('<{}', ARGV[2], at)\n\
             {units}local before = {{{}}}\n\
             {}if {} then\n  \
               replies[#replies + 1] = {}\n\
             {restored}\
             else\n{}  \
               replies[#replies + 1] = {}\n\
             end\n",
            costs.join(", "),
            "I4".repeat(costs.len()),
            before.join(", "),
            self.ask(),
            self.refused(),
            self.reply(NOT_CHARGED),
            indented(&(self.charge() + &leave)),
            self.charged()
        );
        format!(
            "local replies = {{}}\n{begin}\
             for at = 1, #ARGV[2], {} do\n{}end\n\
             if not {} then return replies end\n{}return replies\n",
            4 * costs.len(),
            indented(&decision),
            self.0[0].name("value"),
            self.write()
        )
    }
}
