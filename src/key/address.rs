//! Makes all spellings of an address one key: unmaps IPv4 first, masks IPv6 last.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Once,
};

use http::{Extensions, StatusCode};

use super::MissingKey;

/// The blocks of IPv6, all of 96 bits, whose addresses are IPv4 ones: mapped (`::ffff:0:0/96`, RFC
/// 4291), and made by a translator (`::ffff:0:0:0/96`, RFC 2765, and `64:ff9b::/96`, RFC 6052).
pub(super) const IPV4_IN_IPV6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0),
    Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0),
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
];

/// The IPv4 address inside one of [those blocks](IPV4_IN_IPV6); any other address unchanged.
#[inline]
pub(super) fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => embedded_ipv4(v6).map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// How many leading bits of an IPv6 address identify a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ipv6Prefix(u8);

impl Ipv6Prefix {
    pub(super) const DEFAULT: Self = Self(64);

    #[track_caller]
    pub(super) fn new(bits: u8) -> Self {
        let makes_sense = (32..=128).contains(&bits);
        assert!(
            makes_sense,
            "an IPv6 prefix of {bits} bits is not between 32 and 128"
        );
        Self(bits)
    }

    /// The key for a canonical address: masked if it is IPv6.
    #[inline]
    pub(super) fn mask(self, canonical: IpAddr) -> IpAddr {
        match canonical {
            IpAddr::V4(_) => canonical,
            IpAddr::V6(v6) => {
                let network = v6.to_bits() & (u128::MAX << (128 - self.0));
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        }
    }
}

/// The canonical address of the peer of the request's connection.
// All of this is inlined, and without `?`, for speed: a function that returns an `IpAddr` writes it
// in pieces, and its caller (or `?`) reads it in other pieces, for which the processor waits. It
// gives a tenth of a layer with fields, and more of one without (`middleware` of `benches/peers`).
#[inline(always)]
pub(super) fn peer(extensions: &Extensions) -> Result<IpAddr, MissingKey> {
    match peer_address(extensions) {
        Some(address) => Ok(canonical(address.ip())),
        None => Err(missing_peer()),
    }
}

/// The rejection if the server has not put the peer into the extensions, which is a mistake in its
/// setup: logged once.
#[cold]
fn missing_peer() -> MissingKey {
    static LOGGED: Once = Once::new();

    LOGGED.call_once(|| {
        tracing::error!(
            target: "tollgate::peer_ip",
            "requests carry no peer address and are answered with 500: serve axum's router with \
             `into_make_service_with_connect_info::<SocketAddr>()`, or put a `SocketAddr` into the \
             extensions of each request; a Unix socket has no peer address and needs another key"
        );
    });
    MissingKey::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the address of the peer is not known",
    )
}

#[inline]
fn peer_address(extensions: &Extensions) -> Option<&SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) = extensions.get() {
        return Some(address);
    }
    // Under TLS tonic inserts this extension too, beside its `TlsConnectInfo`.
    #[cfg(feature = "tonic")]
    if let Some(address) = extensions
        .get::<tonic::transport::server::TcpConnectInfo>()
        .and_then(|info| info.remote_addr.as_ref())
    {
        return Some(address);
    }
    if let Some(address) = extensions.get::<SocketAddr>() {
        return Some(address);
    }
    // axum's extension for tests; as in axum, a real peer takes precedence.
    #[cfg(feature = "axum")]
    if let Some(axum::extract::connect_info::MockConnectInfo(address)) = extensions.get() {
        return Some(address);
    }
    None
}

#[inline]
fn embedded_ipv4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    const LAST_32: u128 = u32::MAX as u128;

    let (block, v4) = (v6.to_bits() & !LAST_32, v6.to_bits() & LAST_32);
    let is_one_of_them = IPV4_IN_IPV6.iter().any(|known| known.to_bits() == block);
    is_one_of_them.then(|| Ipv4Addr::from_bits(v4 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn every_spelling_of_an_ipv4_address_is_that_address() {
        for spelling in [
            "1.2.3.4",
            "::ffff:1.2.3.4",
            "::FFFF:102:304",
            "0:0:0:0:0:ffff:0102:0304",
            "64:ff9b::1.2.3.4",
            "64:FF9B::102:304",
            "::ffff:0:1.2.3.4",
            "::FFFF:0:102:304",
            "0:0:0:0:ffff:0000:0102:0304",
        ] {
            assert_eq!(canonical(ip(spelling)), ip("1.2.3.4"), "{spelling}");
        }
    }

    #[test]
    fn an_address_is_taken_for_ipv4_by_its_bits_and_not_by_its_dots() {
        for other in [
            "2001:db8::1.2.3.4",
            "::1.2.3.4",
            "64:ff9b:1::1.2.3.4",
            "::ffff:1:1.2.3.4",
            "::ffff:0:0:1.2.3.4",
            "::ffff:ffff:1.2.3.4",
            "1::ffff:0:1.2.3.4",
            "::1",
        ] {
            assert_eq!(canonical(ip(other)), ip(other), "{other}");
        }
    }

    #[test]
    fn a_mask_never_touches_an_ipv4_address() {
        let coarsest = Ipv6Prefix::new(32);
        let mapped = canonical(ip("::ffff:1.2.3.4"));
        assert_eq!(coarsest.mask(mapped), ip("1.2.3.4"));
    }

    #[test]
    fn a_mask_keeps_exactly_its_bits() {
        let address = ip("2001:db8:1111:2222:3333:4444:5555:6666");
        for (bits, kept) in [
            (32, "2001:db8::"),
            (56, "2001:db8:1111:2200::"),
            (64, "2001:db8:1111:2222::"),
            (65, "2001:db8:1111:2222::"),
            (127, "2001:db8:1111:2222:3333:4444:5555:6666"),
            (128, "2001:db8:1111:2222:3333:4444:5555:6666"),
        ] {
            assert_eq!(Ipv6Prefix::new(bits).mask(address), ip(kept));
        }
    }

    #[test]
    fn a_prefix_that_makes_no_sense_is_refused_with_its_bits_named() {
        for bits in [0, 31, 129, 255] {
            let panic = std::panic::catch_unwind(|| Ipv6Prefix::new(bits)).unwrap_err();
            let said = panic.downcast_ref::<String>().unwrap();
            assert!(said.contains(&format!(" {bits} bits")), "{said}");
        }
    }
}
