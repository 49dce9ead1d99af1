//! The claims of `ClientIp`; unless said otherwise `10.0.0.0/8` is trusted, and the peer is in it.

use std::{collections::HashSet, net::SocketAddr};

use http::HeaderValue;

use super::*;

const PROXY: &str = "10.0.0.1";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn request(peer: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::new(());
    let peer = SocketAddr::new(ip(peer), 443);
    request.extensions_mut().insert(peer);
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        request.headers_mut().append(name, value);
    }
    request
}

fn key(by: &ClientIp, peer: &str, headers: &[(&str, &str)]) -> IpAddr {
    by.extract(&request(peer, headers)).unwrap().unwrap()
}

fn by_xff() -> ClientIp {
    ClientIp::x_forwarded_for(["10.0.0.0/8"])
}

/// Each that reads a header, and what others say in each.
fn by_each() -> [ClientIp; 3] {
    let trusted = ["10.0.0.0/8"];
    [
        by_xff(),
        ClientIp::forwarded(trusted),
        ClientIp::header("X-Real-IP", trusted),
    ]
}

const NAMED: [(&str, &str); 5] = [
    ("x-forwarded-for", "1.1.1.1"),
    ("forwarded", "for=2.2.2.2"),
    ("x-real-ip", "3.3.3.3"),
    ("x_forwarded_for", "6.6.6.6"),
    ("x_real_ip", "6.6.6.6"),
];

/// The key for a value of `X-Forwarded-For` that the proxy sends.
fn xff(value: &str) -> IpAddr {
    key(&by_xff(), PROXY, &[("x-forwarded-for", value)])
}

/// The key for a value of `Forwarded` that the proxy sends.
fn forwarded(value: &str) -> IpAddr {
    let by = ClientIp::forwarded(["10.0.0.0/8"]);
    key(&by, PROXY, &[("forwarded", value)])
}

#[test]
fn an_untrusted_peer_cannot_choose_its_key() {
    let twice = [NAMED, NAMED].concat();
    for by in by_each() {
        assert_eq!(key(&by, "203.0.113.9", &twice), ip("203.0.113.9"));
    }
}

