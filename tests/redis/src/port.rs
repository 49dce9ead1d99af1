//! Ports that no other fixture has, in this process or in another.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    net::{Ipv4Addr, TcpListener, UdpSocket},
};

/// Below the ports that systems give to outgoing connections. Otherwise a client that tries again
/// and again to reach a dead server could be given the server's own port, and reach itself.
const PORTS: std::ops::Range<u16> = 12_000..22_000;

/// From a node's port to its port of the cluster's bus, which stays below those too.
pub(crate) const TO_BUS: u16 = 10_000;

/// A reserved port: while this lives, no other fixture takes it, whether a server listens or not.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    /// The UDP port of the same number, which no server uses, marks the number as taken.
    _reserved: UdpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let numbers = u64::from(PORTS.end - PORTS.start);
        for attempt in 0_u32..10_000 {
            let random = RandomState::new().hash_one(attempt) % numbers;
            let number = PORTS.start + u16::try_from(random).expect("less than the end");
            if let Ok(reserved) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number))
                && is_free(number)
                && is_free(number + TO_BUS)
            {
                return Self {
                    number,
                    _reserved: reserved,
                };
            }
        }
        panic!("no port is free in {PORTS:?}")
    }
}

fn is_free(number: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
}
