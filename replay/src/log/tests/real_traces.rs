//! Lines that `TraceLayer` really prints, by each of `tracing-subscriber`'s forms.

use std::{
    io::{self, Read},
    sync::Arc,
    time::UNIX_EPOCH,
};

use axum::{Router, body::Body, routing::get};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use tower::ServiceExt;
use tower_http::{
    LatencyUnit,
    trace::{DefaultMakeSpan, DefaultOnResponse, TraceLayer},
};
use tracing_subscriber::{filter::LevelFilter, fmt, util::SubscriberInitExt};

use super::{headers, read_all};
use crate::{log::Format, logged::Logged};

const AGENT: &str = "a \"quoted\" agent, finished processing request latency=9 ms";

/// How a service prints its log.
#[derive(Debug, Clone, Copy)]
enum Form {
    Full { colours: bool },
    Compact { colours: bool },
    Json,
    FlatJson,
    JsonWithoutSpan,
}

/// The log of a service that answers three requests, the last of them with an error.
fn log_of_a_service(form: Form, unit: LatencyUnit, with_headers: bool) -> Vec<u8> {
    let (mut printed, writer) = io::pipe().unwrap();
    let all = fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(Arc::new(writer));
    let logging = match form {
        Form::Full { colours } => all.with_ansi(colours).set_default(),
        Form::Compact { colours } => all.with_ansi(colours).compact().set_default(),
        Form::Json => all.json().set_default(),
        Form::FlatJson => all.json().flatten_event(true).set_default(),
        Form::JsonWithoutSpan => all.json().with_current_span(false).set_default(),
    };
    let trace = TraceLayer::new_for_http()
        .make_span_with(DefaultMakeSpan::new().include_headers(with_headers))
        .on_response(DefaultOnResponse::new().latency_unit(unit));
    let service = Router::new()
        .route("/items/{id}", get(async || "an item"))
        .route("/broken", get(async || StatusCode::INTERNAL_SERVER_ERROR))
        .layer(trace);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        for (method, path) in [
            ("GET", "/items/7?page=2"),
            ("DELETE", "/items/7"),
            ("GET", "/broken"),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = request.header("user-agent", AGENT).header("x-key", "k");
            let request = request.body(Body::empty()).unwrap();
            service.clone().oneshot(request).await.unwrap();
        }
    });
    // Nobody writes any more.
    drop(logging);
    let mut log = Vec::new();
    printed.read_to_end(&mut log).unwrap();
    log
}

/// What a log that was just printed tells: the three requests.
fn assert_tells_the_requests(log: &[u8], format: Format) -> Vec<Logged> {
    let text = String::from_utf8_lossy(log);
    let (requests, reader) = read_all(log, None);
    assert_eq!(reader.format(), format, "{text}");
    let unreadable = reader.unreadable();
    assert_eq!(unreadable.count(), 0, "{text}{unreadable:?}");
    let are_left_out = reader.other() >= 4;
    assert!(are_left_out, "each request began, and one failed: {text}");
    let shown = requests.iter().map(|logged| {
        let status = logged.status.unwrap();
        format!("{} {} {status}", logged.method, logged.uri)
    });
    let wanted = [
        "GET /items/7?page=2 200",
        "DELETE /items/7 405",
        "GET /broken 500",
    ];
    assert_eq!(shown.collect::<Vec<_>>(), wanted, "{text}");
    let now = UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    for logged in &requests {
        assert!(logged.took_micros.unwrap() < 60_000_000, "{text}");
        assert!(now - logged.started_micros < 60_000_000, "{text}");
        assert_eq!(logged.address, None);
    }
    requests
}

const FORMS: [(Form, Format); 7] = [
    (Form::Full { colours: false }, Format::Trace),
    (Form::Full { colours: true }, Format::Trace),
    (Form::Compact { colours: false }, Format::Trace),
    (Form::Compact { colours: true }, Format::Trace),
    (Form::Json, Format::Json),
    (Form::FlatJson, Format::Json),
    (Form::JsonWithoutSpan, Format::Json),
];

#[test]
fn what_the_trace_layer_prints_is_read_in_every_form_and_unit_with_header_fields_or_without() {
    use LatencyUnit::{Micros, Millis, Nanos, Seconds};
    let mut printed = HeaderMap::new();
    printed.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    printed.insert("x-key", HeaderValue::from_static("k"));
    for (form, format) in FORMS {
        for unit in [Seconds, Millis, Micros, Nanos] {
            for (with_headers, expected) in [(false, &HeaderMap::new()), (true, &printed)] {
                let log = log_of_a_service(form, unit, with_headers);
                for logged in assert_tells_the_requests(&log, format) {
                    assert_eq!(&headers(&logged), expected, "{form:?}");
                }
            }
        }
    }
}
