//! Promises that hold for any bytes, and the events that are logged about them.

use std::{
    fmt::{self, Write},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use fastrand::Rng;
use http::HeaderValue;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::*;

const PROXY: &str = "10.0.0.1";

fn request(name: &'static str, lines: &[Vec<u8>]) -> Option<Request<()>> {
    let mut request = Request::new(());
    let peer = SocketAddr::new(PROXY.parse().unwrap(), 443);
    request.extensions_mut().insert(peer);
    for line in lines {
        let value = HeaderValue::from_bytes(line).ok()?;
        request.headers_mut().append(name, value);
    }
    Some(request)
}

/// Pieces of valid headers in random order, with some random bytes.
fn line(random: &mut Rng) -> Vec<u8> {
    const PIECES: [&str; 41] = [
        "1.2.3.4",
        "9.9.9.9",
        "10.0.0.2",
        "10.0.0.3",
        "2001:db8::1",
        "[2001:db8::2]",
        "::ffff:10.0.0.4",
        "::ffff:5.6.7.8",
        "64:ff9b::8.8.8.8",
        "fe80::1%eth0",
        "unknown",
        "_hidden",
        ":80",
        ":_p",
        ":",
        ",",
        ", ",
        ",",
        ";",
        "; ",
        "=",
        "for=",
        "For=",
        "for=\"",
        "for=\"[",
        "]\"",
        "\"",
        "\"",
        "\\",
        "\\\"",
        "host=\"a,b\"",
        "for=7.7.7.7",
        "for=10.0.0.5",
        ",for=9.8.7.6",
        "for=\"[2001:db8::7]:_p\"",
        "for=\"1\\.2.3.5\"",
        "proto=http",
        " ",
        "\t",
        "[",
        "]",
    ];

    let mut line = Vec::new();
    for _ in 0..random.usize(..7) {
        if random.usize(..8) == 0 {
            line.push(random.u8(..));
        } else {
            line.extend(PIECES[random.usize(..PIECES.len())].bytes());
        }
    }
    line
}

/// Whether some part of some line is this address, as it is written or once it is canonical and
/// masked.
fn is_in(lines: &[Vec<u8>], key: IpAddr) -> bool {
    lines.iter().any(|line| {
        // Inside of quotes a backslash escapes the next byte.
        let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != b'\\').collect();
        (0..line.len()).any(|start| {
            let longest = line.len().min(start + 45);
            (start + 2..=longest).any(|end| {
                let part = str::from_utf8(&line[start..end]).ok();
                part.and_then(|part| part.parse().ok())
                    .is_some_and(|ip| Ipv6Prefix::DEFAULT.mask(canonical(ip)) == key)
            })
        })
    })
}

#[test]
fn whatever_the_bytes_the_key_is_the_peer_or_an_address_that_was_sent() {
    let proxy: IpAddr = PROXY.parse().unwrap();
    let trusted = ["10.0.0.0/8"];
    let sources = [
        ("x-forwarded-for", ClientIp::x_forwarded_for(trusted)),
        ("forwarded", ClientIp::forwarded(trusted)),
        ("x-real-ip", ClientIp::header("x-real-ip", trusted)),
    ];
    let mut random = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let mut clients = [0; 3];
    for _ in 0..20_000 {
        let lines: Vec<_> = (0..=random.usize(..3)).map(|_| line(&mut random)).collect();
        for ((name, by), clients) in sources.iter().zip(&mut clients) {
            let Some(request) = request(name, &lines) else {
                continue;
            };
            match by.extract(&request) {
                Ok(Some(key)) if key == proxy => {}
                Ok(Some(key)) => {
                    assert!(is_in(&lines, key), "{key} is not in {lines:?}");
                    *clients += 1;
                }
                Ok(None) => panic!("a free pass for {lines:?}"),
                Err(rejection) => {
                    assert_eq!((*name, rejection.status().as_u16()), ("x-real-ip", 400))
                }
            }
        }
    }
    // The loop would prove nothing if hardly anything were readable.
    assert!(clients.iter().all(|&clients| clients > 100), "{clients:?}");
}

#[test]
fn the_parsers_panic_on_no_bytes_even_those_that_http_does_not_allow() {
    let mut random = Rng::with_seed(0xD1B5_4A32_D192_ED03);
    for _ in 0..20_000 {
        let line = line(&mut random);
        let _ = x_forwarded_for::from_the_right(Line::whole(&line)).count();
        let _ = forwarded::from_the_right(Line::whole(&line)).count();
        for end in 0..line.len() {
            let _ = node::lenient(&line[..end]);
            let _ = node::rfc7239(&line[..end]);
        }
    }
}

