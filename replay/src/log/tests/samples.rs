//! The logs in `tests/logs`, as servers write them.

use super::{header, headers, read_all};
use crate::{
    log::{Format, Why},
    logged::Logged,
};

const NGINX_MAIN: &str = include_str!("../../../tests/logs/nginx_main.log");
const NGINX_TIMES: &str = include_str!("../../../tests/logs/nginx_times.log");
const APACHE_VHOST: &str = include_str!("../../../tests/logs/apache_vhost.log");
const NGINX_JSON: &str = include_str!("../../../tests/logs/nginx.json.log");
const CADDY_JSON: &str = include_str!("../../../tests/logs/caddy.json.log");
const TRACE: &str = include_str!("../../../tests/logs/trace.log");
const TRACE_JSON: &str = include_str!("../../../tests/logs/trace.json.log");

/// The requests of a log in a form, of which the lines with these reasons cannot be read.
fn requests(log: &str, format: Format, unreadable: &[(Why, u64)], other: u64) -> Vec<Logged> {
    let (requests, reader) = read_all(log.as_bytes(), None);
    assert_eq!(reader.format(), format);
    assert_eq!(
        reader.unreadable().reasons(),
        unreadable,
        "{:?}",
        reader.unreadable()
    );
    assert_eq!(reader.other(), other);
    assert_eq!(reader.out_of_order(), 0);
    requests
}

fn targets(requests: &[Logged]) -> Vec<String> {
    requests
        .iter()
        .map(|logged| logged.uri.to_string())
        .collect()
}

#[test]
fn nginx_main() {
    let requests = requests(NGINX_MAIN, Format::Combined, &[(Why::Method, 2)], 0);
    assert_eq!(
        targets(&requests),
        ["/", "/api/login", "/search?q=café&page=2", "/slow"]
    );
    assert_eq!(requests[0].started_micros, 1_762_935_241_000_000);
    assert_eq!(requests[1].user.as_deref(), Some("ada"));
    assert_eq!(
        header(&requests[1], "x-forwarded-for"),
        "198.51.100.7, 192.0.2.1"
    );
    assert_eq!(header(&requests[2], "user-agent"), "Mozilla/5.0 \"quoted\"");
    assert_eq!(requests[3].status, Some(499));
}

#[test]
fn nginx_with_request_times() {
    let requests = requests(NGINX_TIMES, Format::Combined, &[(Why::OpenQuote, 1)], 0);
    assert_eq!(targets(&requests), ["/report", "/fast", "/later"]);
    let started: Vec<_> = requests
        .iter()
        .map(|logged| logged.started_micros - 1_762_938_840_000_000)
        .collect();
    assert_eq!(started, [250_000, 4_988_000, 8_500_000]);
}

#[test]
fn apache_with_virtual_hosts() {
    let requests = requests(APACHE_VHOST, Format::Combined, &[(Why::Method, 1)], 0);
    assert_eq!(
        targets(&requests),
        ["/index.html", "/basket", "*", "http://other.example/"]
    );
    let hosts: Vec<_> = requests
        .iter()
        .map(|logged| header(logged, "host"))
        .collect();
    assert_eq!(
        hosts,
        [
            "shop.example",
            "shop.example",
            "api.example:8080",
            "shop.example"
        ]
    );
    assert_eq!(requests[2].user.as_deref(), Some("grace hopper"));
    assert_eq!(requests[2].address, "2001:db8:1::9".parse().ok());
    assert_eq!(
        header(&requests[1], "user-agent"),
        r#"an "agent" with \ quotes"#
    );
}

#[test]
fn nginx_json() {
    let unreadable = [(Why::Method, 1), (Why::NotJson, 1)];
    let requests = requests(NGINX_JSON, Format::Json, &unreadable, 0);
    assert_eq!(targets(&requests), ["/items?page=2", "/items"]);
    assert_eq!(requests[0].started_micros, 1_762_938_841_000_000);
    assert_eq!(header(&requests[0], "x-api-key"), "k-1");
    assert_eq!(requests[1].user.as_deref(), Some("ada"));
    assert_eq!(requests[1].status, Some(201));
}

#[test]
fn caddy_json() {
    let requests = requests(CADDY_JSON, Format::Json, &[], 1);
    assert_eq!(targets(&requests), ["/cart?id=7"]);
    assert_eq!(requests[0].started_micros, 1_762_938_841_400_000);
    assert_eq!(requests[0].address, "198.51.100.40".parse().ok());
    let mut names: Vec<_> = headers(&requests[0])
        .keys()
        .map(|name| name.to_string())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "host", "user-agent", "x-forwarded-for"]);
    assert_eq!(
        (requests[0].status, requests[0].user.as_deref()),
        (Some(200), None)
    );
}

#[test]
fn the_trace_layer_by_text_and_by_json() {
    for (log, format) in [(TRACE, Format::Trace), (TRACE_JSON, Format::Json)] {
        let requests = requests(log, format, &[], 5);
        assert_eq!(
            targets(&requests),
            ["/items/7?page=2", "/items/7", "/broken"]
        );
        let statuses: Vec<_> = requests.iter().filter_map(|logged| logged.status).collect();
        assert_eq!(statuses, [200, 405, 500]);
        assert_eq!(requests[0].started_micros, 1_762_938_841_000_000);
        assert_eq!(requests[0].took_micros, Some(3_000));
    }
}
