//! The lines about one member of a limit: what asks its rule, charges it, and holds units beside
//! its state.

use crate::algorithm::Member;

use super::indented;

/// How a member holds.
pub(super) const HOLDING: &[&str] = &["at_most", "retention"];

/// What is held beside the state of a member.
pub(super) const GENERATIONS: &[&str] = &[
    "earlier_start",
    "earlier_end",
    "earlier_held",
    "later_start",
    "later_end",
    "later_held",
];

/// A member, with the numbers by which the lines name it and its limit.
pub(super) struct Named<'a> {
    pub(super) member: &'a Member,
    pub(super) number: usize,
    pub(super) limit: usize,
    /// The number of its list in `KEYS`, if it keeps one.
    pub(super) list: Option<usize>,
    /// Whether units may be held beside its state.
    pub(super) holds: bool,
    /// Whether processes hold some, to spend them without asking.
    pub(super) leases: bool,
}

impl Named<'_> {
    pub(super) fn name(&self, name: &str) -> String {
        format!("{name}_{}", self.number)
    }

    pub(super) fn names(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.name(name)).collect()
    }

    /// What the frame says of this process, if it counts requests in flight.
    fn process(&self) -> Vec<String> {
        match self.member.in_flight {
            true => self.names(&["process", "number", "running"]),
            false => Vec::new(),
        }
    }

    /// Its cost and its numbers, in the order of the arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let own = [vec![self.name("cost")], self.names(self.member.parameters)];
        [own.concat(), self.process(), self.admitted()].concat()
    }

    fn settles(&self) -> bool {
        self.member.settled || self.leases
    }

    /// What is said of an admission that is settled or gives its turn back.
    fn admitted(&self) -> Vec<String> {
        match (self.member.settled, self.member.withdraws) {
            (true, _) => self.names(&["named", "taken"]),
            (_, true) => self.names(&["left_tick", "left_debt"]),
            _ => Vec::new(),
        }
    }

    pub(super) fn state(&self) -> Vec<String> {
        self.names(self.member.state)
    }

    pub(super) fn extra(&self) -> Vec<String> {
        self.names(self.member.extra)
    }

    /// A call of its function, or of the one that only asks, with these arguments before the
    /// numbers and these after the state.
    fn call(&self, ask: &str, before: &str, after: Vec<String>) -> String {
        let mut arguments = vec![before.to_owned()];
        arguments.extend(self.names(self.member.parameters));
        arguments.extend(self.process());
        arguments.extend(self.list.map(|list| format!("KEYS[{list}]")));
        arguments.extend(self.state());
        if self.member.in_flight {
            arguments.extend([format!("stored_{}", self.limit), self.name("before")]);
        }
        arguments.extend(after);
        format!("{}{ask}({})", self.member.function, arguments.join(", "))
    }

    /// A call that charges its cost, from this time on.
    fn charged(&self, last: &str, must: &str) -> String {
        let (k, cost) = (self.limit, self.name("cost"));
        match self.list {
            Some(_) if self.holds => self.call("", &format!("now_{k}, {cost}"), Vec::new()),
            Some(_) => self.call("", &format!("now_{k}, {cost}"), self.only_kept()),
            None => self.call("", &format!("{last}, now_{k}, {cost}, {must}"), Vec::new()),
        }
    }

    /// A call that asks whether its cost fits, if it keeps a list.
    fn asked(&self, cost: &str) -> String {
        let ask = format!("now_{}, {cost}, {}", self.limit, self.held());
        self.call("_ask", &ask, Vec::new())
    }

    /// Of the cost that is to be leased leaves at most half of the room, and no more than may be
    /// held in all.
    pub(super) fn most_leased(&self) -> String {
        let (k, held) = (self.limit, self.held());
        if self.list.is_some() {
            let ([quota, counted], asked) = (
                ["units", "counted"].map(|it| self.name(it)),
                self.asked("0"),
            );
            return format!(
                "  local _, {counted} = {asked}\n  \
                   cost = math.min(cost, units - ({held}), math.floor(({quota} - {counted}) / 2))\n"
            );
        }
        let held_units = self.name("held");
        let ask = format!("last_{k}, now_{k}, 2 * cost + {held_units}, false");
        let fits = self.call("", &ask, Vec::new());
        format!(
            "  local {held_units} = ({held}) / {}\n  \
               cost = math.min(cost, math.floor(units - {held_units}))\n  \
               while cost > 0 and not {fits} do cost = math.floor(cost / 2) end\n",
            self.parts_of_a_unit()
        )
    }

    pub(super) fn parts_of_a_unit(&self) -> String {
        match self.counts_parts() {
            true => self.name("unit"),
            false => "1".to_owned(),
        }
    }

    /// What is kept from asking until charging, and is not a part of the state.
    fn only_kept(&self) -> Vec<String> {
        let is_other = |name: &&&str| !self.member.state.contains(*name);
        let kept = self.member.kept.iter().filter(is_other);
        kept.map(|name| self.name(name)).collect()
    }

    /// How much is held beside its state.
    pub(super) fn held(&self) -> String {
        match self.holds {
            true => self.names(&["earlier_held", "later_held"]).join(" + "),
            false => "0".to_owned(),
        }
    }

    /// Whether it counts its cost in parts of a unit before it asks.
    pub(super) fn counts_parts(&self) -> bool {
        self.holds && self.member.holds_parts
    }

    /// Counts what is held in parts of a unit, if its rule does.
    fn in_parts(&self) -> String {
        if !self.member.holds_parts {
            return String::new();
        }
        let (k, function) = (self.limit, self.member.function);
        let [cost, taken, unit, speed, rate, tick] =
            ["cost", "taken", "unit", "speed", "rate", "tick"].map(|name| self.name(name));
        let held = self
            .names(&["earlier_held", "later_held"])
            .into_iter()
            .map(|held| {
                let numbers = format!("0, 0, {rate}, {tick}, {held}, {speed}");
                format!("  _, _, {held} = {function}(now_{k}, now_{k}, 1, true, {numbers})\n")
            });
        let mut text = format!(
            "if {speed} ~= {rate} then\n{}end\n",
            held.collect::<String>()
        );
        if self.settles() {
            text += &format!("{taken} = {taken} * {unit}\n");
        }
        text + &format!("{cost}, {unit} = {cost} * {unit}, 1\n")
    }

    /// Spends what is held in generations that have ended, in the order of their ends.
    pub(super) fn spend(&self, then: &str) -> String {
        let k = self.limit;
        let [e_end, e_held, l_end, l_held] =
            ["earlier_end", "earlier_held", "later_end", "later_held"].map(|name| self.name(name));
        let (last, state) = (self.name("as_of"), self.state().join(", "));
        let rule = match self.list {
            Some(_) => self.call("", "at, units", Vec::new()),
            None => self.call("", &format!("{last}, at, units, true"), Vec::new()),
        };
        format!(
            "local {last} = last_{k}\n\
             while ({e_held} > 0 and {e_end} <= now_{k}) or ({l_held} > 0 and {l_end} <= now_{k}) do\n  \
               local units, at\n  \
               units, at, {e_held}, {l_held} =\n    \
                 held_ended({last}, now_{k}, {e_end}, {e_held}, {l_end}, {l_held})\n  \
               _, _, {state} =\n    {rule}\n  \
               {last} = at\n{then}\
             end\n"
        )
    }

    /// Asks its rule whether the cost fits, and unless it keeps a list charges it.
    pub(super) fn ask(&self) -> String {
        let (k, cost, fits) = (self.limit, self.name("cost"), self.name("fits"));
        let (ends, state) = (self.name("ends"), self.state().join(", "));
        let mut text = String::new();
        if self.member.withdraws {
            // Only the last in line can leave it: then the debt is still what its admission left.
            let [debt, speed, rate, tick, left_tick, left_debt] =
                ["debt", "speed", "rate", "tick", "left_tick", "left_debt"]
                    .map(|name| self.name(name));
            text += &format!(
                "if op == SETTLE and ({speed} ~= {rate}\n  \
                   or {debt} + (math.floor(last_{k} / {tick}) - {left_tick}) * {rate} ~= {left_debt}) then\n  \
                   {cost} = 0\n\
                 end\n"
            );
        }
        let refused = match self.member.in_shadow {
            true => format!("if not ({fits} or must) then {cost} = 0 end\n"),
            false => String::new(),
        };
        if self.list.is_some() {
            let replied = [vec![fits], self.extra()].concat();
            let (mut new, mut all) = (replied.clone(), replied);
            if !self.holds {
                new.extend(self.only_kept());
                all.extend(self.names(self.member.kept));
            }
            let (new, all, asked) = (new.join(", "), all.join(", "), self.asked(&cost));
            return text + &format!("local {new}\n{all} =\n  {asked}\n{refused}");
        }
        let last = format!("last_{k}");
        if !self.holds {
            let charged = self.charged(&last, "must");
            if self.member.in_shadow {
                return text
                    + &format!(
                        "local {fits} = {charged}\n{refused}local {ends}\n_, {ends}, {state} =\n  {charged}\n"
                    );
            }
            let mut names = [vec![fits, ends], self.extra()].concat();
            if self.member.in_flight {
                names.push(self.name("leases"));
            }
            let names = names.join(", ");
            return text + &format!("local {names}\n{names}, {state} =\n  {charged}\n");
        }
        let last = self.name("as_of");
        let beside = format!("{last}, now_{k}, {cost} + {}, false", self.held());
        text + &format!(
            "{}{}\
             local {fits}, {ends} = true, nil\n\
             if op <= LOOK and {cost} > 0 then\n  \
               {fits} =\n    {}\n\
             end\n{refused}{}",
            self.in_parts(),
            self.spend(""),
            self.call("", &beside, Vec::new()),
            match self.member.in_shadow {
                true => self.charge_held(),
                false => {
                    let charge = indented(&self.charge_held());
                    format!("if {fits} then\n{charge}end\n")
                }
            }
        )
    }

    /// Holds, settles or charges its cost.
    fn charge_held(&self) -> String {
        let [cost, unit, ends, e_end, l_end, e_held, l_held, retention] = [
            "cost",
            "unit",
            "ends",
            "earlier_end",
            "later_end",
            "earlier_held",
            "later_held",
            "retention",
        ]
        .map(|name| self.name(name));
        let admission = match self.settles() {
            true => self.names(&["named", "taken"]).join(", "),
            false => "0, 0".to_owned(),
        };
        let (at_most, generations) = (self.name("at_most"), self.names(GENERATIONS).join(", "));
        let mut text = format!(
            "{cost}, {generations} =\n  \
               held(must, op == SETTLE, now_{}, {cost}, {at_most}, {admission}, {generations})\n",
            self.limit
        );
        if self.member.holds_parts {
            // A cost of nothing is charged too, so that the debt is counted by these numbers from
            // now on, as what is held is.
            text += &format!("if {cost} == 0 then {cost}, {unit} = 1, 0 end\n");
        }
        let (state, charged) = (
            self.state().join(", "),
            self.charged(&self.name("as_of"), "true"),
        );
        text + &format!(
            "_, {ends}, {state} =\n  {charged}\n\
             if {e_held} > 0 and {e_end} > {ends} then {ends} = {e_end} end\n\
             if {l_held} > 0 and {l_end} > {ends} then {ends} = {l_end} end\n\
             if {e_held} + {l_held} > 0 then {ends} = {ends} + {retention} end\n"
        )
    }

    /// Charges a rule that keeps a list; asks it again where units are held, for the reply.
    pub(super) fn charge(&self) -> String {
        if self.list.is_none() {
            return String::new();
        }
        let (ends, state) = (self.name("ends"), self.state().join(", "));
        let charge = match self.holds {
            true => {
                let (extra, asked) = (self.extra().join(", "), self.asked("0"));
                format!("{}_, {extra} =\n  {asked}\n", self.charge_held())
            }
            false => format!("_, {ends}, {state} =\n  {}\n", self.charged("", "")),
        };
        format!("local {ends}\n{charge}")
    }
}
