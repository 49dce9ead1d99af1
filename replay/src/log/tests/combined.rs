use http::Method;

use super::{header, headers, one, why};
use crate::{
    log::{Format, Why},
    logged::Logged,
};

const TIME: &str = "[10/Oct/2000:13:55:36 -0700]";
const MICROS: u64 = 971_211_336_000_000;

fn combined(line: &str) -> Logged {
    one(Format::Combined, line)
}

/// A line that begins like this.
fn with_head(head: &str) -> Logged {
    combined(&format!("{head} {TIME} \"GET / HTTP/1.1\" 200 2"))
}

/// A line with this request.
fn with_request(request: &str) -> String {
    format!("192.0.2.1 - - {TIME} \"{request}\" 200 2 \"-\" \"-\"")
}

/// A line that ends like this.
fn with_tail(tail: &str) -> Logged {
    combined(&format!("192.0.2.1 - - {TIME} \"GET / HTTP/1.1\" {tail}"))
}

#[test]
fn a_combined_line_tells_its_request() {
    let logged = combined(
        "192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a?b=c HTTP/1.1\" 200 2326 \
         \"http://example.com/\" \"curl/8\"",
    );
    assert_eq!(logged.started_micros, MICROS);
    assert_eq!(logged.took_micros, None);
    assert_eq!(logged.address, "192.0.2.1".parse().ok());
    assert_eq!(logged.user.as_deref(), Some("frank"));
    assert_eq!(logged.method, Method::GET);
    assert_eq!(logged.uri, "/a?b=c");
    assert_eq!(logged.status, Some(200));
    assert_eq!(header(&logged, "user-agent"), "curl/8");
    assert_eq!(header(&logged, "referer"), "http://example.com/");
    assert_eq!(headers(&logged).len(), 2);
}

#[test]
fn what_a_line_leaves_out_is_not_there() {
    let logged = with_tail("- - \"-\" \"-\"");
    assert_eq!((&logged.user, logged.status), (&None, None));
    assert!(headers(&logged).is_empty());
    let common = with_tail("304 -");
    assert_eq!((common.status, headers(&common).len()), (Some(304), 0));
    assert_eq!(with_tail("000 0").status, None, "no response was sent");
}

#[test]
fn a_host_may_stand_before_the_address() {
    for (head, address, host) in [
        ("192.0.2.1 - -", "192.0.2.1", ""),
        ("2001:db8::1 - -", "2001:db8::1", ""),
        (
            "shop.example:8080 192.0.2.1 - -",
            "192.0.2.1",
            "shop.example:8080",
        ),
        (
            "shop.example:443 2001:db8::1 - -",
            "2001:db8::1",
            "shop.example",
        ),
        (
            "shop.example:80 192.0.2.1 ident -",
            "192.0.2.1",
            "shop.example",
        ),
        ("client.example - -", "", ""),
        ("shop.example:80 client.example - -", "", "shop.example"),
        ("unix: - -", "", ""),
        ("192.0.2.1 ident -", "192.0.2.1", ""),
    ] {
        let logged = with_head(head);
        assert_eq!(logged.address, address.parse().ok(), "{head}");
        assert_eq!(header(&logged, "host"), host, "{head}");
        assert_eq!(logged.user, None, "{head}");
    }
}

