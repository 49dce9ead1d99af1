//! Composes the text of a script: the rules of the limits, and around them the reading and writing
//! of the state. The folder `sent` has composed scripts.

use crate::algorithm::{Member, Script, script::part_of};

mod header;
mod in_shadow;
mod layout;
mod multi_key;
mod named;
mod text;

use self::{
    named::Named,
    text::{indented, wrapped},
};

pub(super) use multi_key::compose_multi_key;

/// How many locals the members may have. Lua allows 200 in a function, and the rest of a script
/// needs some too.
const MAX_LOCALS: usize = 160;

/// The code of the error for a value that no script wrote; Redis has none of this name.
pub(super) const UNREADABLE: &str = "UNREADABLE";

/// What a script does with the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Judges, and charges what all limits admit.
    Decide,
    /// Judges, and charges nothing.
    Peek,
    /// The same, but writes a state that it had to repair, as a refusing decision does.
    Repair,
    /// Charges units whether there is room for them or not.
    Debit,
    /// Settles what an admission holds.
    Settle,
    /// Moves places of requests in flight to the generation that takes holds now.
    Renew,
    /// Gives units back.
    Refund,
    /// Takes back the charge of a request that was dropped while it was delayed.
    Withdraw,
    /// Takes a charge back, as of its own instant, if nothing was written since.
    TakeBack,
}

/// The clock by which a script decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeOf {
    /// The server's, read in the script.
    Server,
    /// The store's own, read for each call: that of [`RedisStoreBuilder::clock`].
    ///
    /// [`RedisStoreBuilder::clock`]: super::RedisStoreBuilder::clock
    Caller,
}

/// The script of these members, in Lua 5.1.
pub(super) fn compose(script: &Script, task: Task, time: TimeOf) -> String {
    let composed: Vec<_> = script.members().iter().enumerate().collect();
    let is_wide = number_of_names(script) > MAX_LOCALS;
    let members: Vec<_> = composed
        .iter()
        .map(|(index, member)| Named {
            member,
            number: index + 1,
            is_wide,
        })
        .collect();
    let composer = Composer {
        members,
        task,
        time,
        first_further_key: 2,
        is_alone: true,
    };
    composer.header() + "\n" + &composer.text()
}

/// The script that renews the places of several states: what is [composed](compose) for one of them
/// is a function that is called for each.
pub(super) fn compose_renewal(script: &Script, time: TimeOf) -> String {
    let one = compose(script, Task::Renew, time);
    let (header, body) = one.split_once("\n\n").unwrap_or(("", &one));
    let members = script.members().iter();
    let keys: usize = 1 + members
        .clone()
        .map(|member| member.keys.len())
        .sum::<usize>();
    let bytes = 16 * members.filter(|member| member.in_flight).count();
    let each = part_of(include_str!("each.lua"), "each")
        .replace("KEYS_OF_ONE", &keys.to_string())
        .replace("BYTES_OF_ONE", &bytes.to_string());
    // The body is not indented, so that its lines are no wider than by themselves.
    format!("{header}\n\nlocal function one(KEYS, ARGV)\n{body}end\n\n{each}")
}

fn number_of_names(script: &Script) -> usize {
    script
        .members()
        .iter()
        .map(|member| member.names().len())
        .sum()
}

struct Composer<'a> {
    members: Vec<Named<'a>>,
    task: Task,
    time: TimeOf,
    /// The number in `KEYS` of the first further key.
    first_further_key: usize,
    /// Whether the script is about these members alone, so that it reads one state.
    is_alone: bool,
}

