//! The address of the client, as trusted proxies report it.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, Request, header};

use crate::error::{ConfigError, or_panic};

use super::{
    KeyExtractor, MissingKey,
    address::{self, Ipv6Prefix, canonical},
    header::{REPEATED, parse_name},
};

use found::Found;
use line::{Line, SplitLast, last_bytes};
use node::Unreadable;
use trusted::TrustedProxies;

mod forwarded;
mod found;
mod line;
mod node;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_hostile;
mod trusted;

/// Charges a request to the IP address of the client that a trusted proxy names in **one** header;
/// answers 500 if the server does not know the peer.
///
/// # The rule
///
/// 1. The peer is found as by [`PeerIp`](super::PeerIp). If it is not in a trusted block, it is the
///    client and the header is not read: a client that connects directly cannot choose its key.
/// 2. Otherwise the header is read from the right, over all its lines. Addresses in trusted blocks
///    are proxies and are skipped; the first other address is the client. If all are trusted, the
///    leftmost is the client. Empty items do not count.
/// 3. Reading stops at anything that is not an address (`unknown`, `_hidden`, a zone, a syntax
///    error), and the request is charged to the last proxy that was skipped. Nothing further left
///    can be trusted, and nobody passes for free.
/// 4. Only the last 8 KiB of the header and the last 32 addresses in it are read: a client that
///    writes more in front of them stays in its bucket. An item that may be cut off does not count.
///    If no client is found in this part, reading stops as in rule 3.
/// 5. A request without the header is charged to the peer: the proxy has a bucket, too.
/// 6. Addresses are canonical before they are compared, and IPv6 is masked last, as by `PeerIp`.
///
/// No other header is read: `X_Forwarded_For` is not `X-Forwarded-For`. Extraction takes no
/// allocation.
///
/// # What you have to ensure
///
/// - List your proxies, and nothing else: a block that clients can connect from lets them choose
///   their keys. The constructors refuse a list that holds the whole Internet.
/// - The outermost proxy must append to this header, or set it. A proxy that forwards the header
///   unchanged, because it does not know it (`X-Real-IP`, for example), lets clients choose.
/// - A load balancer's health checks have no header, so they are charged to the proxy.
///
/// # What is logged
///
/// The `tracing` events have target `tollgate::client_ip` and level debug, and contain only the
/// peer's address: `client_ip.header_missing` (from a trusted peer: the proxy is set up wrongly, or
/// a client has had the header removed) and `client_ip.header_unreadable` (or too long). The first
/// missing header is logged as a warning too.
///
/// # Example: what a client writes itself does not count
///
/// ```
/// use std::net::SocketAddr;
/// use http::Request;
/// use tollgate::key::{ClientIp, KeyExtractor};
///
/// let by_client = ClientIp::x_forwarded_for(["10.0.0.0/8"]);
/// let key = |peer: &str, header: &str| {
///     let peer: SocketAddr = peer.parse().unwrap();
///     let request = Request::builder().extension(peer).header("x-forwarded-for", header);
///     by_client.extract(&request.body(()).unwrap()).unwrap().unwrap().to_string()
/// };
///
/// assert_eq!(key("10.0.0.1:443", "6.6.6.6, 192.0.2.1"), "192.0.2.1");
/// assert_eq!(key("10.0.0.1:443", "6.6.6.6, 192.0.2.1, 10.0.0.2"), "192.0.2.1");
/// assert_eq!(key("10.0.0.1:443", "6.6.6.6, garbage"), "10.0.0.1");
/// assert_eq!(key("192.0.2.9:443", "6.6.6.6"), "192.0.2.9");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIp {
    header: HeaderName,
    format: HeaderFormat,
    trusted: TrustedProxies,
    prefix: Ipv6Prefix,
}

impl ClientIp {
    /// Charges a request to the client that trusted proxies name in `X-Forwarded-For`.
    ///
    /// A proxy is a block in CIDR notation, or an address. Items are addresses with or without a
    /// port, and IPv6 with or without brackets.
    ///
    /// # Panics
    ///
    /// Where [`try_x_forwarded_for`](Self::try_x_forwarded_for) fails, with its error as the
    /// message.
    #[track_caller]
    pub fn x_forwarded_for(trusted: impl IntoIterator<Item: AsRef<str>>) -> Self {
        or_panic(Self::try_x_forwarded_for(trusted))
    }

