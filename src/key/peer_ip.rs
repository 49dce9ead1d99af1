//! The address at the other end of the connection.

use std::net::IpAddr;

use http::Request;

use super::{
    KeyExtractor, MissingKey,
    address::{self, Ipv6Prefix},
};

/// Charges a request to the IP address of its peer; answers 500 if the server does not know it.
///
/// The peer is the other end of the connection: nothing in a request can change it. Behind a proxy
/// it is the proxy, and all its users would share one bucket: use [`ClientIp`](super::ClientIp)
/// there.
///
/// The address is read from the request's extensions: axum's `ConnectInfo<SocketAddr>` (serve the
/// router with `into_make_service_with_connect_info::<SocketAddr>()`), tonic's `TcpConnectInfo`,
/// which it puts there by itself, or a plain [`SocketAddr`](std::net::SocketAddr); in tests axum's
/// `MockConnectInfo` works too. If there is no address (a Unix socket has none, either), the
/// request is answered with 500, and an error is logged once that says what to do.
///
/// # Which addresses share a bucket
///
/// First, an IPv4-mapped address (`::ffff:1.2.3.4`) and one made by a translator
/// (`64:ff9b::1.2.3.4`, RFC 6052, or `::ffff:0:1.2.3.4`, RFC 2765) become the IPv4 address inside.
/// Then all IPv6 addresses of one /64 are one caller, since one customer has at least a /64; see
/// [`ipv6_prefix`](Self::ipv6_prefix).
///
/// # Example: two spellings, one caller
///
/// ```
/// use std::net::{IpAddr, SocketAddr};
/// use http::Request;
/// use tollgate::key::{KeyExtractor, PeerIp};
///
/// let from = |peer: &str| {
///     let peer: SocketAddr = peer.parse().unwrap();
///     PeerIp::new().extract(&Request::builder().extension(peer).body(()).unwrap())
/// };
/// let ip = |ip: &str| Ok(Some(ip.parse::<IpAddr>().unwrap()));
///
/// assert_eq!(from("192.0.2.1:50000"), ip("192.0.2.1"));
/// assert_eq!(from("[::ffff:192.0.2.1]:50001"), ip("192.0.2.1"));
/// assert_eq!(from("[2001:db8::abcd]:50002"), ip("2001:db8::"));
///
/// let rejection = PeerIp::new().extract(&Request::new(())).unwrap_err();
/// assert_eq!(rejection.status(), 500);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIp {
    prefix: Ipv6Prefix,
}

impl PeerIp {
    /// Charges a request to the IPv4 address, or the IPv6 /64, of its peer.
    pub const fn new() -> Self {
        Self {
            prefix: Ipv6Prefix::DEFAULT,
        }
    }

    /// Makes all IPv6 peers with the same first `bits` bits share one bucket (default: 64).
    ///
    /// A peer with a shorter prefix than /64 has a bucket in each of its /64s: a second limit with
    /// a prefix of 48 stops that.
    ///
    /// # Panics
    ///
    /// The prefix is shorter than 32 bits or longer than 128.
    ///
    /// # Example: a whole site as one caller
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::Request;
    /// use tollgate::key::{KeyExtractor, PeerIp};
    ///
    /// let by_site = PeerIp::new().ipv6_prefix(48);
    /// let peer: SocketAddr = "[2001:db8:7:1234::1]:50000".parse().unwrap();
    /// let request = Request::builder().extension(peer).body(()).unwrap();
    /// assert_eq!(by_site.extract(&request), Ok(Some("2001:db8:7::".parse().unwrap())));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.prefix = Ipv6Prefix::new(bits);
        self
    }

    /// The key that requests of a peer with this address are charged to: for a handler that uses
    /// the layer's [limiter](crate::RateLimitLayer::limiter).
    ///
    /// # Example: the key of a handler's caller
    ///
    /// ```
    /// use std::net::{IpAddr, SocketAddr};
    /// use http::Request;
    /// use tollgate::key::{KeyExtractor, PeerIp};
    ///
    /// let by_peer = PeerIp::new();
    /// let peer: SocketAddr = "[2001:db8::abcd]:50000".parse().unwrap();
    /// let key = by_peer.key_of(peer.ip());
    /// assert_eq!(key, "2001:db8::".parse::<IpAddr>().unwrap());
    ///
    /// let request = Request::builder().extension(peer).body(()).unwrap();
    /// assert_eq!(by_peer.extract(&request), Ok(Some(key)));
    /// ```
    pub fn key_of(&self, address: IpAddr) -> IpAddr {
        self.prefix.mask(address::canonical(address))
    }
}

impl Default for PeerIp {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> KeyExtractor<Request<B>> for PeerIp {
    type Key = IpAddr;
    type Rejection = MissingKey;