#[test]
fn the_rightmost_untrusted_address_is_the_client_and_empty_items_do_not_count() {
    for (value, client) in [
        ("6.6.6.6, 1.2.3.4", "1.2.3.4"),
        ("1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4, 10.0.0.3, 10.0.0.2", "1.2.3.4"),
        // All are trusted.
        ("10.0.0.9, 10.0.0.8", "10.0.0.9"),
        ("1.2.3.4,,", "1.2.3.4"),
        (", 1.2.3.4 ,\t,", "1.2.3.4"),
        (", ,", PROXY),
        ("", PROXY),
        // Where reading stops, the last proxy that was passed is charged.
        ("1.2.3.4, garbage, 10.0.0.2", "10.0.0.2"),
        ("1.2.3.4:1", "1.2.3.4"),
        ("1.2.3.4:65535", "1.2.3.4"),
        ("[2001:db8::1]:443", "2001:db8::"),
    ] {
        assert_eq!(xff(value), ip(client), "{value}");
    }
    for (value, client) in [
        ("for=6.6.6.6, for=1.2.3.4;by=x", "1.2.3.4"),
        ("for=1.2.3.4, for=10.0.0.2", "1.2.3.4"),
        ("for=10.0.0.9, for=10.0.0.8", "10.0.0.9"),
        ("for=1.2.3.4, ,", "1.2.3.4"),
        ("for=1.2.3.4, for=unknown, for=10.0.0.2", "10.0.0.2"),
        (r#"for="1.2.3.4:5555""#, "1.2.3.4"),
        (r#"for=1.1.1.1;host="a,b", for=9.9.9.9"#, "9.9.9.9"),
        ("FOR=9.9.9.9;proto=wss", "9.9.9.9"),
        (r#"for="[2001:db8::1]:_x""#, "2001:db8::"),
    ] {
        assert_eq!(forwarded(value), ip(client), "{value}");
    }
}

#[test]
fn all_lines_of_the_header_are_read_from_the_last_one_on() {
    let lines = |first, second| {
        let headers = [("x-forwarded-for", first), ("x-forwarded-for", second)];
        key(&by_xff(), PROXY, &headers)
    };
    assert_eq!(lines("6.6.6.6", "1.2.3.4"), ip("1.2.3.4"));
    assert_eq!(lines("1.2.3.4", "10.0.0.2"), ip("1.2.3.4"));
    assert_eq!(lines("garbage", "1.2.3.4"), ip("1.2.3.4"));
    assert_eq!(lines("1.2.3.4", ","), ip("1.2.3.4"));

    let [_, by, _] = by_each();
    let headers = [r#"for=6.6.6.6;host=""#, "for=1.2.3.4"].map(|value| ("forwarded", value));
    assert_eq!(key(&by, PROXY, &headers), ip("1.2.3.4"));
}

#[test]
fn every_spelling_of_an_address_is_one_client() {
    let spellings = "::ffff:1.2.3.4 ::FFFF:102:304 1.2.3.4 64:ff9b::1.2.3.4 ::ffff:0:1.2.3.4";
    for spelling in spellings.split(' ') {
        assert_eq!(xff(spelling), ip("1.2.3.4"), "{spelling}");
    }
    for spelling in ["2001:db8::1", "2001:DB8:0:0::1", "2001:0db8::ffff:1.2.3.4"] {
        assert_eq!(xff(spelling), ip("2001:db8::"), "{spelling}");
    }
}

#[test]
fn all_addresses_of_one_64_are_one_client_and_a_coarser_second_limit_is_possible() {
    let clients = |by: ClientIp, (begin, end): (&str, &str)| -> usize {
        let address = |number| format!("2001:db8:{begin}{number:x}{end}");
        let of = |number| key(&by, PROXY, &[("x-forwarded-for", &address(number))]);
        (0..=u16::MAX)
            .step_by(97)
            .map(of)
            .collect::<HashSet<_>>()
            .len()
    };
    let (hosts, nets) = ((":", ""), ("7:", "::1"));
    assert_eq!(clients(by_xff(), hosts), 1);
    assert_eq!(clients(by_xff(), nets), 676);
    assert_eq!(clients(by_xff().ipv6_prefix(48), nets), 1);
}

#[test]
fn reading_stops_at_whatever_names_no_address() {
    let garbage = "garbage|unknown|_hidden|fe80::1%eth0|1.2.3.4 5.6.7.8|\"1.2.3.4\"|for=1.2.3.4|\
                   1.2.3.4/8|ü|-";
    for garbage in garbage.split('|') {
        assert_eq!(xff(garbage), ip(PROXY), "{garbage}");
        assert_eq!(xff(&format!("1.2.3.4, {garbage}")), ip(PROXY), "{garbage}");
    }
}

#[test]
fn a_malformed_forwarded_header_stops_the_reading() {
    let malformed = r#"for=1.2.3.4;host="|for="|for=[|for="[::1"|="x"|;;;|for=unknown|for=_hidden"#;
    let others = ["for=1.2.3.4;for=5.6.7.8", "proto=https"];
    for value in malformed.split('|').chain(others) {
        assert_eq!(forwarded(value), ip(PROXY), "{value}");
        let behind = format!("for=1.2.3.4, {value}");
        assert_eq!(forwarded(&behind), ip(PROXY), "{behind}");
    }
}

#[test]
fn a_header_without_end_is_charged_to_the_client_at_its_end_or_to_the_last_proxy_passed() {
    let clients = vec![("x-forwarded-for", "1.2.3.4"); 10_000];
    assert_eq!(key(&by_xff(), PROXY, &clients), ip("1.2.3.4"));
    assert_eq!(xff(&"1.2.3.4, ".repeat(10_000)), ip("1.2.3.4"));
    assert_eq!(forwarded(&"for=1.2.3.4,".repeat(10_000)), ip("1.2.3.4"));
    assert_eq!(xff(&"x".repeat(100 * 1024)), ip(PROXY));
    assert_eq!(xff(&",".repeat(100 * 1024)), ip(PROXY));
    assert_eq!(xff(&"10.0.0.2,".repeat(10_000)), ip("10.0.0.2"));
    assert_eq!(forwarded(&r#"for="\"\\\"#.repeat(10_000)), ip(PROXY));

    let lines = vec![("x-forwarded-for", ""); 10_000];
    assert_eq!(key(&by_xff(), PROXY, &lines), ip(PROXY));
    let lines = vec![("x-forwarded-for", "10.0.0.2"); 1000];
    assert_eq!(key(&by_xff(), PROXY, &lines), ip("10.0.0.2"));
    // An empty line takes a byte: nobody reads 10 000 of them for what is in front.
    let mut lines = vec![("x-forwarded-for", "1.2.3.4")];
    lines.resize(10_000, ("x-forwarded-for", ""));
    assert_eq!(key(&by_xff(), PROXY, &lines), ip(PROXY));
}

#[test]
fn thirty_two_proxies_are_passed_and_no_more() {
    let through = |proxies| xff(&format!("1.2.3.4{}", ", 10.0.0.2".repeat(proxies)));
    assert_eq!(through(31), ip("1.2.3.4"));
    assert_eq!(through(32), ip("10.0.0.2"));
    let all_trusted = format!("10.0.0.3{}", ",10.0.0.2".repeat(31));
    assert_eq!(xff(&all_trusted), ip("10.0.0.3"));
}

#[test]
fn the_last_eight_kibibytes_are_read_and_no_more() {
    let behind = |bytes: usize| xff(&format!("1.2.3.4{}", ",".repeat(bytes - "1.2.3.4".len())));
    assert_eq!(behind(8_192 - 1), ip("1.2.3.4"));
    assert_eq!(behind(8_192), ip(PROXY));
    let behind = |bytes: usize| xff(&format!(",1.2.3.4{}", ",".repeat(bytes - "1.2.3.4".len())));
    assert_eq!(behind(8_192 - 1), ip("1.2.3.4"));
    assert_eq!(behind(8_192), ip(PROXY));
}

#[test]
fn an_address_that_was_cut_is_never_read_as_a_shorter_one() {
    // What is read begins at `211.2.3.4`, at `11.2.3.4`, at `1.2.3.4` and so on.
    for cut in 0.."211.2.3.4".len() {
        let after = MAX_BYTES - "211.2.3.4".len() + cut;
        let line = format!("6.6.6.6,211.2.3.4{}", ",".repeat(after));
        assert_eq!(xff(&line), ip(PROXY), "{cut}");
        let line = format!("for=6.6.6.6,for=211.2.3.4{}", ",".repeat(after));
        assert_eq!(forwarded(&line), ip(PROXY), "{cut}");
        let by = ClientIp::header("x-real-ip", ["10.0.0.0/8"]);
        let line = format!("211.2.3.4{}", " ".repeat(after));
        let line = [("x-real-ip", &*line)];
        assert_eq!(key(&by, PROXY, &line), ip(PROXY), "{cut}");
    }
}

#[test]
fn proxies_are_recognised_in_every_spelling() {
    let headers = [(
        "x-forwarded-for",
        "1.2.3.4, ::ffff:10.0.0.2, 64:ff9b::10.0.0.3, ::ffff:0:10.0.0.4",
    )];
    for trusted in ["10.0.0.0/8", "::ffff:10.0.0.0/104", "::ffff:0:10.0.0.0/104"] {
        let by = ClientIp::x_forwarded_for([trusted]);
        for peer in [PROXY, "::ffff:10.0.0.1", "::ffff:0:10.0.0.1"] {
            assert_eq!(key(&by, peer, &headers), ip("1.2.3.4"));
        }
    }
}

#[test]
fn no_header_but_the_chosen_one_is_read() {
    for (by, client) in by_each().iter().zip(["1.1.1.1", "2.2.2.2", "3.3.3.3"]) {
        assert_eq!(key(by, PROXY, &NAMED), ip(client));
        assert_eq!(key(by, PROXY, &NAMED[3..]), ip(PROXY));
    }
}

#[test]
fn a_header_of_one_address_must_be_there_once_and_hold_one() {
    let by = ClientIp::header("x-real-ip", ["10.0.0.0/8"]);
    let real = |values: &[&str]| {
        let headers: Vec<_> = values.iter().map(|value| ("x-real-ip", *value)).collect();
        by.extract(&request(PROXY, &headers))
    };
    assert_eq!(real(&[" 1.2.3.4:80 "]), Ok(Some(ip("1.2.3.4"))));
    assert_eq!(real(&["10.0.0.7"]), Ok(Some(ip("10.0.0.7"))));
    assert_eq!(real(&["1.2.3.4, 5.6.7.8"]), Ok(Some(ip(PROXY))));
    assert_eq!(real(&[""]), Ok(Some(ip(PROXY))));
    assert_eq!(real(&[]), Ok(Some(ip(PROXY))));
    for other in ["5.6.7.8", "1.2.3.4", ""] {
        assert_eq!(real(&["1.2.3.4", other]).unwrap_err().status(), 400);
    }
}

#[test]
fn whatever_makes_no_sense_is_refused_when_it_is_built() {
    let error = ClientIp::try_forwarded(["0.0.0.0/0"]).unwrap_err();
    assert!(matches!(error, ConfigError::TrustsEveryone { .. }));
    let nobody = ClientIp::try_x_forwarded_for(Vec::<String>::new()).unwrap_err();
    assert_eq!(nobody, ConfigError::NoTrustedProxies);
    let name = ClientIp::try_header("x real ip", ["10.0.0.1"]).unwrap_err();
    assert!(matches!(name, ConfigError::InvalidHeaderName { .. }));
}
