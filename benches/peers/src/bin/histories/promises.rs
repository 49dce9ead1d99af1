//! What each limiter says of itself, and where.

use tollgate_peers::{table, versions::version_of};

/// Package, file, words.
const WORDS: [(&str, &str, &str); 17] = [
    (
        "governor",
        "src/quota.rs",
        "replenishing at a rate of one cell per 30min, but allows bursting up to 90 cells at once",
    ),
    (
        "axum_gcra",
        "src/gcra.rs",
        "delivering all at once or in quick succession, up until the provided limit",
    ),
    (
        "throttlecrab",
        "src/core/rate_limiter.rs",
        "`max_burst`: Maximum number of requests allowed in a burst",
    ),
    (
        "ratelimit",
        "src/lib.rs",
        "scaled tokens internally for sub-token precision, allowing accurate rate limiting at any rate",
    ),
    (
        "leaky-bucket",
        "src/lib.rs",
        "Configure the max number of tokens to use",
    ),
    (
        "throttle-kit",
        "src/quota.rs",
        "`burst` is the maximum number of requests that can be made in rapid succession",
    ),
    (
        "skp-ratelimit",
        "README.md",
        "`max_requests` Sustained rate - requests allowed per time window; `burst` Instant capacity - requests \
         allowed in quick succession; `GlobalKey`: A constant key that applies the same limit to all requests; \
         `execute_atomic`: Execute an atomic read-modify-write operation",
    ),
    (
        "trypema",
        "README.md",
        "rejects requests after the configured window capacity is reached … best-effort under concurrency",
    ),
    (
        "limitador",
        "src/lib.rs",
        "When storing the counters in memory, Limitador guarantees that we'll never go over the limits defined",
    ),
    (
        "governor",
        "src/gcra.rs",
        "the minimum amount of time from the time that the decision was made that must pass before a decision can be \
         conforming",
    ),
    (
        "axum_gcra",
        "src/gcra.rs",
        "the amount of time until the next request can be made",
    ),
    (
        "throttlecrab",
        "src/core/rate_limiter.rs",
        "`retry_after`: Time to wait before the next request will be allowed",
    ),
    (
        "ratelimit",
        "src/lib.rs",
        "`Insufficient`: not enough tokens right now; retry after the returned duration",
    ),
    (
        "throttle-kit",
        "src/metrics.rs",
        "`retry_after`: When to retry if the request was rejected",
    ),
    (
        "skp-ratelimit",
        "src/decision.rs",
        "`retry_after`: How long to wait before retrying",
    ),
    (
        "skp-ratelimit",
        "src/headers.rs",
        "`Retry-After`: Seconds until the client should retry (standard HTTP header)",
    ),
    (
        "tower_governor",
        "src/governor.rs",
        "`x-ratelimit-after`: Number of seconds in which the API will become available after its rate limit has been \
         exceeded; `retry-after`: Same value as `x-ratelimit-after`",
    ),
];

pub(crate) fn table() {
    table::part(
        "What is promised",
        "The words by which each limiter is judged.",
    );
    table::head(&["limiter", "version", "where", "its words"]);
    for (package, file, words) in WORDS {
        table::row(&[&package, &version_of(package), &format!("`{file}`"), &words]);
    }
    table::row(&[
        &"tower",
        &version_of("tower"),
        &"`src/limit/rate/layer.rs`",
        &"a rate limit on the number of requests the underlying service can handle over a period of time",
    ]);
    table::row(&[
        &"tower-resilience-ratelimiter",
        &version_of("tower-resilience-ratelimiter"),
        &"`src/config.rs`",
        &"`SlidingLog`: no more than limit requests in any window; `Fixed`: up to 2x the limit at window boundaries",
    ]);
}