impl Composer<'_> {
    fn text(&self) -> String {
        let body = self.state() + &self.judgement() + &self.change() + &self.answer();
        self.libraries() + &self.arguments(&body) + &body
    }

    fn each(&self, text: impl Fn(&Named<'_>) -> String) -> String {
        self.members.iter().map(text).collect()
    }

    /// A part of each member's script, under a line that says what it is.
    fn parts(&self, name: &str, title: &str) -> String {
        self.each(|named| match named.part(name) {
            text if text.is_empty() => text,
            text => format!("-- m{}: {title}\n{text}", named.number),
        })
    }

    fn all(&self, names: impl Fn(&Member) -> &[&'static str]) -> Vec<String> {
        let of_one = |named: &Named<'_>| named.names(names(named.member));
        self.members.iter().flat_map(of_one).collect()
    }

    fn libraries(&self) -> String {
        let mut libraries: Vec<&str> = Vec::new();
        for named in &self.members {
            let library = named.member.part("library");
            if !libraries.contains(&library) {
                libraries.push(library);
            }
        }
        libraries.concat()
    }

    /// The numbers that a call is given.
    fn parameters(&self) -> Vec<String> {
        let mut names = vec!["cost".to_owned()];
        names.extend(self.all(|member| &member.parameters));
        if self.knows_the_admission() {
            let of_one = |named: &Named<'_>| named.names(&named.member.admission());
            names.extend(self.members.iter().flat_map(of_one));
        }
        names.extend(self.further_numbers().iter().map(ToString::to_string));
        names
    }

    /// The numbers that belong to no member, beside the cost.
    fn further_numbers(&self) -> Vec<&'static str> {
        let mut names = match self.task {
            Task::Settle => vec!["held"],
            Task::Renew => vec!["held", "wanted"],
            _ => Vec::new(),
        };
        if self.is_given_now() {
            names.push("now");
        }
        names
    }

    /// Whether the time is one of its numbers.
    fn is_given_now(&self) -> bool {
        self.time == TimeOf::Caller && self.task != Task::TakeBack
    }

    /// Whether it needs the numbers of an admission, to take it back or to settle it.
    fn knows_the_admission(&self) -> bool {
        matches!(
            self.task,
            Task::Withdraw | Task::TakeBack | Task::Settle | Task::Renew
        )
    }

    /// Whether counting a hold as spent writes to a further key: then the state must be written
    /// too, whatever the task.
    fn spends_in_keys(&self) -> bool {
        let mut members = self.members.iter().map(|named| named.member);
        members.any(|member| member.is_settled() && !member.keys.is_empty())
    }

    /// Whether any member holds units.
    fn holds(&self) -> bool {
        self.members.iter().any(|named| named.member.is_settled())
    }

    /// Whether it answers nothing.
    fn is_silent(&self) -> bool {
        matches!(
            self.task,
            Task::Debit | Task::Settle | Task::Refund | Task::Withdraw | Task::TakeBack
        )
    }

    /// Reads the numbers, the keys and the time, and declares the locals of the body. Each
    /// statement of Lua costs time, so what is read here is declared by reading it.
    fn arguments(&self, body: &str) -> String {
        let keys: String = (self.further_keys().iter())
            .map(|(name, key)| format!("{name} = {key}\n"))
            .collect();
        let declarations = self.each(|named| {
            let mut elsewhere = named.member.parameters.to_vec();
            if self.knows_the_admission() {
                elsewhere.extend_from_slice(&named.member.admission());
            }
            if self.is_alone {
                elsewhere.extend(named.member.state.iter().chain(named.member.private_state));
            }
            named.declaration(|name, own| {
                !elsewhere.contains(&name) && (body.contains(own) || keys.contains(own))
            })
        });
        let others = [&["cost"], &*self.further_numbers()].concat();
        let numbers = self.unpacked(&others, &self.parameters(), "'<", "', numbers)\n");
        let time = match (self.task, self.time) {
            (Task::TakeBack, _) => "charge",
            (_, TimeOf::Server) => "server",
            (_, TimeOf::Caller) => "caller",
        };
        let expire = match self.time {
            TimeOf::Server => "PEXPIREAT",
            TimeOf::Caller => "PEXPIRE",
        };
        let ended = if self.holds() { "local ended\n" } else { "" };
        format!(
            "local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]\n\
             local expire, dirty, repaired = '{expire}', nil, nil\n{ended}\
             {declarations}{numbers}{keys}\n-- The time.\n{}",
            part_of(include_str!("time.lua"), time),
        )
    }

    /// Unpacks numbers into names: `others`, which belong to no member, and those of members.
    fn unpacked(&self, others: &[&str], names: &[String], before: &str, after: &str) -> String {
        let unpack = format!(
            " = struct.unpack({before}{}{after}",
            "d".repeat(names.len())
        );
        match self.members.iter().any(|named| named.is_wide) {
            true => format!(
                "local {}\n{}",
                others.join(", "),
                wrapped("", names, ", ", &unpack)
            ),
            false => wrapped("local ", names, ", ", &unpack),
        }
    }

    /// The keys beside that of the state, each with its name.
    fn further_keys(&self) -> Vec<(String, String)> {
        let names = self.all(|member| member.keys).into_iter();
        names
            .zip(self.first_further_key..)
            .map(|(name, at)| (name, format!("KEYS[{at}]")))
            .collect()
    }

    fn judgement(&self) -> String {
        let judged = self.each(|named| {
            let number = named.number;
            let (part, title) = match (self.task, named.member.is_settled()) {
                (Task::Debit, true) => ("judge before a debit", "the state before the debit"),
                (Task::Settle, true) => (
                    "judge before a settlement",
                    "the state before the settlement",
                ),
                (Task::Renew, _) if named.member.in_flight => {
                    ("judge before a renewal", "the state before the renewal")
                }
                // The cost is 0.
                (Task::Renew, _) => ("judge", "nothing changes"),
                (Task::Settle, false) => {
                    let judge = indented(1, &named.part("judge"));
                    let stays = format!("-- m{number}: nothing changes\n");
                    return format!("{stays}do\n  local cost = 0\n{judge}end\n");
                }
                _ => ("judge", "has the cost room?"),
            };
            format!("-- m{number}: {title}\n{}", named.part(part))
        });
        "\n".to_owned() + &judged
    }

    /// Changes the state, and writes it.
    fn change(&self) -> String {
        let give_back = |part: fn(&Member) -> Option<&'static str>| {
            self.each(|named| match part(named.member) {
                Some(part) => format!("-- m{}: {part}\n{}", named.number, named.part(part)),
                None => String::new(),
            })
        };
        let (change, condition) = match self.task {
            Task::Peek if self.spends_in_keys() => (String::new(), "if ended then\n"),
            Task::Peek => return String::new(),
            Task::Repair => (String::new(), "if repaired then\n"),
            Task::Decide => (
                wrapped("\nlocal charged = ", &self.all_fit(), " and ", "\n")
                    + "if charged then\n"
                    + &indented(1, &self.parts("charge", "charge"))
                    + "end\n",
                "if charged or repaired then\n",
            ),
            Task::Debit => (self.debits(), "do\n"),
            Task::Settle => (self.parts("settle", "settle"), "do\n"),
            Task::Renew => (
                self.each(|named| match named.member.in_flight {
                    true => format!("-- m{}: renew\n{}", named.number, named.part("renew")),
                    false => String::new(),
                }),
                "if dirty or repaired then\n",
            ),
            Task::Refund => (
                give_back(|member| member.refunds.then_some("refund")),
                "do\n",
            ),
            Task::Withdraw => (
                give_back(|member| (!member.withdraws.is_empty()).then_some("withdraw")),
                "do\n",
            ),
            Task::TakeBack => (
                give_back(|member| match member.withdraws {
                    [] if member.in_shadow => member.refunds.then_some("take back"),
                    [] => member.refunds.then_some("refund"),
                    _ => Some("withdraw"),
                }),
                "do\n",
            ),
        };
        let returns = match self.task {
            Task::Decide if self.holds() => String::new(),
            Task::Decide if self.has_shadows() => self.returned_if_charged(),
            Task::Decide => "if charged then return kept end\n".to_owned(),
            _ => String::new(),
        };
        let write = self.write() + &returns;
        format!("{change}\n{condition}{}end\n", indented(1, &write))
    }

    /// Charges each member. Its part `debit` keeps numbers from becoming too large.
    fn debits(&self) -> String {
        self.each(|named| {
            let (number, charge) = (named.number, named.part("charge"));
            match named.part("debit") {
                debit if named.member.is_settled() && debit.is_empty() => debit,
                // Its part `charge` would hold the cost.
                debit if named.member.is_settled() => {
                    format!("-- m{number}: debit\ndo\n{}end\n", indented(1, &debit))
                }
                debit if debit.is_empty() => format!("-- m{number}: charge\n{charge}"),
                debit => {
                    let text =
                        format!("-- m{number}: debit\n{debit}-- m{number}: charge\n{charge}");
                    format!("do\n{}end\n", indented(1, &text))
                }
            }
        })
    }

    /// The conditions under which a cost is charged.
    fn all_fit(&self) -> Vec<String> {
        let fits = self.members.iter().map(|named| named.name("fits"));
        fits.chain(["cost > 0".to_owned()]).collect()
    }

    /// The numbers of the reply to a renewal.
    fn renewed(&self) -> Vec<String> {
        let members = self.members.iter().filter(|named| named.member.in_flight);
        let replied = ["generation_start", "renewed"];
        members.flat_map(|named| named.names(&replied)).collect()
    }

    /// A charge is answered with what is kept: see [`header`](Self::header).
    fn answer(&self) -> String {
        if self.is_silent() {
            return "return ''\n".to_owned();
        }
        if self.task == Task::Renew {
            return "\n".to_owned() + &packed("return ", "", &self.renewed()) + "\n";
        }
        let mut replies = vec!["now".to_owned(), "admits".to_owned()];
        replies.extend(self.all(|member| member.replied(false)));
        let mut admits = String::new();
        let mut bit = 1_u64;
        for named in &self.members {
            let fits = named.name("fits");
            admits += &format!("if {fits} then admits = admits + {bit} end\n");
            bit <<= 1;
        }
        let reply = self.replies(false);
        let charged = match self.task {
            Task::Decide if self.holds() => {
                format!(
                    "if charged then\n{}end\n",
                    indented(1, &self.charged_answer())
                )
            }
            _ => String::new(),
        };
        let held = self.replies(true);
        format!(
            "\n{held}{charged}-- Nothing was charged.\n{reply}local admits = 0\n{admits}{}",
            packed("return ", "B", &[&["0".to_owned()], &*replies].concat()) + "\n"
        )
    }
}

impl Composer<'_> {
    /// The replies of the members that hold units, or of the others.
    fn replies(&self, of_settled: bool) -> String {
        self.each(|named| match named.part("reply") {
            text if text.is_empty() || named.member.is_settled() != of_settled => String::new(),
            text => format!("-- m{}: reply\n{text}", named.number),
        })
    }

    /// The answer to a charge where some members hold units: these reply their status.
    fn charged_answer(&self) -> String {
        let mut numbers = vec!["1".to_owned(), "now".to_owned()];
        numbers.extend(self.all(|member| member.replied(true)));
        self.returned(numbers)
    }
}

/// Numbers as they are kept and answered: doubles, perhaps after a byte.
fn packed(before: &str, byte: &str, numbers: &[String]) -> String {
    let format = byte.to_owned() + &"d".repeat(numbers.len() - byte.len());
    wrapped(
        &format!("{before}struct.pack('<{format}', "),
        numbers,
        ", ",
        ")",
    )
}
