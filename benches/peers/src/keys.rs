//! Keys, and the order in which they come.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Zipf};

/// In which order keys come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each as often as any other.
    Uniform,
    /// The k-th most frequent one 1/k as often as the most frequent one.
    Zipf,
}

impl Order {
    /// As it stands in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
        }
    }
}

/// A kind of key that there are a million of.
pub trait NumberedKey: Clone + Send + Sync + 'static {
    /// As it stands in a table.
    const NAME: &'static str;

    /// The key of this number, in an order that says nothing about its hash.
    fn numbered(number: u32) -> Self;
}

fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B1)
}

impl NumberedKey for IpAddr {
    const NAME: &'static str = "IPv4";

    fn numbered(number: u32) -> Self {
        Self::V4(Ipv4Addr::from(scattered(number)))
    }
}

impl NumberedKey for Ipv6Addr {
    const NAME: &'static str = "IPv6";

    /// One /64 each.
    fn numbered(number: u32) -> Self {
        Self::from(0x2001_0db8_u128 << 96 | u128::from(scattered(number)) << 64)
    }
}

impl NumberedKey for String {
    const NAME: &'static str = "string";

    fn numbered(number: u32) -> Self {
        format!("customer-{:08x}", scattered(number))
    }
}

/// The first so many keys of a kind.
pub fn keys<K: NumberedKey>(count: u32) -> Vec<K> {
    (0..count).map(K::numbered).collect()
}

/// The same keys in the order of a run, with the same seed each time.
pub fn sequence<K: Clone>(keys: &[K], order: Order) -> Vec<K> {
    let mut random = StdRng::seed_from_u64(7);
    let length = keys.len().clamp(100_000, 1_000_000);
    let zipf = Zipf::new(keys.len() as f64, 1.0).expect("at least one key");
    let mut next = || match order {
        Order::Uniform => random.random_range(0..keys.len()),
        Order::Zipf => zipf.sample(&mut random) as usize - 1,
    };
    (0..length).map(|_| keys[next()].clone()).collect()
}
