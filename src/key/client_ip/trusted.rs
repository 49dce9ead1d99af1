//! The address blocks of the trusted proxies.

use std::{net::IpAddr, sync::Arc};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::{
    error::ConfigError,
    key::address::{IPV4_IN_IPV6, canonical},
};

/// The blocks of the trusted proxies, in canonical form: an IPv4 block is never an IPv6 one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    pub(super) fn try_new(cidrs: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, ConfigError> {
        let mut nets = Vec::new();
        let mut names = Vec::new();
        for cidr in cidrs {
            let cidr = cidr.as_ref();
            nets.extend(parse(cidr)?);
            names.push(cidr.to_owned());
        }
        if nets.is_empty() {
            return Err(ConfigError::NoTrustedProxies);
        }
        let nets = IpNet::aggregate(&nets);
        if hold_every_public_address(&nets) {
            return Err(ConfigError::TrustsEveryone(names.join(", ")));
        }
        Ok(Self(nets.into()))
    }

    /// Whether this canonical address is a proxy's.
    pub(super) fn contains(&self, canonical: IpAddr) -> bool {
        self.0.iter().any(|net| net.contains(&canonical))
    }
}

/// The block in canonical form: two blocks if it contains all of IPv4 and some of IPv6.
fn parse(cidr: &str) -> Result<Vec<IpNet>, ConfigError> {
    let net = cidr
        .parse::<IpNet>()
        .or_else(|_| cidr.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| ConfigError::InvalidCidr(cidr.to_owned()))?
        .trunc();
    let IpNet::V6(v6) = net else {
        return Ok(vec![net]);
    };
    let ipv4_in_ipv6 = IPV4_IN_IPV6.map(|start| Ipv6Net::new_assert(start, 96));
    if let Some(block) = ipv4_in_ipv6.iter().find(|block| block.contains(&v6))
        && let IpAddr::V4(v4) = canonical(IpAddr::V6(v6.addr()))
    {
        let bits = v6.prefix_len() - block.prefix_len();
        return Ok(vec![Ipv4Net::new_assert(v4, bits).into()]);
    }
    if ipv4_in_ipv6.iter().any(|block| v6.contains(block)) {
        return Ok(vec![net, Ipv4Net::default().into()]);
    }
    Ok(vec![net])
}

/// Whether the blocks hold every public address of IPv4 or of IPv6.
///
/// Blocks that are not public need not be covered: private ones, loopback, multicast and, in IPv6,
/// everything but global unicast.
fn hold_every_public_address(nets: &[IpNet]) -> bool {
    const NOT_PUBLIC: &str = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 \
        172.16.0.0/12 192.168.0.0/16 224.0.0.0/3 ::/3 4000::/2 8000::/1";

    let not_public = NOT_PUBLIC
        .split(' ')
        .map(|net| net.parse().expect("a block"));
    let all: Vec<IpNet> = nets.iter().copied().chain(not_public).collect();
    IpNet::aggregate(&all)
        .iter()
        .any(|net| net.prefix_len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusts(cidrs: &[&str], ip: &str) -> bool {
        let trusted = TrustedProxies::try_new(cidrs).unwrap();
        trusted.contains(canonical(ip.parse().unwrap()))
    }

    #[test]
    fn blocks_and_addresses_are_compared_in_canonical_form() {
        for cidrs in [
            &["10.0.0.0/8"][..],
            &["10.9.9.9/8"],
            &["::ffff:10.0.0.0/104"],
            &["64:ff9b::10.0.0.0/104"],
            &["::ffff:0:10.0.0.0/104"],
            &["10.0.0.0/9", "10.128.0.0/9"],
        ] {
            assert!(trusts(cidrs, "10.0.0.1"), "{cidrs:?}");
            assert!(trusts(cidrs, "::ffff:10.0.0.1"), "{cidrs:?}");
            assert!(trusts(cidrs, "::ffff:0:10.0.0.1"), "{cidrs:?}");
            assert!(!trusts(cidrs, "11.0.0.1"), "{cidrs:?}");
            assert!(!trusts(cidrs, "::a00:1"), "{cidrs:?}");
        }
    }

    #[test]
    fn an_address_alone_is_a_block_of_one() {
        assert!(trusts(&["10.0.0.1", "2001:db8::1"], "10.0.0.1"));
        assert!(trusts(&["10.0.0.1", "2001:db8::1"], "2001:db8::1"));
        assert!(trusts(&["::ffff:10.0.0.1"], "10.0.0.1"));
        assert!(trusts(&["::ffff:0:10.0.0.1"], "10.0.0.1"));
        assert!(!trusts(&["10.0.0.1"], "10.0.0.2"));
        assert!(!trusts(&["2001:db8::1"], "2001:db8::2"));
    }

    #[test]
    fn whoever_trusts_everyone_is_refused_however_it_is_said() {
        for cidrs in [
            &["0.0.0.0/0"][..],
            &["10.0.0.0/8", "1.2.3.4/0"],
            &["::/0"],
            &["0.0.0.0/1", "128.0.0.0/1"],
            &["128.0.0.0/2", "0.0.0.0/1", "192.0.0.0/2"],
            &["::/1", "8000::/1"],
            &["2000::/3"],
            &["2000::/4", "3000::/4"],
            &["0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/3"],
            &["::ffff:0:0/96"],
            &["::ffff:0:0/95"],
            &["::ffff:0.0.0.0/97", "128.0.0.0/1"],
            &["64:ff9b::/96"],
            &["64:ff9b::/64"],
            &["::ffff:0:0:0/96"],
            &["::ffff:0:0:0/80"],
            &["::/64"],
        ] {
            let error = TrustedProxies::try_new(cidrs).unwrap_err();
            assert_eq!(error, ConfigError::TrustsEveryone(cidrs.join(", ")));
        }
    }

    #[test]
    fn large_private_blocks_are_not_everyone() {
        for cidrs in [
            &[
                "10.0.0.0/8",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "127.0.0.0/8",
            ][..],
            &["fc00::/7", "::1", "fe80::/10"],
            &["0.0.0.0/1"],
            &["2001:db8::/32"],
        ] {
            assert!(TrustedProxies::try_new(cidrs).is_ok(), "{cidrs:?}");
        }
    }

    #[test]
    fn a_list_of_nobody_and_a_block_that_is_none_are_refused() {
        let nobody = TrustedProxies::try_new([""; 0]);
        assert_eq!(nobody, Err(ConfigError::NoTrustedProxies));
        for cidr in [
            "",
            "10",
            "10.0.0.0/33",
            "10.0.0.0/",
            "a.b.c.d/8",
            "::/129",
            " 10.0.0.0/8",
        ] {
            let error = TrustedProxies::try_new([cidr]).unwrap_err();
            assert_eq!(error, ConfigError::InvalidCidr(cidr.to_owned()));
        }
    }
}
