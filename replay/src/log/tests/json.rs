use super::{header, headers, is_other, one, read_all, why};
use crate::{
    log::{Format, Why},
    logged::Logged,
};

fn json(line: &str) -> Logged {
    one(Format::Json, line)
}

/// A line with these fields beside those of a request.
fn with(fields: &str) -> String {
    format!("{{\"ts\":1762938841,\"method\":\"GET\",\"path\":\"/a\",{fields}}}")
}

const MICROS: u64 = 1_762_938_841_000_000;

#[test]
fn each_name_of_a_field_is_known() {
    for name in [
        "time",
        "time_iso8601",
        "@timestamp",
        "timestamp",
        "ts",
        "msec",
        "datetime",
    ] {
        let line =
            format!("{{\"{name}\":\"2025-11-12T09:14:01Z\",\"request\":\"GET /a HTTP/1.1\"}}");
        assert_eq!(json(&line).started_micros, MICROS, "{name}");
    }
    for name in [
        "remote_addr",
        "client_ip",
        "remote_ip",
        "clientip",
        "remoteAddress",
    ] {
        let logged = json(&with(&format!("\"{name}\":\"2001:db8::1\"")));
        assert_eq!(logged.address, "2001:db8::1".parse().ok(), "{name}");
    }
    for method in ["request_method", "method", "http_method"] {
        for target in ["uri", "request_uri", "path", "url"] {
            let line = format!("{{\"ts\":1762938841,\"{method}\":\"PUT\",\"{target}\":\"/a?b\"}}");
            let logged = json(&line);
            assert_eq!(
                (logged.method.as_str(), logged.uri.to_string()),
                ("PUT", "/a?b".into())
            );
            assert!(headers(&logged).is_empty(), "{line}");
        }
    }
    for name in ["status", "status_code", "http_status"] {
        for value in ["429", "\"429\""] {
            assert_eq!(
                json(&with(&format!("\"{name}\":{value}"))).status,
                Some(429),
                "{name}"
            );
        }
    }
    for (name, user) in [
        ("user", "\"ada\""),
        ("remote_user", "\"ada\""),
        ("username", "\"ada\""),
    ] {
        assert_eq!(
            json(&with(&format!("\"{name}\":{user}"))).user.as_deref(),
            Some("ada")
        );
    }
    assert_eq!(json(&with("\"user_id\":17")).user.as_deref(), Some("17"));
}

#[test]
fn the_duration_is_in_seconds_or_in_the_unit_that_it_or_its_name_has() {
    for (field, micros) in [
        ("\"request_time\":\"0.250\"", Some(250_000)),
        ("\"request_time\":0.25", Some(250_000)),
        ("\"duration\":2", Some(2_000_000)),
        ("\"latency\":\"3 ms\"", Some(3_000)),
        ("\"latency\":\"1.5ms\"", Some(1_500)),
        ("\"duration_ms\":12", Some(12_000)),
        ("\"latency_us\":12", Some(12)),
        ("\"elapsed_ns\":12000", Some(12)),
        ("\"responseTime\":12", Some(12_000)),
        // Echo's.
        (
            "\"latency\":4521000,\"latency_human\":\"4.521ms\"",
            Some(4_521),
        ),
        ("\"request_time\":\"-\"", None),
        ("\"request_time\":null", None),
    ] {
        let logged = json(&with(field));
        assert_eq!(logged.took_micros, micros, "{field}");
        assert_eq!(
            logged.started_micros,
            MICROS - micros.unwrap_or(0),
            "{field}"
        );
    }
}

#[test]
fn header_fields_have_the_names_that_nginx_gives_them() {
    let logged = json(&with(
        "\"http_user_agent\":\"curl\",\"http_x_forwarded_for\":\"198.51.100.7\",\"host\":\"a.example\",\
         \"http_x_api_key\":\"k\\u00e9\",\"http_accept\":\"-\",\"http_cookie\":\"\",\"referrer\":\"/b\"",
    ));
    assert_eq!(header(&logged, "user-agent"), "curl");
    assert_eq!(header(&logged, "x-forwarded-for"), "198.51.100.7");
    assert_eq!(header(&logged, "host"), "a.example");
    assert_eq!(header(&logged, "x-api-key"), "ké");
    assert_eq!(header(&logged, "referer"), "/b");
    assert_eq!(headers(&logged).len(), 5);
    let logged = json(&with(
        "\"x_forwarded_for\":\"198.51.100.7\",\"http_version\":\"1.1\"",
    ));
    assert_eq!(header(&logged, "x-forwarded-for"), "198.51.100.7");
    assert_eq!(headers(&logged).len(), 1);
}

