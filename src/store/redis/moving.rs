//! Where a slot is moving to, as the node that gives it away tells.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use fred::types::config::Server;

/// The name and the port of a node that is about to own a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Destination<'a> {
    hosts: [&'a str; 2],
    port: u16,
}

impl<'a> Destination<'a> {
    /// Reads the answer to `CLUSTER NODES`, of the node that holds the slot.
    pub(super) fn of(slot: u16, nodes: &'a str) -> Option<Self> {
        let leaving = format!("[{slot}->-");
        let mut own = nodes.lines().find(is_own)?.split(' ');
        let id = own.find_map(|word| word.strip_prefix(&*leaving))?;
        let id = id.strip_suffix(']')?;
        let is_taker = |line: &&str| line.split(' ').next() == Some(id);
        let taker = nodes.lines().find(is_taker)?;
        // `ip:port@bus,name`
        let (at, rest) = taker.split(' ').nth(1)?.split_once('@')?;
        let (ip, port) = at.rsplit_once(':')?;
        let name = rest.split(',').nth(1).unwrap_or("");
        Some(Self {
            hosts: [ip, name],
            port: port.parse().ok()?,
        })
    }

    /// Which of these it is.
    pub(super) fn among(&self, nodes: &[Server]) -> Option<Server> {
        let is_it = |node: &&Server| {
            node.port == self.port && self.hosts.iter().any(|host| *host == &*node.host)
        };
        nodes.iter().find(is_it).cloned()
    }
}

/// Whether the node that was asked says this about itself.
fn is_own(line: &&str) -> bool {
    let flags = line.split(' ').nth(2).unwrap_or("");
    flags.split(',').any(|flag| flag == "myself")
}

/// The slot that was last seen to move, so that not every request asks where to.
#[derive(Default)]
pub(super) struct LastMove(Mutex<Option<Move>>);

struct Move {
    slot: u16,
    to: Server,
    until: Instant,
}

impl LastMove {
    pub(super) fn of(&self, slot: u16) -> Option<Server> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref().filter(|last| last.slot == slot)?;
        (Instant::now() < last.until).then(|| last.to.clone())
    }

    pub(super) fn is(&self, slot: u16, to: Server) {
        let until = Instant::now() + Duration::from_secs(1);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Move { slot, to, until });
    }

    pub(super) fn is_over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        a1 127.0.0.1:7001@17001,one master - 0 1 1 connected 0-5460 [77-<-c3]\n\
        b2 127.0.0.1:7002@17002,two myself,master - 0 2 2 connected 5461-10922 [93->-c3] [95-<-a1]\n\
        c3 127.0.0.1:7003@17003,three.example master - 0 3 3 connected 10923-16383\n";

    #[test]
    fn a_slot_moves_to_where_its_own_node_says() {
        let to = Destination::of(93, NODES).unwrap();
        assert_eq!(to.hosts, ["127.0.0.1", "three.example"]);
        assert_eq!(to.port, 7003);
        for slot in [77, 95, 9, 3, 5461] {
            assert_eq!(Destination::of(slot, NODES), None);
        }
        for text in ["", "a1", "b2 x myself [93->-c3]", "b2 x myself [93->-b2]"] {
            assert_eq!(Destination::of(93, text), None);
        }
    }

    #[test]
    fn a_destination_is_known_by_its_address_or_its_name() {
        let to = Destination::of(93, NODES).unwrap();
        let [by_address, by_name] =
            [("127.0.0.1", 7003), ("three.example", 7003)].map(Server::from);
        let other = Server::from(("127.0.0.1", 7001));
        for node in [by_address, by_name] {
            assert_eq!(to.among(&[other.clone(), node.clone()]), Some(node));
        }
        assert_eq!(to.among(&[other]), None);
    }

    #[test]
    fn the_last_move_is_that_of_its_slot_and_ends() {
        let last = LastMove::default();
        let node = Server::from(("127.0.0.1", 7003));
        assert_eq!(last.of(93), None);
        last.is(93, node.clone());
        assert_eq!(last.of(93), Some(node));
        assert_eq!(last.of(94), None);
        last.is_over();
        assert_eq!(last.of(93), None);
    }
}
