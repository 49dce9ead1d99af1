//! The lines about one limit: what reads its state, and writes it.

use super::{
    UNREADABLE,
    member::{GENERATIONS, Named},
    whole,
};

/// A limit: one state, of one member or those of a tuple.
pub(super) struct Limit<'a> {
    pub(super) number: usize,
    /// The number of its state in `KEYS`.
    pub(super) key: usize,
    pub(super) members: Vec<Named<'a>>,
    /// Whether its value may have a tail.
    pub(super) holds: bool,
}

impl Limit<'_> {
    pub(super) fn name(&self, name: &str) -> String {
        format!("{name}_{}", self.number)
    }

    /// The numbers of its value.
    fn names(&self) -> Vec<String> {
        let times = ["last", "ahead", "key_expires_at"].map(|name| self.name(name));
        let states = self.members.iter().flat_map(Named::state);
        times.into_iter().chain(states).collect()
    }

    /// The generations of all members, if its value may have a tail.
    fn generations(&self) -> Vec<String> {
        let members = self.members.iter().filter(|_| self.holds);
        members.flat_map(|named| named.names(GENERATIONS)).collect()
    }

    /// The names of something of its members in flight. Their leases stand behind the tail.
    fn in_flight(&self, name: &str) -> Vec<String> {
        let members = self.members.iter().filter(|named| named.member.in_flight);
        members.map(|named| named.name(name)).collect()
    }

    /// What is stored without leases, and how many bytes that is.
    pub(super) fn without_leases(&self) -> [String; 2] {
        let k = self.number;
        match self.in_flight("before").into_iter().next() {
            Some(before) => [format!("stored_{k}:sub(1, {before})"), before],
            None => [format!("stored_{k}"), format!("#stored_{k}")],
        }
    }

    /// Counts the bytes before the leases of each member.
    fn find_leases(&self) -> String {
        let (stored, bytes) = (self.name("stored"), self.in_flight("bytes"));
        let befores = self.in_flight("before").into_iter().enumerate();
        let line = |(at, before)| format!("  {before} = #{stored} - {}\n", bytes[at..].join(" - "));
        befores.map(line).collect()
    }

    pub(super) fn read(&self) -> String {
        let (k, key) = (self.number, self.key);
        let (names, held) = (self.names(), self.generations());
        let bytes = 1 + 7 * names.len();
        let with_tail = bytes + 7 * GENERATIONS.len() * self.members.len();
        let unreadable = format!("then error('{UNREADABLE} state') end");
        let too_large = |names: &[String]| names.join(" >= 2 ^ 53 or ") + " >= 2 ^ 53";
        let zeros = [&names[..], &held, &self.in_flight("before")].concat();
        let [_, size] = self.without_leases();
        let mut tail = String::new();
        if self.holds {
            tail = format!(
                "  if {size} == {with_tail} then\n    \
                   {} = unpack('<{}', stored_{k}, {})\n    \
                   if {} {unreadable}\n  \
                 end\n",
                held.join(", "),
                whole(held.len()),
                bytes + 1,
                too_large(&held)
            );
        }
        let mut has_other_size = format!("{size} ~= {bytes}");
        let mut asks_other = String::new();
        if !self.members.iter().all(|named| named.member.in_flight) {
            has_other_size += &format!(" and {size} ~= {with_tail}");
            if !self.holds {
                // A script that does not hold reads no tail.
                asks_other = format!("  if {size} == {with_tail} then return '\\2' end\n");
            }
        }
        format!(
            "local stored_{k} = call('GET', KEYS[{key}])\n\
             if stored_{k} and #stored_{k} < {bytes} then\n  \
               if #stored_{k} ~= 8 {unreadable}\n  \
               mark, overridden_until = unpack('<BI7', stored_{k})\n  \
               if mark ~= 5 and mark ~= 6 or overridden_until >= 2 ^ 53 {unreadable}\n  \
               if now < overridden_until then return stored_{k} .. pack('<I7', now) end\n  \
               stored_{k} = nil\n\
             end\n\
             local now_{k}, {} = now, now{}\n\
             if stored_{k} then\n  \
               mark, {} = unpack('<B{}', stored_{k})\n\
               {}  \
               if mark ~= 1 or {has_other_size} or {} {unreadable}\n\
               {asks_other}{tail}  \
               now_{k} = now + ahead_{k}\n  \
               if servers_time and now_{k} < last_{k} and last_{k} - now_{k} > key_expires_at_{k} - last_{k} then\n    \
                 ahead_{k} = ahead_{k} + last_{k} - now_{k}\n    \
                 call('SET', KEYS[{key}], pack('<BI7I7', 1, last_{k}, ahead_{k}) .. stored_{k}:sub(16), 'KEEPTTL')\n  \
               end\n  \
               if now_{k} < last_{k} or op == TAKE_BACK then now_{k} = last_{k} end\n\
             else stored_{k} = '' end\n",
            zeros.join(", "),
            ", 0".repeat(zeros.len() - 1),
            names.join(", "),
            whole(names.len()),
            self.find_leases(),
            too_large(&names),
        )
    }

    /// The value as of this time, with a tail if anything is held.
    pub(super) fn value(&self, time: &str) -> String {
        let mut names = self.names();
        names[0] = self.name(time);
        let packed = |names: &[String]| {
            let (format, names) = (whole(names.len()), names.join(", "));
            format!("pack('<B{format}', 1, {names})")
        };
        if !self.holds {
            return packed(&names);
        }
        let held = self.members.iter().filter(|named| named.holds);
        let held = held.map(Named::held).collect::<Vec<_>>().join(" + ");
        let all = [&names[..], &self.generations()].concat();
        format!("{held} > 0 and {} or {}", packed(&all), packed(&names))
    }

    /// When it is as good as none.
    pub(super) fn ends(&self) -> String {
        let ends: Vec<_> = (self.members.iter().map(|named| named.name("ends"))).collect();
        match &*ends {
            [only] => only.clone(),
            ends => format!("math.max({})", ends.join(", ")),
        }
    }

    pub(super) fn until(&self) -> String {
        let (k, ends) = (self.number, self.ends());
        format!("local until_{k}, value_{k} = {ends}, nil\n")
    }

    pub(super) fn write(&self) -> String {
        let (k, key) = (self.number, self.key);
        let lists = self.members.iter().filter_map(|named| named.list);
        let expire = lists.map(|list| format!("  call('PEXPIRE', KEYS[{list}], ttl_ms_{k})\n"));
        let all = [vec![self.name("value")], self.in_flight("leases")].concat();
        let all = all.join(" .. ");
        format!(
            "local ttl_ms_{k}\n\
             if until_{k} >= key_expires_at_{k} or not servers_time or has_new_list then\n  \
               local expiry = until_{k} + math.ceil((until_{k} - now_{k}) / 64) + 1e6\n  \
               expiry = math.min(expiry, 2 ^ 53 - 1)\n  \
               key_expires_at_{k} = math.max(key_expires_at_{k}, expiry)\n  \
               ttl_ms_{k} = math.max(math.ceil((key_expires_at_{k} - ahead_{k} - now) / 1000), min_ttl_ms)\n\
             end\n\
             value_{k} = {}\n\
             if ttl_ms_{k} then\n  \
               call('SET', KEYS[{key}], {all}, 'PX', ttl_ms_{k})\n\
               {}\
             else\n  \
               call('SET', KEYS[{key}], {all}, 'KEEPTTL')\n\
             end\n",
            self.value("now"),
            expire.collect::<String>()
        )
    }

    /// Spends what a member that keeps a list has held, and writes the state at once: the list is
    /// written whatever is decided.
    pub(super) fn spend(&self, named: &Named<'_>) -> String {
        let (Some(list), true) = (named.list, named.holds) else {
            return String::new();
        };
        let (k, key) = (self.number, self.key);
        let before = self.in_flight("before").into_iter().take(1);
        let leases = before.map(|before| format!(" .. stored_{k}:sub({before} + 1)"));
        named.spend(&format!(
            "  stored_{k} = {}{}\n\
             {}  \
               call('SET', KEYS[{key}], stored_{k}, 'KEEPTTL')\n  \
               if has_new_list then\n    \
                 call('PEXPIRE', KEYS[{list}], \
                   math.ceil((key_expires_at_{k} - ahead_{k} - now) / 1000) + 60000)\n  \
               end\n",
            self.value("last"),
            leases.collect::<String>(),
            self.find_leases(),
        ))
    }

    /// The numbers that a decision changes: the state of each member, and what is held.
    pub(super) fn decided_by(&self) -> Vec<String> {
        let states = self.members.iter().flat_map(Named::state);
        states.chain(self.generations()).collect()
    }
}