    /// Charges a request to the client that trusted proxies name in `X-Forwarded-For`.
    ///
    /// # Errors
    ///
    /// A block is not a CIDR block, the list is empty, or it holds every public address of IPv4 or
    /// of IPv6.
    ///
    /// # Example: trusting everyone is trusting no header
    ///
    /// ```
    /// use tollgate::{ConfigError, key::ClientIp};
    ///
    /// for everyone in [&["0.0.0.0/0"][..], &["::/0"], &["0.0.0.0/1", "128.0.0.0/1"]] {
    ///     let error = ClientIp::try_x_forwarded_for(everyone).unwrap_err();
    ///     assert!(matches!(error, ConfigError::TrustsEveryone { .. }));
    /// }
    /// ```
    pub fn try_x_forwarded_for(
        trusted: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, ConfigError> {
        let name = HeaderName::from_static("x-forwarded-for");
        Self::try_new(name, HeaderFormat::XForwardedFor, trusted)
    }

    /// Charges a request to the client that trusted proxies name in `Forwarded` (RFC 7239).
    ///
    /// Each element must have exactly one `for`, with the address quoted and in brackets if it is
    /// IPv6; else reading stops there.
    ///
    /// # Panics
    ///
    /// Where [`try_forwarded`](Self::try_forwarded) fails, with its error as the message.
    #[track_caller]
    pub fn forwarded(trusted: impl IntoIterator<Item: AsRef<str>>) -> Self {
        or_panic(Self::try_forwarded(trusted))
    }

    /// Charges a request to the client that trusted proxies name in `Forwarded` (RFC 7239).
    ///
    /// # Errors
    ///
    /// As [`try_x_forwarded_for`](Self::try_x_forwarded_for).
    ///
    /// # Example: an IPv6 client is its /64
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::Request;
    /// use tollgate::key::{ClientIp, KeyExtractor};
    ///
    /// let by_client = ClientIp::try_forwarded(["10.0.0.0/8"])?;
    /// let request = Request::builder()
    ///     .extension(SocketAddr::from(([10, 0, 0, 1], 443)))
    ///     .header("forwarded", r#"for=6.6.6.6, for="[2001:db8::17]:4711";proto=https"#)
    ///     .body(())
    ///     .unwrap();
    /// assert_eq!(by_client.extract(&request), Ok(Some("2001:db8::".parse().unwrap())));
    /// # Ok::<_, tollgate::ConfigError>(())
    /// ```
    pub fn try_forwarded(
        trusted: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, ConfigError> {
        Self::try_new(header::FORWARDED, HeaderFormat::Forwarded, trusted)
    }

    /// Charges a request to the client that a trusted proxy names in this header; answers 400 if it
    /// is there twice.
    ///
    /// The header holds one address, with or without a port. The proxy must *set* it, and not
    /// append to it.
    ///
    /// # Panics
    ///
    /// Where [`try_header`](Self::try_header) fails, with its error as the message.
    #[track_caller]
    pub fn header(name: impl AsRef<str>, trusted: impl IntoIterator<Item: AsRef<str>>) -> Self {
        or_panic(Self::try_header(name, trusted))
    }

    /// Charges a request to the client that a trusted proxy names in this header; answers 400 if it
    /// is there twice.
    ///
    /// # Errors
    ///
    /// As [`try_x_forwarded_for`](Self::try_x_forwarded_for), or the name is not one that HTTP
    /// allows.
    ///
    /// # Example: a header that is there twice
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::Request;
    /// use tollgate::key::{ClientIp, KeyExtractor};
    ///
    /// let by_client = ClientIp::try_header("x-real-ip", ["10.0.0.1"])?;
    /// let request = || {
    ///     let peer = SocketAddr::from(([10, 0, 0, 1], 443));
    ///     Request::builder().extension(peer).header("x-real-ip", "192.0.2.1")
    /// };
    /// let once = request().body(()).unwrap();
    /// assert_eq!(by_client.extract(&once), Ok(Some("192.0.2.1".parse().unwrap())));
    ///
    /// let twice = request().header("x-real-ip", "6.6.6.6").body(()).unwrap();
    /// assert_eq!(by_client.extract(&twice).unwrap_err().status(), 400);
    /// # Ok::<_, tollgate::ConfigError>(())
    /// ```
    pub fn try_header(
        name: impl AsRef<str>,
        trusted: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, ConfigError> {
        let name = parse_name(name.as_ref())?;
        Self::try_new(name, HeaderFormat::OneAddress, trusted)
    }

    /// Makes all IPv6 clients with the same first `bits` bits share one bucket (default: 64).
    ///
    /// A client with a shorter prefix than /64 has a bucket in each of its /64s: a second limit
    /// with a prefix of 48 stops that.
    ///
    /// # Panics
    ///
    /// The prefix is shorter than 32 bits or longer than 128.
    #[must_use]
    #[track_caller]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.prefix = Ipv6Prefix::new(bits);
        self
    }

    /// The key that requests of a client with this address are charged to: for a handler that uses
    /// the layer's [limiter](crate::RateLimitLayer::limiter).
    ///
    /// # Example: the key of a client
    ///
    /// ```
    /// use std::net::{IpAddr, SocketAddr};
    /// use http::Request;
    /// use tollgate::key::{ClientIp, KeyExtractor};
    ///
    /// let by_client = ClientIp::x_forwarded_for(["10.0.0.0/8"]);
    /// let key = by_client.key_of("2001:db8::abcd".parse().unwrap());
    /// assert_eq!(key, "2001:db8::".parse::<IpAddr>().unwrap());
    ///
    /// let proxy = SocketAddr::from(([10, 0, 0, 1], 443));
    /// let request = Request::builder().extension(proxy).header("x-forwarded-for", "2001:db8::7");
    /// assert_eq!(by_client.extract(&request.body(()).unwrap()), Ok(Some(key)));
    /// ```
    pub fn key_of(&self, client: IpAddr) -> IpAddr {
        self.prefix.mask(canonical(client))
    }

    fn try_new(
        header: HeaderName,
        format: HeaderFormat,
        trusted: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            header,
            format,
            trusted: TrustedProxies::try_new(trusted)?,
            prefix: Ipv6Prefix::DEFAULT,
        })
    }

