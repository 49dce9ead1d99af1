//! The header of a script: its keys, its arguments, its reply, and what it writes.

use crate::algorithm::Member;

use super::{
    Composer, Task, TimeOf, UNREADABLE,
    text::{MAX_COLUMNS, wrapped_at},
};

/// The width of a row's text, after `-- ` and the first column.
const COLUMNS: usize = MAX_COLUMNS - 12;

impl Composer<'_> {
    pub(super) fn header(&self) -> String {
        self.header_of(&[("KEYS[1]".to_owned(), self)])
    }

    /// The header of a script about these states, each under its key.
    pub(super) fn header_of(&self, states: &[(String, &Composer<'_>)]) -> String {
        let mut lines = vec![self.purpose().to_owned(), String::new()];
        for named in &self.members {
            let name = format!("m{}", named.number);
            let limit = match named.member.per_request {
                true => "a limit that counts a cost of 1 or more as 1",
                false => "a limit",
            };
            let limit = match named.member.in_shadow {
                true => {
                    format!("{limit} in shadow:\nit never refuses, and charges what it would admit")
                }
                false => limit.to_owned(),
            };
            lines.push(row(
                &name,
                &format!("{limit}; state layout: `{}`", named.member.layout),
            ));
        }
        let mut keys: Vec<_> = (states.iter())
            .map(|(key, of)| {
                (
                    key.clone(),
                    format!("the state of {}", of.numbers().join(", ")),
                )
            })
            .chain(
                self.further_keys()
                    .into_iter()
                    .map(|(name, key)| (key, name)),
            )
            .collect();
        keys.sort();
        lines.extend(keys.iter().map(|(key, what)| row(key, what)));
        lines.push(row("ARGV[1]", &doubles("doubles: ", &self.parameters())));
        if self.task == Task::TakeBack {
            lines.push(row("ARGV[2]", "the reply to the charge"));
        }
        if self.is_silent() {
            lines.push(row("Reply", "nothing"));
        } else if self.task == Task::Renew {
            let renewed = doubles("for each state doubles: ", &self.renewed());
            let foreign = "zeros for a value that no script wrote";
            lines.push(row("Reply", &format!("{renewed};\n{foreign}")));
        } else {
            let mut reply = vec!["now".to_owned(), self.admits()];
            reply.extend(self.all(|member: &Member| member.replied(false)));
            let reply = doubles("not charged: a byte 0, then doubles: ", &reply);
            let mut charge = vec!["now".to_owned()];
            charge.extend(self.all(|member: &Member| member.replied(true)));
            charge.extend(self.replied_in_shadow());
            let charged = doubles("charged: a byte 1, then doubles: ", &charge);
            lines.push(row(
                "Reply",
                &match self.task {
                    Task::Decide => format!("{charged}\n{reply}"),
                    _ => reply,
                },
            ));
        }
        let written: Vec<_> = states
            .iter()
            .flat_map(|(key, of)| of.written(key))
            .collect();
        match &*written {
            [] => lines.push(row("Writes", "nothing")),
            written => lines.extend(written.iter().map(|what| row("Writes", what))),
        }
        lines.push(match self.task {
            Task::Renew => row("Error", "that of a command that the server refuses"),
            _ => row(
                "Error",
                &format!("{UNREADABLE}, if a key has a value that no script wrote"),
            ),
        });
        lines.iter().map(|line| commented(line)).collect()
    }

    fn purpose(&self) -> &'static str {
        match self.task {
            Task::Decide if self.holds() => {
                "Decides about a cost: holds or charges it if all limits have room for it."
            }
            Task::Decide => "Decides about a cost: charges it if all limits have room for it.",
            Task::Peek => {
                "Peeks: tells what a decision about a cost would be, and charges nothing."
            }
            Task::Repair => {
                "Peeks, and moves a state that was written by a clock far ahead to now."
            }
            Task::Debit => "Debits: charges units whether there is room for them or not.",
            Task::Settle => "Settles: `cost` was spent of the units that an admission holds.",
            Task::Renew => {
                "Renews the places of several states, whose keys and arguments follow one another. \
                 `held` places\nof a generation then last as long as those that are taken now. Lost \
                 places, up to `wanted`, are\nheld again as far as there is room."
            }
            Task::Refund => "Gives units back.",
            Task::Withdraw => {
                "Withdraws the charge of a request that was dropped while it was delayed."
            }
            Task::TakeBack => {
                "Takes a charge back, as if it had never been, if nothing was charged since."
            }
        }
    }

    fn numbers(&self) -> Vec<String> {
        let numbers = self
            .members
            .iter()
            .map(|named| format!("m{}", named.number));
        numbers.collect()
    }

    /// Explains the number `admits` of a reply.
    fn admits(&self) -> String {
        let mut bit = 1_u64;
        let mut bits = Vec::new();
        for named in &self.members {
            bits.push(format!("{bit} if m{} admits", named.number));
            bit <<= 1;
        }
        match &*bits {
            [only] => only.clone(),
            _ => format!("the sum of {}", bits.join(", ")),
        }
    }

    /// What is written under the key of the state, and then under each further key.
    fn written(&self, key: &str) -> Vec<String> {
        let Some(when) = self.writes_if() else {
            return Vec::new();
        };
        let numbers = [self.kept(), self.private()].concat();
        let tails: Vec<_> = self.tailed().map(|(named, _)| named.name("tail")).collect();
        let then_tails = match &*tails {
            [] => String::new(),
            tails => format!(";\nthen {}", tails.join(", ")),
        };
        let state = wrapped_at(
            COLUMNS,
            &format!("{key}, {when}: a byte 1, then doubles: "),
            &numbers,
            ", ",
            &format!("{then_tails};\n{}", self.expires()),
        );
        let further = self.further_keys().into_iter().map(|(name, its_key)| {
            format!("{its_key}, only with {key}: {name}; expires with {key}")
        });
        [state].into_iter().chain(further).collect()
    }

    /// When a state expires.
    fn expires(&self) -> &'static str {
        match self.time {
            TimeOf::Server => "expires at key_expires_at",
            TimeOf::Caller => "expires at key_expires_at, in a minute at the earliest",
        }
    }

    /// When it writes; `None` if it never does.
    fn writes_if(&self) -> Option<&'static str> {
        Some(match self.task {
            Task::Decide => "if it charges or repairs the state",
            Task::Repair => "if it repairs the state",
            Task::Peek if self.spends_in_keys() => "if what was held counts as spent by now",
            Task::Peek => return None,
            Task::Debit => "always",
            Task::Settle => "if there is a state, or more was spent than held",
            Task::Renew => "if places move or are held again",
            Task::Refund | Task::Withdraw | Task::TakeBack => "if there is a state",
        })
    }
}

fn doubles(before: &str, names: &[String]) -> String {
    wrapped_at(COLUMNS, before, names, ", ", "")
}

/// A row of two columns: a word, and its text.
fn row(word: &str, text: &str) -> String {
    let mut lines = text.lines();
    let mut row = format!("{word:<8} {}", lines.next().unwrap_or(""));
    for line in lines {
        row += &format!("\n{:<8} {line}", "");
    }
    row
}

fn commented(text: &str) -> String {
    match text {
        "" => "--\n".to_owned(),
        _ => text.lines().flat_map(|line| ["-- ", line, "\n"]).collect(),
    }
}
