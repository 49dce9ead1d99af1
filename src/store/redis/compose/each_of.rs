//! One script about several keys: all are judged, and then all are charged or none is.

use crate::algorithm::Script;

use super::{Composer, MOST_LOCALS, Named, Task, compose, names_of_all};

/// The script of a limit for each of several keys, in Lua 5.1: [`Task::Decide`] or [`Task::Peek`].
///
/// Its keys are the first limit's state, then all further keys in the order of the limits, then the
/// states of the other limits.
pub(in crate::store::redis) fn compose_each_of(limits: &[Script], task: Task) -> String {
    if let [limit] = limits {
        return compose(limit, task);
    }
    let is_wide = limits.iter().map(names_of_all).sum::<usize>() > MOST_LOCALS;
    let one = |at: usize| composer(&limits[at..=at], &limits[..at], (task, is_wide));
    let each_of = EachOf {
        all: composer(limits, &[], (task, is_wide)),
        limits: (0..limits.len()).map(one).collect(),
    };
    each_of.text()
}

/// The members of these limits, numbered after those before them.
fn composer<'a>(
    limits: &'a [Script],
    before: &[Script],
    (task, is_wide): (Task, bool),
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
        first_further_key: 2 + earlier().map(|member| member.keys.len()).sum::<usize>(),
        is_alone: false,
    }
}

struct EachOf<'a> {
    /// All members of all limits.
    all: Composer<'a>,
    limits: Vec<Composer<'a>>,
}

impl EachOf<'_> {
    fn text(&self) -> String {
        let mut text = self.all.libraries() + &self.all.arguments();
        text += &self.each(|number, limit| {
            format!(
                "local state{number}, kept_until{number}, moves{number}, mends{number}\ndo\nlocal moves, mends = moves, nil\nkey = {}\n{}{}\
                 state{number}, kept_until{number}, moves{number}, mends{number} = state, kept_until, moves, mends\nend\n",
                self.key_of(number),
                limit.state(),
                limit.judgement(),
            )
        });
        if self.all.task == Task::Decide {
            text += &self.change();
        }
        text + &self.all.answer()
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

    /// Changes the states, and writes them: first what may fail because a key is a stranger's, then
    /// the rest.
    fn change(&self) -> String {
        let charges = self.each(|number, limit| {
            format!(
                "do\nlocal state, moves = state{number}, moves{number}\n{}moves{number} = moves\nend\n",
                limit.charge()
            )
        });
        let writes = |when: fn(usize) -> String| {
            self.each(|number, limit| {
                format!(
                    "{}\nlocal key, state, kept_until, moves, mends = {}, state{number}, kept_until{number}, \
                     moves{number}, mends{number}\n{}end\n",
                    when(number),
                    self.key_of(number),
                    limit.write(),
                )
            })
        };
        format!(
            "if {} and cost > 0 then\n{charges}{}return {}\nend\n{}",
            self.all.all_fit(),
            writes(|_| "do".to_owned()),
            self.all.told_and_kept(),
            writes(|number| format!("if mends{number} then")),
        )
    }
}
