//! What `Trace` writes into spans and into the log, as `tracing-subscriber` prints it.
#![cfg(feature = "layer")]

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use tollgate::{
    RateLimitLayer, RateLimiter, StoreErrorKind, algorithm::KeyLimit, key::from_fn, observe::Trace,
    response::AsError, store::LocalStore,
};
use tower::{Layer, Service, ServiceExt};
use tracing::{Instrument, Level, field::Empty, info_span, subscriber::DefaultGuard};
use tracing_subscriber::fmt::{MakeWriter, Subscriber, format::FmtSpan};

use crate::support::{Echo, Remote, broken, by_hand, daily, numbers};

/// What is logged on this thread, as lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self, level: Level) -> DefaultGuard {
        let subscriber = Subscriber::builder()
            .with_max_level(level)
            .with_span_events(FmtSpan::CLOSE)
            .with_ansi(false)
            .without_time()
            .with_writer(self.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// What was logged since the last time.
    fn lines(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Sends these requests, and tells how many were admitted.
async fn send<S, Req>(service: &S, requests: impl IntoIterator<Item = Req>) -> usize
where
    S: Service<Req> + Clone,
{
    let mut admitted = 0;
    for request in requests {
        admitted += usize::from(service.clone().oneshot(request).await.is_ok());
    }
    admitted
}

/// A service of numbers, each of which is a caller of its own.
fn logged<A: KeyLimit>(limit: A, trace: Trace) -> impl Service<u32> + Clone {
    let own = from_fn(|number: &u32| Ok::<_, Infallible>(Some(format!("key {number}"))));
    let layer = RateLimitLayer::new(limit, by_hand().1, own).respond_with(AsError);
    layer.observe(trace).layer(Echo::default())
}

fn line(outcome: &str, key: u32, not_logged: u32) -> String {
    format!(
        r#"INFO tollgate::observe: a request is over its limit key="key {key}" policy=daily outcome="{outcome}" cost=1 wait_seconds=86400.0 not_logged={not_logged}"#
    )
}

#[test]
fn the_calls_of_a_limiter_are_told_to_their_spans_and_refusals_to_the_log() {
    let log = Log::default();
    let _listening = log.listen(Level::INFO);
    let limiter = RateLimiter::new(daily(2), by_hand().1).observe(Trace::new());
    let span = || info_span!("job", tollgate.outcome = Empty, tollgate.key = Empty);
    span().in_scope(|| limiter.check("key 7").now());
    span().in_scope(|| limiter.debit("key 7", 1).now());
    span().in_scope(|| limiter.peek("key 7").now());
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, outcome) in lines.iter().zip(["admitted", "debited"]) {
        let told = format!(r#"tollgate.outcome="{outcome}" tollgate.key="key 7""#);
        assert!(line.contains(&told), "{line}");
    }
    assert!(!lines[2].contains("tollgate.outcome"), "{lines:?}");
    limiter.check("key 7").now();
    limiter.check("key 7").now();
    assert_eq!(log.lines(), [line("refused", 7, 0)]);
}

#[tokio::test]
async fn a_refusal_is_logged_once_for_each_key_and_period() {
    let log = Log::default();
    let _listening = log.listen(Level::INFO);
    let trace = Trace::new();
    let service = logged(daily(1), trace.clone());
    assert_eq!(send(&service, [7, 7, 7, 7]).await, 1);
    // A clone knows what was logged.
    let other = logged(daily(1), trace);
    assert_eq!(send(&other, [7, 7, 8, 8]).await, 2);
    assert_eq!(log.lines(), [line("refused", 7, 0), line("refused", 8, 3)]);
}

#[tokio::test]
async fn a_refusal_that_is_not_enforced_and_one_in_shadow_are_logged_as_such() {
    let log = Log::default();
    let _listening = log.listen(Level::INFO);
    let own = from_fn(|number: &u32| Ok::<_, Infallible>(Some(format!("key {number}"))));
    let service = RateLimitLayer::new(daily(1), by_hand().1, own);
    let service = service.enforce(|number: &u32, _: Option<&String>| *number != 8);
    let service = service.respond_with(AsError).observe(Trace::new());
    let service = service.layer(Echo::default());
    assert_eq!(send(&service, [7, 7, 8, 8, 8]).await, 4);
    let mut lines = log.lines();
    lines.retain(|line| line.starts_with("INFO"));
    assert_eq!(lines, [line("refused", 7, 0), line("shadow_refused", 8, 0)]);

    let limits = (daily(9).named("enforced"), daily(1).shadow());
    let in_shadow = logged(limits, Trace::new());
    assert_eq!(send(&in_shadow, [7, 7, 7]).await, 3);
    let line = line("shadow_refused", 7, 0).replace(" wait_seconds=86400.0", "");
    assert_eq!(log.lines(), [line]);
}

#[tokio::test]
async fn a_refusal_is_logged_again_when_the_period_is_over() {
    let log = Log::default();
    let _listening = log.listen(Level::INFO);
    let service = logged(daily(0), Trace::new().every(Duration::ZERO));
    assert_eq!(send(&service, [1, 1]).await, 0);
    assert_eq!(log.lines().len(), 2);
}

#[tokio::test]
async fn a_key_cannot_begin_a_line_of_the_log() {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Raw(&'static str);

    impl std::fmt::Debug for Raw {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    let log = Log::default();
    let _listening = log.listen(Level::INFO);
    let raw = from_fn(|_: &u32| Ok::<_, Infallible>(Some(Raw("a\r\nERROR b\u{1b}[2J\u{2028}"))));
    let service = RateLimitLayer::new(daily(0), LocalStore::new(), raw)
        .respond_with(AsError)
        .observe(Trace::new())
        .layer(Echo::default());
    let span = info_span!("request", tollgate.key = Empty);
    send(&service, [1]).instrument(span).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let key = r"a\r\nERROR b\u{1b}[2J\u{2028}";
        assert!(line.contains(key), "{line}");
    }
}

#[tokio::test]
async fn the_span_of_a_request_is_told_what_became_of_it_if_it_has_the_fields() {
    let log = Log::default();
    let _listening = log.listen(Level::INFO);
    let own = from_fn(|number: &u32| match number {
        9 => Err((http::StatusCode::BAD_REQUEST, "nine")),
        8 => Ok(None),
        number => Ok(Some(*number)),
    });
    let service = RateLimitLayer::new(daily(1), Remote(by_hand().1), own)
        .respond_with(AsError)
        .exempt(|number: &u32| *number == 6)
        .observe(Trace::new())
        .layer(Echo::default());
    let down = numbers(daily(1), broken(StoreErrorKind::Unavailable))
        .observe(Trace::new())
        .layer(Echo::default());
    let span = || {
        info_span!(
            "request",
            tollgate.outcome = Empty,
            tollgate.passes = Empty,
            tollgate.cost = Empty,
            tollgate.key = Empty,
            tollgate.policy = Empty,
            tollgate.remaining = Empty,
            tollgate.wait_seconds = Empty,
        )
    };
    for number in [7, 7, 6, 8, 9] {
        send(&service, [number]).instrument(span()).await;
    }
    send(&down, [7]).instrument(span()).await;
    // A span that declares one field is told that one.
    let few = info_span!("few", tollgate.outcome = Empty);
    send(&service, [5]).instrument(few).await;
    let closed = |line: &String| line.ends_with(": close");
    let spans: Vec<_> = log.lines().into_iter().filter(closed).collect();
    let fields = spans.iter().map(|line| {
        let (start, end) = (line.find('{').unwrap(), line.find('}').unwrap());
        line[start + 1..end].replace("tollgate.", "")
    });
    let expected = [
        r#"outcome="admitted" passes=true cost=1 key=7 policy="daily" remaining=0"#,
        r#"outcome="refused" passes=false cost=1 key=7 policy="daily" remaining=0 wait_seconds=86400.0"#,
        r#"outcome="exempt" passes=true cost=0"#,
        r#"outcome="no_key" passes=true cost=0"#,
        r#"outcome="rejected" passes=false cost=0"#,
        r#"outcome="store_error" passes=false cost=1 key=()"#,
        r#"outcome="admitted""#,
    ];
    assert_eq!(fields.collect::<Vec<_>>(), expected);
}