    fn find(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Found, MissingKey> {
        let lines = || headers.get_all(&self.header).iter();
        if self.format == HeaderFormat::OneAddress && lines().nth(1).is_some() {
            return Err(MissingKey::of_header(&self.header, REPEATED));
        }
        let lines = last_bytes(lines().map(|line| line.as_bytes()), MAX_BYTES);
        let hops = lines.flat_map(|line| self.format.addresses(line));
        Ok(self.first_untrusted(peer, hops))
    }

    /// Skips the trusted proxies, from the nearest on: the first other address is the client.
    fn first_untrusted(
        &self,
        peer: IpAddr,
        hops: impl Iterator<Item = Result<IpAddr, Unreadable>>,
    ) -> Found {
        let mut last_proxy = None;
        for (hop, passed) in hops.zip(0..) {
            match hop.map(canonical) {
                Ok(ip) if passed < MAX_HOPS => match self.trusted.contains(ip) {
                    true => last_proxy = Some(ip),
                    false => return Found::Client(ip),
                },
                _ => return Found::Unreadable(last_proxy.unwrap_or(peer)),
            }
        }
        last_proxy.map_or(Found::Missing, Found::Client)
    }
}

impl<B> KeyExtractor<Request<B>> for ClientIp {
    type Key = IpAddr;
    type Rejection = MissingKey;

    fn extract(&self, request: &Request<B>) -> Result<Option<IpAddr>, MissingKey> {
        let peer = address::peer(request.extensions())?;
        let client = if self.trusted.contains(peer) {
            let found = self.find(request.headers(), peer)?;
            found.trace(peer, &self.header);
            match found {
                Found::Client(client) | Found::Unreadable(client) => client,
                Found::Missing => peer,
            }
        } else {
            peer
        };
        Ok(Some(self.prefix.mask(client)))
    }
}

/// How much of the header is read, from the right: more than any honest chain of proxies writes.
/// What is longer is unreadable.
const MAX_BYTES: usize = 8 * 1024;
const MAX_HOPS: usize = 32;

/// The format of the one header that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderFormat {
    XForwardedFor,
    Forwarded,
    OneAddress,
}

impl HeaderFormat {
    /// The addresses in one line, from the right; empty items are left out.
    fn addresses(self, line: Line<'_>) -> impl Iterator<Item = Result<IpAddr, Unreadable>> {
        let (split_last, read): (SplitLast, fn(&[u8]) -> _) = match self {
            Self::XForwardedFor => (line::split_at_last_comma, node::lenient),
            Self::Forwarded => (forwarded::split_last_element, forwarded::client_of),
            Self::OneAddress => (line::do_not_split, node::lenient),
        };
        line.items(split_last).map(move |item| read(item?))
    }
}
