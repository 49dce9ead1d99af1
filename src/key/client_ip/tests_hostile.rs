//! Promises that hold for any bytes.

use std::net::SocketAddr;

use fastrand::Rng;
use http::HeaderValue;

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
    const PIECES: &str = r#"1.2.3.4|10.0.0.2|2001:db8::1|::ffff:10.0.0.4|fe80::1%eth0|unknown|_hidden
|:80|:|,|, |,|;|=|for=|for="|for="[|]"|"|"|\|\"|host="a,b"|for=10.0.0.5|,for=9.8.7.6|[|]|
for="[2001:db8::7]:_p"|for="1\.2.3.5""#;

    let pieces = PIECES.split('|').map(|it| it.trim_matches('\n'));
    let pieces: Vec<_> = pieces.chain([" ", "\t"]).collect();
    let mut line = Vec::new();
    for _ in 0..random.usize(..7) {
        match random.usize(..8) {
            0 => line.push(random.u8(..)),
            _ => line.extend(pieces[random.usize(..pieces.len())].bytes()),
        }
    }
    line
}

/// Whether some part of some line is this address, as it is written or once it is canonical and
/// masked.
fn is_in(lines: &[Vec<u8>], key: IpAddr) -> bool {
    lines.iter().any(|line| {
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
        let (text, is_cut) = (&*line, false);
        let whole = Line { text, is_cut };
        let _ = HeaderFormat::XForwardedFor.addresses(whole).count();
        let _ = HeaderFormat::Forwarded.addresses(whole).count();
        for end in 0..line.len() {
            let _ = node::lenient(&line[..end]);
            let _ = node::rfc7239(&line[..end]);
        }
    }
}

#[test]
fn whoever_pads_the_header_stays_in_their_bucket_and_leaves_the_proxy_s_alone() {
    let client: IpAddr = "192.0.2.77".parse().unwrap();
    let mut random = Rng::with_seed(0xDA94_2042_E4DD_58B5);
    let pieces = r#"x|,|"|\|6.6.6.6,|10.0.0.1,|1| |for=6.6.6.6,|for="|;|["#;
    let lengths = [
        0, 1, 50, 8_000, 8_150, 8_190, 8_191, 8_192, 8_193, 9_000, 100_000,
    ];
    let [xff, forwarded] = [
        ClientIp::x_forwarded_for([PROXY]),
        ClientIp::forwarded([PROXY]),
    ];
    for (name, by, appended) in [
        ("x-forwarded-for", &xff, "192.0.2.77"),
        ("forwarded", &forwarded, "for=192.0.2.77;proto=http"),
        (
            "forwarded",
            &forwarded,
            r#"for="192.0.2.77:80";host="a,\"b""#,
        ),
    ] {
        for piece in pieces.split('|') {
            for length in lengths {
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
