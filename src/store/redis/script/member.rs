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

/// These lines, if they are needed.
fn lines_if(is_needed: bool, lines: &str) -> &str {
    if is_needed { lines } else { "" }
}

impl Named<'_> {
    /// These lines, in which `@` stands for its number, and `$` for that of its limit.
    pub(super) fn lua(&self, lines: &str) -> String {
        let [number, limit] = [self.number, self.limit].map(|it| it.to_string());
        lines.replace('@', &number).replace('$', &limit)
    }

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
        let mut arguments = vec![self.lua(before)];
        arguments.extend(self.names(self.member.parameters));
        arguments.extend(self.process());
        arguments.extend(self.list.map(|list| format!("KEYS[{list}]")));
        arguments.extend(self.state());
        if self.member.in_flight {
            arguments.push(self.lua("stored_$, before_@"));
        }
        arguments.extend(after);
        format!("{}{ask}({})", self.member.function, arguments.join(", "))
    }

    /// A call that charges so many units at an instant; a rule without a list also takes from when
    /// on, and whether it must.
    fn charged(&self, last: &str, charge: &str, must: &str) -> String {
        match self.list {
            Some(_) => self.call("", charge, self.only_kept()),
            None => self.call("", &format!("{last}, {charge}, {must}"), Vec::new()),
        }
    }

    /// A call that asks whether a cost fits, if it keeps a list.
    fn asked(&self, cost: &str) -> String {
        let ask = format!("now_$, {cost}, {}", self.held());
        self.call("_ask", &ask, Vec::new())
    }

    /// Of the cost that is to be leased leaves at most half of the room, and no more than may be
    /// held in all.
    pub(super) fn most_leased(&self) -> String {
        let (held, unit) = (self.held(), self.parts_of_a_unit());
        self.lua(&match self.list {
            Some(_) => format!(
                "  local _, counted_@ = {}\n  \
                   cost = math.min(cost, units - ({held}), math.floor((units_@ - counted_@) / 2))\n",
                self.asked("0")
            ),
            None => format!(
                "  local held_@ = ({held}) / {unit}\n  \
                   cost = math.min(cost, math.floor(units - held_@))\n  \
                   while cost > 0 and not {} do cost = math.floor(cost / 2) end\n",
                self.charged("last_$", "now_$, 2 * cost + held_@", "false")
            ),
        })
    }

    pub(super) fn parts_of_a_unit(&self) -> String {
        match self.counts_parts() {
            true => self.name("unit"),
            false => "1".to_owned(),
        }
    }

    /// What is kept from asking until charging. Nothing, where units are held: it asks again then.
    fn kept(&self) -> &'static [&'static str] {
        if self.holds { &[] } else { self.member.kept }
    }

    /// What of that is not a part of the state.
    fn only_kept(&self) -> Vec<String> {
        let is_other = |name: &&&str| !self.member.state.contains(*name);
        let kept = self.kept().iter().filter(is_other);
        kept.map(|name| self.name(name)).collect()
    }

    /// How much is held beside its state.
    pub(super) fn held(&self) -> String {
        match self.holds {
            true => self.lua("earlier_held_@ + later_held_@"),
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
        let function = self.member.function;
        let held = ["earlier_held_@", "later_held_@"].map(|held| {
            let numbers = format!("0, 0, rate_@, tick_@, {held}, speed_@");
            format!("  _, _, {held} = {function}(now_$, now_$, 1, true, {numbers})\n")
        });
        let taken = lines_if(self.settles(), "taken_@ = taken_@ * unit_@\n");
        format!(
            "if speed_@ ~= rate_@ then\n{}end\n{taken}cost_@, unit_@ = cost_@ * unit_@, 1\n",
            held.concat()
        )
    }

    /// Spends what is held in generations that have ended, in the order of their ends.
    pub(super) fn spend(&self, then: &str) -> String {
        let spent = self.charged("as_of_@", "at, units", "true");
        let state = self.state().join(", ");
        self.lua(&format!(
            "local as_of_@ = last_$\n\
             while (earlier_held_@ > 0 and earlier_end_@ <= now_$) or (later_held_@ > 0 and later_end_@ <= now_$) do\n  \
               local units, at\n  \
               units, at, earlier_held_@, later_held_@ =\n    \
                 held_ended(as_of_@, now_$, earlier_end_@, earlier_held_@, later_end_@, later_held_@)\n  \
               _, _, {state} =\n    {spent}\n  \
               as_of_@ = at\n{then}\
             end\n"
        ))
    }

    /// Asks its rule whether the cost fits, and unless it keeps a list charges it.
    pub(super) fn ask(&self) -> String {
        // Only the last in line can leave it: then the debt is still what its admission left.
        let withdrawn = lines_if(
            self.member.withdraws,
            "if op == SETTLE and (speed_@ ~= rate_@\n  \
               or debt_@ + (math.floor(last_$ / tick_@) - left_tick_@) * rate_@ ~= left_debt_@) then\n  \
               cost_@ = 0\n\
             end\n",
        );
        let refused = lines_if(
            self.member.in_shadow,
            "if not (fits_@ or must) then cost_@ = 0 end\n",
        );
        let asked = if self.list.is_some() {
            let replied = [vec![self.name("fits")], self.extra()].concat();
            let new = [replied.clone(), self.only_kept()].concat().join(", ");
            let all = [replied, self.names(self.kept())].concat().join(", ");
            format!(
                "local {new}\n{all} =\n  {}\n{refused}",
                self.asked("cost_@")
            )
        } else if self.holds {
            let beside = format!("now_$, cost_@ + {}", self.held());
            let charge = match self.member.in_shadow {
                true => self.charge_held(),
                false => format!("if fits_@ then\n{}end\n", indented(&self.charge_held())),
            };
            format!(
                "{}{}\
                 local fits_@, ends_@ = true, nil\n\
                 if op <= LOOK and cost_@ > 0 then\n  \
                   fits_@ =\n    {}\n\
                 end\n{refused}{charge}",
                self.in_parts(),
                self.spend(""),
                self.charged("as_of_@", &beside, "false"),
            )
        } else if self.member.in_shadow {
            let fits = self.charged("last_$", "now_$, cost_@", "must");
            let charge = self.charge_from("last_$", "must");
            format!("local fits_@ = {fits}\n{refused}local ends_@\n{charge}")
        } else {
            let mut names = [self.names(&["fits", "ends"]), self.extra()].concat();
            if self.member.in_flight {
                names.push(self.name("leases"));
            }
            let (names, state) = (names.join(", "), self.state().join(", "));
            let charged = self.charged("last_$", "now_$, cost_@", "must");
            format!("local {names}\n{names}, {state} =\n  {charged}\n")
        };
        self.lua(&(withdrawn.to_owned() + &asked))
    }

    /// Holds, settles or charges its cost.
    fn charge_held(&self) -> String {
        let admission = match self.settles() {
            true => "named_@, taken_@",
            false => "0, 0",
        };
        // A cost of nothing is charged too, so that the debt is counted by these numbers from now
        // on, as what is held is.
        let nothing = lines_if(
            self.member.holds_parts,
            "if cost_@ == 0 then cost_@, unit_@ = 1, 0 end\n",
        );
        let generations = self.names(GENERATIONS).join(", ");
        let charge = self.charge_from("as_of_@", "true");
        self.lua(&format!(
            "cost_@, {generations} =\n  \
               held(must, op == SETTLE, now_$, cost_@, at_most_@, {admission}, {generations})\n\
             {nothing}{charge}\
             if earlier_held_@ > 0 and earlier_end_@ > ends_@ then ends_@ = earlier_end_@ end\n\
             if later_held_@ > 0 and later_end_@ > ends_@ then ends_@ = later_end_@ end\n\
             if earlier_held_@ + later_held_@ > 0 then ends_@ = ends_@ + retention_@ end\n"
        ))
    }

    /// Charges its cost as of now.
    fn charge_from(&self, last: &str, must: &str) -> String {
        let charged = self.charged(last, "now_$, cost_@", must);
        format!("_, ends_@, {} =\n  {charged}\n", self.state().join(", "))
    }

    /// Charges a rule that keeps a list; asks it again where units are held, for the reply.
    pub(super) fn charge(&self) -> String {
        if self.list.is_none() {
            return String::new();
        }
        let charge = match self.holds {
            true => {
                let (extra, asked) = (self.extra().join(", "), self.asked("0"));
                format!("{}_, {extra} =\n  {asked}\n", self.charge_held())
            }
            false => self.charge_from("", ""),
        };
        self.lua(&format!("local ends_@\n{charge}"))
    }
}