#[test]
fn the_items_of_a_cut_line_are_the_last_items_of_the_whole_line() {
    fn check<'a, I>(line: &'a [u8], items: fn(Line<'a>) -> I) -> usize
    where
        I: Iterator<Item = Result<IpAddr, Stop>>,
    {
        let whole: Vec<_> = items(Line::whole(line)).collect();
        let mut read = 0;
        for at in 0..=line.len() {
            let mut end: Vec<_> = items(Line::cut_at(line, at)).collect();
            assert_eq!(end.pop(), Some(Err(Stop::Cut)));
            assert!(whole.starts_with(&end), "{at} of {line:?}: {end:?}");
            read += end.iter().flatten().count();
        }
        read
    }

    let mut random = Rng::with_seed(0x853C_49E6_748F_EA9B);
    let mut read = [0; 2];
    for _ in 0..20_000 {
        let line = line(&mut random);
        read[0] += check(&line, x_forwarded_for::from_the_right);
        read[1] += check(&line, forwarded::from_the_right);
    }
    assert!(read.iter().all(|&addresses| addresses > 1_000), "{read:?}");
}

#[test]
fn whoever_pads_the_header_stays_in_their_bucket_and_leaves_the_proxy_s_alone() {
    let client: IpAddr = "192.0.2.77".parse().unwrap();
    let mut random = Rng::with_seed(0xDA94_2042_E4DD_58B5);
    let pieces = [
        "x",
        ",",
        "\"",
        "\\",
        "6.6.6.6,",
        "10.0.0.1,",
        "1",
        " ",
        "for=6.6.6.6,",
        "for=\"",
        ";",
        "[",
    ];
    for (name, by, appended) in [
        (
            "x-forwarded-for",
            ClientIp::x_forwarded_for([PROXY]),
            "192.0.2.77",
        ),
        (
            "forwarded",
            ClientIp::forwarded([PROXY]),
            "for=192.0.2.77;proto=http",
        ),
        (
            "forwarded",
            ClientIp::forwarded([PROXY]),
            r#"for="192.0.2.77:80";host="a,\"b""#,
        ),
    ] {
        for piece in pieces {
            for length in [
                0, 1, 50, 8_000, 8_150, 8_190, 8_191, 8_192, 8_193, 9_000, 100_000,
            ] {
                let mut padding = piece.repeat(length / piece.len());
                padding.extend((padding.len()..length).map(|_| 'y'));
                padding.push_str(&String::from_utf8_lossy(&line(&mut random)));
                let padding: String = padding.chars().filter(char::is_ascii).collect();
                let line = format!("{padding}, {appended}").into_bytes();
                let lines = [padding.into_bytes(), appended.into()];
                for lines in [&[line][..], &lines] {
                    if let Some(request) = request(name, lines) {
                        let key = by.extract(&request);
                        assert_eq!(key, Ok(Some(client)), "{length} of {piece:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_goes_wrong_is_traced_by_a_name_of_its_own_and_without_what_was_sent() {
    let by = ClientIp::x_forwarded_for([PROXY]);
    let log = Log::default();
    let told = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        let request = request("x-forwarded-for", &lines).unwrap();
        tracing::subscriber::with_default(log.clone(), || by.extract(&request)).unwrap();
        std::mem::take(&mut *log.0.lock().unwrap())
    };
    assert_eq!(told(&["1.2.3.4"]), "");
    for (lines, name) in [
        (&[][..], "client_ip.header_missing"),
        (&[", ,"], "client_ip.header_missing"),
        (&["secret"], "client_ip.header_unreadable"),
        (
            &["secret".repeat(2000).as_str()],
            "client_ip.header_too_long",
        ),
    ] {
        let told = told(lines);
        assert!(told.contains(name), "{told}");
        assert!(
            told.contains("peer=10.0.0.1 header=x-forwarded-for"),
            "{told}"
        );
        assert!(!told.contains("secret"), "{told}");
    }
}

/// Writes down the events of this crate.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tollgate::client_ip"
    }

    fn event(&self, event: &Event<'_>) {
        struct Fields<'a>(&'a mut String);

        impl Visit for Fields<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                write!(self.0, " {field}={value:?}").unwrap();
            }
        }

        let mut log = self.0.lock().unwrap();
        log.push_str(event.metadata().name());
        event.record(&mut Fields(&mut log));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