#[test]
fn a_user_may_have_spaces_brackets_and_escaped_quotes() {
    for (user, name) in [
        ("ada lovelace", "ada lovelace"),
        (r"a\x22b", "a\"b"),
        (r#"a\"b"#, "a\"b"),
        (
            "x [01/Jan/1999:00:00:00 +0000] GET",
            "x [01/Jan/1999:00:00:00 +0000] GET",
        ),
        (r"\xC3\xA9", "é"),
    ] {
        let logged = with_head(&format!("192.0.2.1 - {user}"));
        assert_eq!(logged.user.as_deref(), Some(name));
        assert_eq!(logged.started_micros, MICROS);
    }
}

#[test]
fn escapes_of_nginx_and_of_apache_are_undone() {
    let logged = with_tail(r#"200 2 "/\x22a\x5C" "\"b\" \\ \t\xE9 \q""#);
    assert_eq!(header(&logged, "referer"), "/\"a\\");
    assert_eq!(
        headers(&logged)["user-agent"].as_bytes(),
        b"\"b\" \\ \t\xE9 \\q"
    );
    assert_eq!(
        combined(&with_request(r"GET /%22\xC3\xA9 HTTP/1.1"))
            .uri
            .path(),
        "/%22é"
    );
}

#[test]
fn a_request_may_have_no_version_a_whole_url_or_a_host() {
    for (request, method, uri) in [
        ("GET /", "GET", "/"),
        ("GET //double//path HTTP/1.1", "GET", "//double//path"),
        (
            "GET http://example.com/a HTTP/1.1",
            "GET",
            "http://example.com/a",
        ),
        (
            "CONNECT example.com:443 HTTP/1.1",
            "CONNECT",
            "example.com:443",
        ),
        ("OPTIONS * HTTP/1.1", "OPTIONS", "*"),
        ("PURGE /x HTTP/1.1", "PURGE", "/x"),
        ("PRI * HTTP/2.0", "PRI", "*"),
    ] {
        let logged = combined(&with_request(request));
        assert_eq!(
            (logged.method.as_str(), logged.uri.to_string()),
            (method, uri.to_owned())
        );
    }
}

#[test]
fn a_request_that_is_none_cannot_be_read() {
    for (request, reason) in [
        ("", Why::Method),
        ("-", Why::Method),
        (r"\x16\x03\x01\x02", Why::Method),
        (r"\x16\x03 /", Why::Method),
        ("t3 12.1.2", Why::Target),
        ("GET relative HTTP/1.1", Why::Target),
        ("GET /a b HTTP/1.1", Why::Target),
        (r"GET /\x00 HTTP/1.1", Why::Target),
    ] {
        assert_eq!(
            why(Format::Combined, &with_request(request)),
            reason,
            "{request}"
        );
    }
}

#[test]
fn the_duration_is_the_last_field_or_has_its_name() {
    for (tail, micros) in [
        ("200 2 \"-\" \"-\" 0.123", Some(123_000)),
        ("200 2 0.5", Some(500_000)),
        ("200 2 \"-\" \"-\" \"-\" 1.000", Some(1_000_000)),
        // Apache's `%D`.
        ("200 2 \"-\" \"-\" 1234", Some(1234)),
        // Traefik's.
        (
            "200 2 \"-\" \"-\" 17 \"web\" \"http://192.0.2.9\" 12ms",
            Some(12_000),
        ),
        (
            "200 2 \"-\" \"-\" rt=0.250 uct=\"0.001, 0.002\" urt=\"-\"",
            Some(250_000),
        ),
        ("200 2 \"-\" \"-\" request_time=0.250 99.9", Some(250_000)),
        ("200 2 \"-\" \"-\" -", None),
        ("200 2 \"-\" \"-\" p", None),
        ("200 2 \"-\" \"-\" 0.5 \"last\"", None),
    ] {
        assert_eq!(with_tail(tail).took_micros, micros, "{tail}");
    }
}

#[test]
fn what_a_client_sends_is_never_the_duration() {
    for tail in [
        "200 2 \"-\" \"-\" \"3600.5\"",
        "200 2 \"-\" \"rt=9.5\"",
        "200 2 \"-\" \"-\" ua=\"x 3600.5 \" -",
        "200 2 \"-\" \"-\" ua=\"rt=3600.5\"",
        "200 2 \"-\" \"-\" ua=\"x rt=3600.5 x\"",
    ] {
        assert_eq!(with_tail(tail).took_micros, None, "{tail}");
    }
}

#[test]
fn a_request_began_when_it_ended_less_its_duration() {
    let logged = with_tail("200 2 \"-\" \"-\" 2.750");
    assert_eq!(logged.started_micros, MICROS - 2_750_000);
}

#[test]
fn the_third_quoted_field_is_who_it_was_forwarded_for() {
    let logged = with_tail("200 2 \"-\" \"a\" \"198.51.100.7, 192.0.2.1\"");
    assert_eq!(
        header(&logged, "x-forwarded-for"),
        "198.51.100.7, 192.0.2.1"
    );
    let traefik = with_tail("200 2 \"-\" \"a\" 17 \"api@docker\" \"-\" 1ms");
    assert_eq!(header(&traefik, "x-forwarded-for"), "");
}

#[test]
fn half_a_line_or_another_line_cannot_be_read() {
    let whole = format!("192.0.2.1 - - {TIME} \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"");
    assert_eq!(combined(&whole).status, Some(200));
    let after_size = whole.find(" \"-\"").unwrap();
    for cut in 1..whole.len() {
        let half = &whole[..cut];
        let (requests, reader) = super::read_all(half.as_bytes(), Some(Format::Combined));
        // Up to the size it is the common format.
        let is_whole = cut >= after_size && half.matches('"').count() % 2 == 0;
        assert_eq!(requests.len(), usize::from(is_whole), "{half}");
        assert_eq!(reader.unreadable().count(), u64::from(!is_whole), "{half}");
    }
    for line in ["hello", "\"", "{}", "a b c d e f", "- - - [] \"\" - -"] {
        why(Format::Combined, line);
    }
}

#[test]
fn numbers_out_of_range_cannot_be_read_and_say_why() {
    let with_time = |time| format!("192.0.2.1 - - [{time}] \"GET / HTTP/1.1\" 200 2");
    for (line, reason) in [
        (with_time("31/Dec/1969:23:59:59 +0000"), Why::TimeOutOfRange),
        (with_time("30/Feb/2000:00:00:00 +0000"), Why::Time),
        (with_time("10/Oct/2000:13:55:36 0000"), Why::Time),
        (with_time("10/Oct/2000:13:55:36"), Why::Time),
        (with_time("10-Oct-2000 13:55:36 +0000"), Why::Time),
        (
            with_time("01/Jan/1970:00:00:01 +0000") + " 1.5",
            Why::TimeOutOfRange,
        ),
        (
            with_time("10/Oct/2000:13:55:36 +0000") + " 1e300",
            Why::Duration,
        ),
        (
            with_request("GET / HTTP/1.1").replace(" 200 ", " 1000 "),
            Why::Status,
        ),
        (
            with_request("GET / HTTP/1.1").replace(" 200 ", " OK "),
            Why::Status,
        ),
    ] {
        assert_eq!(why(Format::Combined, &line), reason, "{line}");
    }
}
