use super::{header, headers, is_other, one, why};
use crate::log::{Format, Why};

const SPAN: &str = "2025-11-12T09:14:01.5Z DEBUG request{method=GET uri=/a?b=c version=HTTP/1.1}:";
const FINISHED: &str = "tower_http::trace::on_response: finished processing request";
const MICROS: u64 = 1_762_938_841_500_000;

#[test]
fn a_line_of_the_trace_layer_tells_its_request() {
    let logged = one(
        Format::Trace,
        &format!("{SPAN} {FINISHED} latency=12 ms status=200"),
    );
    assert_eq!(
        (logged.method.as_str(), logged.uri.to_string()),
        ("GET", "/a?b=c".into())
    );
    assert_eq!(logged.started_micros, MICROS - 12_000);
    assert_eq!(
        (logged.took_micros, logged.status),
        (Some(12_000), Some(200))
    );
    assert_eq!((logged.address, &logged.user), (None, &None));
    assert!(headers(&logged).is_empty());
}

#[test]
fn spans_may_be_named_and_nested_as_one_likes() {
    for span in [
        "server{port=80}:http{method=GET uri=/a?b=c}:",
        "server{port=80}:request{method=GET uri=/a?b=c version=HTTP/1.1}:inner{x=1}:",
        "request{id=7 method=GET uri=/a?b=c version=HTTP/1.1 n=1}:",
    ] {
        let line = format!("2025-11-12T09:14:01.5Z INFO {span} {FINISHED} latency=1ms status=200");
        let logged = one(Format::Trace, &line);
        assert_eq!(
            (logged.method.as_str(), logged.uri.to_string()),
            ("GET", "/a?b=c".into()),
            "{line}"
        );
        assert_eq!(logged.took_micros, Some(1000));
    }
}

#[test]
fn a_path_cannot_pass_for_another_field() {
    let line = format!(
        "2025-11-12T09:14:01.5Z DEBUG request{{method=GET uri=/{{method=PUT version=HTTP/1.1}}: \
         {FINISHED} latency=0 ms status=200"
    );
    assert_eq!(one(Format::Trace, &line).method.as_str(), "GET");
}

#[test]
fn what_a_client_sends_cannot_pass_for_the_end_of_a_request() {
    let began = "tower_http::trace::on_request: started processing request";
    let forged = format!("}}: {FINISHED} latency=9 ms status=200");
    for (value, other) in [
        (forged.clone(), true),
        (format!("\\\"}}{forged}"), true),
        // `Debug` does not escape the backslash, so that the next quote seems to be escaped.
        (format!("\\\", \"y\": \"{forged}"), false),
        (format!("\\\", \"y\": \"{forged}\", \"z\": \"\\"), false),
    ] {
        let span = format!("request{{method=GET uri=/ headers={{\"x\": \"{value}\"}}}}:");
        let line = format!("2025-11-12T09:14:01.5Z DEBUG {span} {began}");
        if other {
            assert!(is_other(Format::Trace, &line), "{line}");
        } else {
            assert_eq!(why(Format::Trace, &line), Why::Header, "{line}");
        }
    }
    let span = format!("request{{method=GET uri=/ agent=\"\\\\\\\"{forged}\"}}:");
    let line = format!("2025-11-12T09:14:01.5Z DEBUG {span} {began}");
    assert!(is_other(Format::Trace, &line), "{line}");
    let line = format!("2025-11-12T09:14:01.5Z DEBUG {span} {FINISHED} latency=1 ms status=404");
    let logged = one(Format::Trace, &line);
    assert_eq!((logged.took_micros, logged.status), (Some(1000), Some(404)));
}

#[test]
fn the_status_of_grpc_is_none_of_http() {
    for end in [" status=0", " status=14", ""] {
        let line = format!("{SPAN} {FINISHED} latency=0 ms{end}");
        assert_eq!(one(Format::Trace, &line).status, None, "{line}");
    }
}

#[test]
fn other_events_are_no_requests_and_not_unreadable() {
    for line in [
        &format!("{SPAN} tower_http::trace::on_request: started processing request"),
        &format!("{SPAN} app: a query took 3 ms"),
        "2025-11-12T09:14:01.5Z  INFO main: listening on 192.0.2.1:80",
        "thread 'main' panicked at src/main.rs:3:",
        " ",
    ] {
        assert!(is_other(Format::Trace, line), "{line}");
    }
}

#[test]
fn header_fields_of_the_span_are_read() {
    let fields = r#"{"host": "a.example", "user-agent": "a \"b\" \\x \xe9", "x-key": Sensitive, "x": "1", "x": "2", "y": "\x41 \x8z \xzf"}"#;
    let line = format!(
        "2025-11-12T09:14:01.5Z DEBUG request{{method=GET uri=/ version=HTTP/1.1 headers={fields}}}: \
         {FINISHED} latency=0 ms status=200"
    );
    let logged = one(Format::Trace, &line);
    assert_eq!(header(&logged, "host"), "a.example");
    assert_eq!(
        headers(&logged)["user-agent"].as_bytes(),
        b"a \"b\" \\\\x \xE9"
    );
    assert_eq!(
        headers(&logged).get_all("x").iter().collect::<Vec<_>>(),
        ["1", "2"]
    );
    assert_eq!(
        header(&logged, "y"),
        r"\x41 \x8z \xzf",
        "only what is not ASCII is escaped"
    );
    assert_eq!(headers(&logged).len(), 5);
}

#[test]
fn what_cannot_be_read_says_why() {
    let end = "latency=0 ms status=200";
    let span =
        |span: &str| format!("2025-11-12T09:14:01.5Z DEBUG request{{{span}}}: {FINISHED} {end}");
    for (line, reason) in [
        (format!("{FINISHED} {end}"), Why::Time),
        (
            format!(" 0.001s DEBUG request{{method=GET uri=/}}: {FINISHED} {end}"),
            Why::Time,
        ),
        (
            format!("1960-01-01T00:00:00Z DEBUG request{{method=GET uri=/}}: {FINISHED} {end}"),
            Why::TimeOutOfRange,
        ),
        (span("uri=/"), Why::Method),
        (span("method=GET"), Why::Target),
        (span("method=GET uri=a.example"), Why::Target),
        (span("method=GET uri=/ headers={\"a\": \"b"), Why::Header),
        (span("method=GET uri=/ headers=none"), Why::Header),
        (
            format!("{SPAN} {FINISHED} latency=soon status=200"),
            Why::Duration,
        ),
        (
            format!("{SPAN} {FINISHED} latency=1e300 s status=200"),
            Why::Duration,
        ),
        (
            format!("{SPAN} {FINISHED} latency= status=200"),
            Why::Duration,
        ),
        (
            format!("{SPAN} {FINISHED} latency=2000000000 s status=200"),
            Why::TimeOutOfRange,
        ),
        (
            format!("{SPAN} {FINISHED} latency=0 ms status=99999"),
            Why::Status,
        ),
        (
            format!("{SPAN} {FINISHED} latency=0 ms status=OK"),
            Why::Status,
        ),
    ] {
        assert_eq!(why(Format::Trace, &line), reason, "{line}");
    }
}
