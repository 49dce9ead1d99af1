//! How the states of a script are laid out under a key, and how they are read and written.
//!
//! A value begins with a byte 1, the instant of the last write and the numbers of the states: this
//! part is also the reply to a charge. Then come the instant at which the key expires, and the
//! private numbers, all as doubles; then the tails, of which only the algorithms know the bytes.

use crate::algorithm::Member;

use super::{
    Composer, Named, Task, TimeOf, UNREADABLE, packed, part_of,
    text::{indented, wrapped},
};

impl Composer<'_> {
    /// The numbers that begin a value, and are the reply to a charge.
    pub(super) fn kept(&self) -> Vec<String> {
        self.after("now", |member| &member.state)
    }

    /// The numbers behind those.
    pub(super) fn private(&self) -> Vec<String> {
        self.after("key_expires_at", |member| member.private_state)
    }

    fn after(&self, first: &str, names: impl Fn(&Member) -> &[&'static str]) -> Vec<String> {
        let mut all = vec![first.to_owned()];
        all.extend(self.all(names));
        all
    }

    /// The members that have a tail.
    pub(super) fn tailed(&self) -> impl Iterator<Item = (&Named<'_>, [usize; 2])> {
        let members = self.members.iter();
        members.filter_map(|named| Some((named, named.member.tail?)))
    }

    /// Reads what is kept under the key: all zeros if nothing is.
    pub(super) fn state(&self) -> String {
        let numbers = &self.kept()[1..];
        let all = [numbers, &self.private()].concat();
        let bytes = 1 + 8 * (1 + all.len());
        let unreadable = format!("return redis.error_reply('{UNREADABLE} state')");
        let nothing = match self.task {
            Task::Refund | Task::Withdraw => {
                "if not state then return '' end\ndirty = true\n".to_owned()
            }
            Task::Settle => "if not state and cost <= held then return '' end\n".to_owned(),
            Task::TakeBack => "-- If something else was written since, it stays charged.\n\
                 if not state or string.sub(state, 1, #charge) ~= charge then return '' end\n\
                 dirty = true\n"
                .to_owned(),
            _ => String::new(),
        };
        let length = match self.tailed().next() {
            Some(_) => self.tails(bytes, &unreadable),
            None => format!("if state and #state ~= {bytes} then {unreadable} end\n"),
        };
        let zeros = format!("', state or string.rep('\\0', {bytes}), 10)\n");
        let unpacked = match self.is_alone {
            true => self.unpacked(&["key_expires_at"], &all, "'<", &zeros),
            false => wrapped(
                "local key_expires_at\n",
                &all,
                ", ",
                &format!(" = struct.unpack('<{}{zeros}", "d".repeat(all.len())),
            ),
        };
        format!(
            "\n-- The state: all zeros if there is none.\nlocal state = call('GET', key)\n\
             {nothing}{length}{unpacked}{}",
            checks(numbers, &unreadable),
        )
    }

    /// Where the tails are. Mostly all have their usual length, and nothing is worked out.
    fn tails(&self, bytes: usize, unreadable: &str) -> String {
        let (mut usual, mut unusual) = (String::new(), String::new());
        let mut usual_end = bytes;
        for (named, [few, many]) in self.tailed() {
            let [at, end] = ["tail_at", "tail_end"].map(|name| named.name(name));
            usual += &format!("{at}, {end} = {}, {}\n", usual_end + 1, usual_end + few);
            usual_end += few;
            let length = match self.position_of_first_private(named) {
                Some(position) => {
                    format!("(struct.unpack('<d', state, {position}) == 0 and {many} or {few})")
                }
                None => few.to_string(),
            };
            unusual +=
                &format!("{at} = tail_end + 1\ntail_end = tail_end + {length}\n{end} = tail_end\n");
        }
        let unusual = format!(
            "if #state < {bytes} then {unreadable} end\nlocal tail_end = {bytes}\n{unusual}\
             if #state ~= tail_end then {unreadable} end\n"
        );
        format!(
            "{usual}if state and #state ~= {usual_end} then\n{}end\n",
            indented(1, &unusual)
        )
    }

    /// The position of a member's first private number in the value.
    fn position_of_first_private(&self, named: &Named<'_>) -> Option<usize> {
        let first = named.name(named.member.private_state.first()?);
        let all = [self.kept(), self.private()].concat();
        let index = all.iter().position(|name| *name == first)?;
        Some(2 + 8 * index)
    }

    /// Writes the state, with its expiry where that moves.
    pub(super) fn write(&self) -> String {
        let mut text = self.parts("expire", "when does its state expire?");
        let expiries: Vec<_> = (self.members.iter())
            .map(|named| named.name("expires_at"))
            .collect();
        let expires_at = match &*expiries {
            [only] => only,
            [first, others @ ..] => {
                text += &format!("local expires_at = {first}\n");
                for other in others {
                    text += &format!("if {other} > expires_at then expires_at = {other} end\n");
                }
                "expires_at"
            }
            [] => "now",
        };
        text += "-- Write.\n";
        text += &(packed(
            "local kept = ",
            "B",
            &[&["1".to_owned()], &*self.kept()].concat(),
        ) + "\n");
        let further: String = (self.further_keys().iter())
            .map(|(_, key)| format!("  call(expire, {key}, milliseconds)\n"))
            .collect();
        let tails: Vec<_> = self.tailed().map(|(named, _)| tail(named)).collect();
        let tails = match &*tails {
            [] => String::new(),
            tails => format!("    whole = whole .. {}\n", tails.join("\n      .. ")),
        };
        let changed: Vec<_> = self.tailed().map(|(named, _)| named.name("tail")).collect();
        let changed = match &*changed {
            [] => String::new(),
            [only] => format!(" and not {only}"),
            several => format!(" and not ({})", several.join(" or ")),
        };
        let (milliseconds, set_option) = match self.time {
            TimeOf::Server => (" math.max(math.ceil(key_expires_at / 1000), 1)", "'PXAT'"),
            TimeOf::Caller => (
                "\n    math.max(math.ceil(key_expires_at / 1000) - math.floor(now / 1000), 60000)",
                "'PX'",
            ),
        };
        text + &part_of(include_str!("../write.lua"), "write")
            .replace("EXPIRES_AT", expires_at)
            .replace(" MILLISECONDS", milliseconds)
            .replace("SET_OPTION", set_option)
            .replace(" and not TAIL_CHANGED", &changed)
            .replace("    whole = whole .. TAIL\n", &tails)
            .replace("PRIVATE_NUMBERS", &packed("", "", &self.private()))
            .replace("  FURTHER_KEYS()\n", &further)
    }
}

/// The tail of a member: the new one, or as it was.
fn tail(named: &Named<'_>) -> String {
    let [tail, at, end] = ["tail", "tail_at", "tail_end"].map(|name| named.name(name));
    format!("({tail} or string.sub(state, {at}, {end}))")
}

/// Rejects numbers that no script wrote: negative and huge ones, fractions, infinity and NaN. (The
/// remainder of either of the last two is NaN.)
fn checks(numbers: &[String], unreadable: &str) -> String {
    let checked = [numbers, &["key_expires_at".to_owned()]].concat();
    let positive: Vec<_> = checked.iter().map(|name| format!("{name} >= 0")).collect();
    let fractions: Vec<_> = checked.iter().map(|name| format!("{name} % 1")).collect();
    wrapped("if not (", &positive, " and ", "\n")
        + &wrapped("  and ", &checked, " + ", " < 2 ^ 58\n")
        + &wrapped("  and ", &fractions, " + ", " == 0) then\n")
        + &format!("  {unreadable}\nend\n")
}
