//! One script about several keys: it judges all, and then charges all or none.

use crate::algorithm::Script;

use super::{
    Composer, MAX_LOCALS, Named, Task, TimeOf, compose, number_of_names,
    text::{indented, wrapped},
};

/// The script of a limit for each of several keys, in Lua 5.1: [`Task::Decide`] or [`Task::Peek`].
///
/// Its keys are the first limit's state, then all further keys in the order of the limits, then the
/// states of the other limits.
pub(in crate::store::redis) fn compose_multi_key(
    limits: &[Script],
    task: Task,
    time: TimeOf,
) -> String {
    if let [limit] = limits {
        return compose(limit, task, time);
    }
    let is_wide = limits.iter().map(number_of_names).sum::<usize>() > MAX_LOCALS;
    let one = |at: usize| composer(&limits[at..=at], &limits[..at], (task, time, is_wide));
    let multi_key = MultiKey {
        all: composer(limits, &[], (task, time, is_wide)),
        limits: (0..limits.len()).map(one).collect(),
    };
    multi_key.header() + "\n" + &multi_key.text()
}

/// The members of these limits, numbered after those before them.
fn composer<'a>(
    limits: &'a [Script],
    before: &[Script],
    (task, time, is_wide): (Task, TimeOf, bool),
) -> Composer<'a> {
    let earlier = || before.iter().flat_map(Script::members);
    let numbers = earlier().count() + 1..;
    let members = limits.iter().flat_map(Script::members).zip(numbers);
    let named = members.map(|(member, number)| Named {
        member,
        number,
        is_wide,
    });
    Composer {
        members: named.collect(),
        task,
        time,
        first_further_key: 2 + earlier().map(|member| member.keys.len()).sum::<usize>(),
        is_alone: false,
    }
}

struct MultiKey<'a> {
    /// All members of all limits.
    all: Composer<'a>,
    limits: Vec<Composer<'a>>,
}

impl MultiKey<'_> {
    fn header(&self) -> String {
        let states = (1..).zip(&self.limits);
        let states: Vec<_> = states
            .map(|(number, limit)| (self.key_of(number), limit))
            .collect();
        self.all.header_of(&states)
    }

    fn text(&self) -> String {
        let mut body = self.each(|number, limit| {
            let (local, outer) = match limit.holds() {
                true => ("local ended\n", format!("ended{number} = ended\n")),
                false => ("", String::new()),
            };
            let read = format!(
                "local dirty, repaired = dirty, nil\n{local}key = {}\n{}{}\
                 state{number}, key_expires_at{number}, dirty{number}, repaired{number} = \
                 state, key_expires_at, dirty, repaired\n{outer}",
                self.key_of(number),
                limit.state(),
                limit.judgement(),
            );
            let ended = match limit.holds() {
                true => format!(", ended{number}"),
                false => String::new(),
            };
            format!(
                "\nlocal state{number}, key_expires_at{number}, dirty{number}, repaired{number}{ended}\n\
                 do\n{}end\n",
                indented(1, &read)
            )
        });
        if self.all.task == Task::Decide {
            body += &self.change();
        } else {
            body += &self
                .writes(|number, limit| limit.spends_in_keys().then(|| format!("ended{number}")));
        }
        body += &self.all.answer();
        self.all.libraries() + &self.all.arguments(&body) + &body
    }

    fn each(&self, text: impl Fn(usize, &Composer<'_>) -> String) -> String {
        (1..)
            .zip(&self.limits)
            .map(|(number, limit)| text(number, limit))
            .collect()
    }

    fn key_of(&self, number: usize) -> String {
        let further = self.all.further_keys().len();
        match number {
            1 => "KEYS[1]".to_owned(),
            _ => format!("KEYS[{}]", further + number),
        }
    }

    /// Changes all states, then writes them: a value that no script wrote is an error before the
    /// first write.
    fn change(&self) -> String {
        let charges = self.each(|number, limit| {
            let charge = format!(
                "local state, dirty = state{number}, dirty{number}\n{}dirty{number} = dirty\n",
                limit.parts("charge", "charge")
            );
            format!("do\n{}end\n", indented(1, &charge))
        });
        let writes = self.writes(|number, _| Some(format!("charged or repaired{number}")));
        let kept = [&["1".to_owned()], &*self.all.kept()].concat();
        let answer = match self.all.holds() {
            true => String::new(),
            false => {
                let answer = self.all.returned(kept);
                format!("if charged then\n{}end\n", indented(1, &answer))
            }
        };
        wrapped("\nlocal charged = ", &self.all.all_fit(), " and ", "\n")
            + &format!("if charged then\n{}end\n", indented(1, &charges))
            + &writes
            + &answer
    }

    /// Writes the states for which this holds.
    fn writes(&self, condition: impl Fn(usize, &Composer<'_>) -> Option<String>) -> String {
        self.each(|number, limit| {
            let Some(condition) = condition(number, limit) else {
                return String::new();
            };
            let write = format!(
                "local key, state, key_expires_at = {}, state{number}, key_expires_at{number}\n\
                 local dirty, repaired = dirty{number}, repaired{number}\n{}",
                self.key_of(number),
                limit.write(),
            );
            format!("if {condition} then\n{}end\n", indented(1, &write))
        })
    }
}
