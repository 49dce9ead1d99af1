//! The address of a client, in a header that a proxy of ours has written at the end of.

#![no_main]

use std::{
    net::{IpAddr, SocketAddr},
    sync::LazyLock,
};

use http::{HeaderValue, Request};
use libfuzzer_sys::fuzz_target;
use tollgate::key::{ClientIp, KeyExtractor};

const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "198.51.100.1";
/// What the proxy writes, and no fuzzer guesses.
const CLIENT: &str = "203.0.113.157";

struct Source {
    header: &'static str,
    by: ClientIp,
    /// What a proxy appends for the client.
    item: String,
}

static SOURCES: LazyLock<[Source; 2]> = LazyLock::new(|| {
    let trusted = ["10.0.0.0/8"];
    let source = |header, by, item| Source { header, by, item };
    [
        source(
            "x-forwarded-for",
            ClientIp::x_forwarded_for(trusted),
            CLIENT.to_owned(),
        ),
        source(
            "forwarded",
            ClientIp::forwarded(trusted),
            format!("for={CLIENT}"),
        ),
    ]
});

impl Source {
    /// The address that a request is charged to, with these lines from this peer.
    fn key(&self, peer: &str, lines: &[Vec<u8>]) -> Option<IpAddr> {
        let mut request = Request::new(());
        let peer = SocketAddr::new(peer.parse().unwrap(), 443);
        request.extensions_mut().insert(peer);
        for line in lines {
            let value = HeaderValue::from_bytes(line).ok()?;
            request.headers_mut().append(self.header, value);
        }
        let key = self.by.extract(&request).expect("the peer is known");
        Some(key.expect("no request passes without a key"))
    }
}

fuzz_target!(|data: &[u8]| {
    let client: IpAddr = CLIENT.parse().unwrap();
    let stranger: IpAddr = STRANGER.parse().unwrap();
    let mut lines: Vec<_> = data
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for source in &*SOURCES {
        let Some(key) = source.key(PROXY, &lines) else {
            continue;
        };
        // Nobody is charged for what only the proxy could have written.
        assert_ne!(key, client);
        // A header from a peer that is no proxy is not read.
        assert_eq!(source.key(STRANGER, &lines), Some(stranger));
        // A line of its own.
        lines.push(source.item.clone().into_bytes());
        assert_eq!(source.key(PROXY, &lines), Some(client));
        lines.pop();
        // The end of the last line.
        let last = lines.pop().unwrap_or_default();
        lines.push([&last, &b", "[..], source.item.as_bytes()].concat());
        assert_eq!(source.key(PROXY, &lines), Some(client));
        lines.pop();
        lines.push(last);
    }
});
