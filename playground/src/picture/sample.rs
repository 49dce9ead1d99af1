//! What the pictures show: each algorithm with ten units a second, under the same traffic.

use crate::{limit::Limit, simulate::Request, span::SECOND};

/// How long the pictures last.
pub(super) const LASTS: u64 = 5 * SECOND;

/// The traffic, in words.
pub(super) const TOLD: &str = "10 requests at 0.9 s and 10 at 1.1 s, one every 200 ms from 2 s to \
                               3 s, and 25 evenly from 3 s to 4 s";

/// A limit, how it is called, and the name of its own picture if it has one.
pub(super) struct Shown {
    pub(super) limit: Limit,
    pub(super) called: &'static str,
    pub(super) picture: Option<&'static str>,
}

/// Every algorithm, from the tightest to the loosest at an edge; then those that delay or space.
pub(super) fn limits() -> Vec<Shown> {
    let shown = |called, picture, json: &str| Shown {
        limit: Limit::of(json),
        called,
        picture,
    };
    vec![
        shown(
            "sliding log",
            Some("sliding_log"),
            r#"{"algorithm": "sliding-log", "quota": "10/s"}"#,
        ),
        shown(
            "sliding buckets, strict",
            None,
            r#"{"algorithm": "sliding-buckets", "quota": "10/s", "precision": "100ms", "strict": true}"#,
        ),
        shown(
            "sliding buckets",
            Some("sliding_buckets"),
            r#"{"algorithm": "sliding-buckets", "quota": "10/s", "precision": "100ms"}"#,
        ),
        shown(
            "sliding window",
            Some("sliding_window"),
            r#"{"algorithm": "sliding-window", "quota": "10/s"}"#,
        ),
        shown(
            "token/leaky bucket, GCRA",
            Some("token_bucket"),
            r#"{"algorithm": "token-bucket", "quota": "10/s"}"#,
        ),
        shown(
            "… with a burst of 4",
            None,
            r#"{"algorithm": "token-bucket", "quota": "10/s", "burst": 4}"#,
        ),
        shown(
            "fixed window",
            Some("fixed_window"),
            r#"{"algorithm": "fixed-window", "quota": "10/s"}"#,
        ),
        shown(
            "… from first request",
            None,
            r#"{"algorithm": "fixed-window", "quota": "10/s", "from-first-request": true}"#,
        ),
        shown(
            "queue",
            Some("leaky_bucket_queue"),
            r#"{"algorithm": "leaky-bucket-queue", "quota": "10/s"}"#,
        ),
        shown(
            "burst of 4, then waits",
            Some("wait_at_most"),
            r#"{"algorithm": "token-bucket", "quota": "10/s", "burst": 4, "wait-at-most": "500ms"}"#,
        ),
        shown(
            "min interval, 100 ms",
            Some("min_interval"),
            r#"{"algorithm": "min-interval", "interval": "100ms"}"#,
        ),
        shown(
            "4 in flight, 300 ms each",
            Some("in_flight"),
            r#"{"algorithm": "in-flight", "requests": 4}"#,
        ),
    ]
}

/// The traffic that all of them are asked.
pub(super) fn requests() -> Vec<Request> {
    let mut instants = vec![900_000; 10];
    instants.extend([1_100_000; 10]);
    instants.extend((0..5).map(|index| 2 * SECOND + index * 200_000));
    instants.extend((0..25).map(|index| 3 * SECOND + index * 40_000));
    let requests = instants.into_iter().map(|at| Request {
        runs_micros: 300_000,
        ..Request::at(at)
    });
    requests.collect()
}