#[test]
fn header_fields_may_be_in_an_object() {
    for fields in [
        "\"headers\":{\"X-Key\":[\"a\",\"b\"],\"Authorization\":[\"REDACTED\"],\"Odd name\":\"x\"}",
        "\"request\":{\"headers\":{\"x-key\":[\"a\",\"b\"]}}",
        "\"req\":{\"headers\":{\"x-key\":\"a\",\"X-KEY\":\"b\"}}",
    ] {
        let logged = json(&with(fields));
        let headers = headers(&logged);
        let values: Vec<_> = headers.get_all("x-key").iter().collect();
        assert_eq!(values, ["a", "b"], "{fields}");
        assert_eq!(headers.len(), 2, "{fields}");
    }
    let response = json(&with(
        "\"response\":{\"status\":503,\"headers\":{\"x-key\":\"a\"}}",
    ));
    assert_eq!((response.status, headers(&response).len()), (Some(503), 0));
    let hosts = json(&with("\"host\":\"a.example\",\"http_host\":\"b.example\""));
    assert_eq!(
        headers(&hosts).get_all("host").iter().collect::<Vec<_>>(),
        ["a.example"]
    );
}

#[test]
fn the_better_of_two_fields_counts() {
    let line = "{\"time\":\"2025-11-12T09:14:01Z\",\"msec\":1762938841.123,\"uri\":\"/a\",\
                \"request_uri\":\"/a?b\",\"remote_ip\":\"192.0.2.1\",\"client_ip\":\"192.0.2.2\",\
                \"method\":\"GET\"}";
    let logged = json(line);
    assert_eq!(logged.started_micros, MICROS + 123_000);
    assert_eq!(logged.uri, "/a?b");
    assert_eq!(logged.address, "192.0.2.2".parse().ok());
    assert_eq!(json(&with("\"args\":\"b=c\"")).uri, "/a?b=c");
    assert_eq!(json(&with("\"args\":\"\"")).uri, "/a");
}