    #[inline(always)]
    fn extract(&self, request: &Request<B>) -> Result<Option<IpAddr>, MissingKey> {
        match address::peer(request.extensions()) {
            Ok(peer) => Ok(Some(self.prefix.mask(peer))),
            Err(rejection) => Err(rejection),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, net::SocketAddr};

    use super::*;

    fn from(peer: &str) -> Request<()> {
        let peer = SocketAddr::new(peer.parse().unwrap(), 50_000);
        Request::builder().extension(peer).body(()).unwrap()
    }

    fn key(by: &PeerIp, peer: &str) -> IpAddr {
        by.extract(&from(peer)).unwrap().unwrap()
    }

    #[test]
    fn a_request_without_a_peer_is_neither_shared_nor_let_pass() {
        let rejection = PeerIp::new().extract(&Request::new(())).unwrap_err();
        assert_eq!(rejection.status(), 500);
    }

    #[test]
    fn headers_never_name_the_peer() {
        let mut request = from("203.0.113.9");
        for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
            let value = "for=6.6.6.6".parse().unwrap();
            request.headers_mut().insert(name, value);
        }
        let key = PeerIp::new().extract(&request).unwrap();
        assert_eq!(key, Some("203.0.113.9".parse().unwrap()));
    }

    #[test]
    fn two_ipv4_peers_on_a_dual_stack_socket_have_two_buckets() {
        let by = PeerIp::new();
        assert_ne!(
            key(&by, "::ffff:192.0.2.1"),
            key(&by, "::ffff:198.51.100.1")
        );
        assert_eq!(key(&by, "::ffff:192.0.2.1"), key(&by, "192.0.2.1"));
    }

    #[test]
    fn two_translated_ipv4_peers_have_two_buckets() {
        let by = PeerIp::new();
        assert_ne!(
            key(&by, "64:ff9b::192.0.2.1"),
            key(&by, "64:ff9b::192.0.2.2")
        );
        assert_ne!(
            key(&by, "::ffff:0:192.0.2.1"),
            key(&by, "::ffff:0:192.0.2.2")
        );
    }

    #[test]
    fn all_addresses_of_one_64_share_a_bucket() {
        let by = PeerIp::new();
        let keys: HashSet<_> = (0..=u16::MAX)
            .step_by(97)
            .map(|host| key(&by, &format!("2001:db8::{host:x}:1")))
            .collect();
        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn hopping_between_64s_is_stopped_by_a_second_limit_on_the_48() {
        let peers: Vec<_> = (0..300)
            .map(|net| format!("2001:db8:7:{net:x}::1"))
            .collect();
        let keys = |by: PeerIp| -> HashSet<_> { peers.iter().map(|peer| key(&by, peer)).collect() };
        assert_eq!(keys(PeerIp::new()).len(), 300);
        assert_eq!(keys(PeerIp::new().ipv6_prefix(48)).len(), 1);
    }

    #[test]
    fn the_key_of_an_address_is_that_of_its_requests() {
        for bits in [32, 48, 64, 128] {
            let by = PeerIp::new().ipv6_prefix(bits);
            for peer in [
                "192.0.2.1",
                "::ffff:192.0.2.1",
                "64:ff9b::192.0.2.1",
                "::ffff:0:192.0.2.1",
                "2001:db8:7:1234:5678::1",
                "::1",
            ] {
                let address = peer.parse().unwrap();
                assert_eq!(by.key_of(address), key(&by, peer), "{peer}, /{bits}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "an IPv6 prefix of 8 bits is not between 32 and 128")]
    fn a_senseless_prefix_panics_with_its_bits_named() {
        let _ = PeerIp::new().ipv6_prefix(8);
    }

    #[cfg(feature = "axum")]
    #[test]
    fn the_peer_is_read_from_axum_and_a_real_one_goes_before_a_mock() {
        use axum::extract::{ConnectInfo, connect_info::MockConnectInfo};

        let real: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let mock: SocketAddr = "192.0.2.2:2".parse().unwrap();
        let mut request = Request::new(());
        request.extensions_mut().insert(MockConnectInfo(mock));
        let by = PeerIp::new();
        assert_eq!(by.extract(&request), Ok(Some(mock.ip())));
        request.extensions_mut().insert(ConnectInfo(real));
        assert_eq!(by.extract(&request), Ok(Some(real.ip())));
    }

    #[cfg(feature = "tonic")]
    #[test]
    fn the_peer_is_read_from_tonic_and_a_unix_socket_has_none() {
        use tonic::transport::server::TcpConnectInfo;

        let with = |remote_addr| {
            let info = TcpConnectInfo {
                local_addr: None,
                remote_addr,
            };
            Request::builder().extension(info).body(()).unwrap()
        };
        let peer: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let by = PeerIp::new();
        assert_eq!(by.extract(&with(Some(peer))), Ok(Some(peer.ip())));
        assert_eq!(by.extract(&with(None)).unwrap_err().status(), 500);
    }
}