#[test]
fn an_address_may_have_a_port_or_be_a_name() {
    for (address, wanted) in [
        ("192.0.2.1:4711", "192.0.2.1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("client.example", ""),
    ] {
        let logged = json(&with(&format!("\"remote_addr\":\"{address}\"")));
        assert_eq!(logged.address, wanted.parse().ok(), "{address}");
    }
}

#[test]
fn events_within_and_beside_requests_are_none() {
    let span = "\"span\":{\"method\":\"GET\",\"uri\":\"/a\",\"name\":\"request\"}";
    for line in [
        format!(
            "{{\"timestamp\":\"2025-11-12T09:14:01Z\",\"fields\":{{\"message\":\"started processing request\"}},{span}}}"
        ),
        format!(
            "{{\"timestamp\":\"2025-11-12T09:14:01Z\",\"fields\":{{\"message\":\"a query\",\"elapsed_ms\":3}},{span}}}"
        ),
        format!(
            "{{\"timestamp\":\"2025-11-12T09:14:01Z\",\"message\":\"response failed\",\"latency\":\"1 ms\",{span}}}"
        ),
        "{\"level\":\"info\",\"ts\":1762938842.0,\"msg\":\"releasing lock\"}".to_owned(),
        // What an application says while it answers.
        "{\"time\":1762938842,\"msg\":\"cache miss\",\"method\":\"GET\",\"path\":\"/a\"}"
            .to_owned(),
    ] {
        assert!(is_other(Format::Json, &line), "{line}");
    }
}

#[test]
fn a_finished_request_has_the_method_and_the_path_of_its_span() {
    let event = "\"timestamp\":\"2025-11-12T09:14:01.5Z\",\"fields\":{\"message\":\"finished processing request\",\
                 \"latency\":\"500 ms\",\"status\":200}";
    let span = "{\"method\":\"GET\",\"uri\":\"/a\",\"name\":\"request\"}";
    for line in [
        format!("{{{event},\"span\":{span}}}"),
        format!(
            "{{{event},\"span\":{{\"name\":\"inner\"}},\"spans\":[{span},{{\"name\":\"inner\"}}]}}"
        ),
        format!("{{{event},\"spans\":[{{\"name\":\"outer\"}},{span}]}}"),
    ] {
        let logged = json(&line);
        assert_eq!(
            (logged.method.as_str(), logged.uri.path()),
            ("GET", "/a"),
            "{line}"
        );
        assert_eq!(
            (logged.started_micros, logged.status),
            (MICROS, Some(200)),
            "{line}"
        );
    }
    assert_eq!(why(Format::Json, &format!("{{{event}}}")), Why::Method);
}

#[test]
fn what_cannot_be_read_says_why() {
    for (line, reason) in [
        ("{".to_owned(), Why::NotJson),
        ("[]".to_owned(), Why::NotJson),
        ("\"GET /\"".to_owned(), Why::NotJson),
        ("{} {}".to_owned(), Why::NotJson),
        ("{\"a\":".repeat(1000), Why::NotJson),
        ("{}".to_owned(), Why::Time),
        ("{\"ts\":1762938841}".to_owned(), Why::Method),
        (
            "{\"ts\":1762938841,\"method\":\"GET\"}".to_owned(),
            Why::Target,
        ),
        (
            "{\"ts\":1762938841,\"request\":\"\\u0016\\u0003\"}".to_owned(),
            Why::Method,
        ),
        (
            "{\"ts\":1e300,\"request\":\"GET /\"}".to_owned(),
            Why::TimeOutOfRange,
        ),
        (
            "{\"ts\":-1,\"request\":\"GET /\"}".to_owned(),
            Why::TimeOutOfRange,
        ),
        (
            "{\"ts\":\"soon\",\"request\":\"GET /\"}".to_owned(),
            Why::Time,
        ),
        (
            "{\"ts\":1,\"duration\":2,\"request\":\"GET /\"}".to_owned(),
            Why::TimeOutOfRange,
        ),
        (with("\"duration\":1e300"), Why::Duration),
        (with("\"duration\":-1"), Why::Duration),
        (with("\"duration\":\"NaN\""), Why::Duration),
        (with("\"duration\":\"a while\""), Why::Duration),
        (with("\"status\":99999"), Why::Status),
        (with("\"status\":-200"), Why::Status),
        (with("\"status\":200.5"), Why::Status),
        (with("\"status\":\"fine\""), Why::Status),
        (with("\"http_x\":\"a\\nb\""), Why::Header),
    ] {
        assert_eq!(why(Format::Json, &line), reason, "{line}");
    }
}

#[test]
fn a_line_with_more_header_fields_than_any_server_takes_cannot_be_read() {
    let fields = |count: u32| {
        let fields: Vec<_> = (0..count)
            .map(|index| format!("\"http_x{index}\":\"v\""))
            .collect();
        with(&fields.join(","))
    };
    assert_eq!(headers(&json(&fields(256))).len(), 256);
    assert_eq!(why(Format::Json, &fields(257)), Why::Header);
}

#[test]
fn each_line_has_its_own_time_however_often_one_comes_again() {
    let times = [
        "09:14:01Z",
        "09:14:01Z",
        "09:14:02Z",
        "09:14:01.5Z",
        "09:14:02Z",
    ];
    let line = |time: &&str| {
        format!(
            "{{\"time\":\"2025-11-12T{time}\",\"request\":\"GET / HTTP/1.1\",\"status\":200}}\n"
        )
    };
    let log: String = times.iter().map(line).collect();
    let (requests, _) = read_all(log.as_bytes(), Some(Format::Json));
    let first = requests[0].started_micros;
    let after: Vec<_> = requests
        .iter()
        .map(|it| it.started_micros - first)
        .collect();
    assert_eq!(after, [0, 0, 500_000, 1_000_000, 1_000_000]);
}
