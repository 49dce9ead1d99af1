//! A service that streams the answers of a language model: ten requests a minute for each caller,
//! and six hundred tokens.
//!
//! The tokens of an answer are known only when its last word has been sent. Until then a request
//! holds the most that it may take. Then its stream settles what it has taken, and the rest is free
//! at once. A caller who hangs up is charged all that was held.
//!
//! ```text
//! cargo run --example language_model
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router, extract::Request};
use futures_util::stream;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};
use tollgate::algorithm::TokenBucket;
use tollgate::{Hold, Quota, RateLimitLayer, key::Header, store::LocalStore};

const REQUESTS: u64 = 10;
const TOKENS: u64 = 600;
/// The model's time for a word; here a word is a token.
const WORD: Duration = Duration::from_millis(5);

fn number(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<u32> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// The tokens of the longest answer. Whoever asks for more gets these.
const MAX_ANSWER: u32 = 4_096;
/// Longer than any answer takes.
const HELD_AT_MOST: Duration = Duration::from_secs(600);

/// The approximate tokens of a prompt of this many bytes.
fn tokens(bytes: u32) -> u32 {
    bytes.div_ceil(4)
}

/// The most tokens that a request may take: its prompt, and the maximum that it asks for.
fn estimate(request: &Request) -> u32 {
    let headers = request.headers();
    let prompt = number(headers, header::CONTENT_LENGTH).map_or(0, tokens);
    let answer = number(headers, "x-max-tokens").unwrap_or(200);
    // At least 1: what costs nothing is always admitted.
    prompt.saturating_add(answer.min(MAX_ANSWER)).max(1)
}

/// Streams an answer with as many words as the prompt asks for.
async fn generate(hold: Option<Extension<Hold>>, prompt: String) -> Body {
    let of_prompt = tokens(prompt.len() as u32);
    let words = prompt.split(' ').find_map(|word| word.parse().ok());
    let words = words.map_or(0, |words: u32| words.min(MAX_ANSWER));
    // The stream owns the hold: if the stream is dropped before its end, so is the hold.
    let answer = stream::unfold((0, hold), move |(sent, hold)| async move {
        if sent == words {
            if let Some(Extension(hold)) = hold {
                hold.settle(of_prompt + sent);
            }
            return None;
        }
        sleep(WORD).await;
        let word = Ok::<_, Infallible>(Bytes::from("word "));
        Some((word, (sent + 1, hold)))
    });
    Body::from_stream(answer)
}

fn app() -> Router {
    let requests = TokenBucket::new(Quota::per_minute(REQUESTS)).named("requests");
    let tokens = TokenBucket::new(Quota::per_minute(TOKENS)).named("tokens");
    let limit = RateLimitLayer::new(
        (
            requests.per_request(),
            tokens.settled().held_at_most(HELD_AT_MOST),
        ),
        LocalStore::new(),
        Header::new("x-api-key"),
    );
    Router::new()
        .route(
            "/generate",
            post(generate).layer(limit.clone().cost(estimate)),
        )
        // This route costs nothing, and its fields show what is left.
        .route("/usage", get(|| async {}).layer(limit.cost(0)))
}

/// One caller.
#[derive(Clone)]
struct Caller {
    http: Client<hyper_util::client::legacy::connect::HttpConnector, Body>,
    server: String,
    key: &'static str,
}

impl Caller {
    /// Asks for an answer of `words` words, and at most `at_most` tokens.
    async fn asks(self, words: u32, at_most: u32) -> Response<hyper::body::Incoming> {
        let request = http::Request::post(format!("{}/generate", self.server))
            .header("x-api-key", self.key)
            .header("x-max-tokens", at_most)
            .body(Body::from(format!(
                "Tell me a story of {words} words, if you can."
            )));
        let answer = self.http.request(request.expect("a request")).await;
        answer.expect("an answer")
    }

    /// Sends `times` requests at once and reads them to their ends. Returns how many were answered,
    /// and the policy that refused each of the others.
    async fn asks_at_once(&self, times: usize, words: u32, at_most: u32) -> (usize, Vec<String>) {
        let mut calls = JoinSet::new();
        for _ in 0..times {
            let answer = self.clone().asks(words, at_most);
            calls.spawn(async move {
                let (head, body) = answer.await.into_parts();
                let body = body.collect().await.expect("a whole answer").to_bytes();
                match head.status {
                    StatusCode::OK => None,
                    _ => Some(String::from_utf8_lossy(&body).into_owned()),
                }
            });
        }
        let answers = calls.join_all().await;
        let refusals: Vec<_> = answers.into_iter().flatten().collect();
        (times - refusals.len(), refusals)
    }

    /// How many tokens are left.
    async fn tokens_left(&self) -> u64 {
        let request = http::Request::get(format!("{}/usage", self.server))
            .header("x-api-key", self.key)
            .body(Body::empty());
        let answer = self.http.request(request.expect("a request")).await;
        let answer = answer.expect("an answer");
        let field = answer.headers()["ratelimit"].to_str().expect("text");
        let tokens = field.split(", ").find(|it| it.starts_with("\"tokens\""));
        let left = tokens.and_then(|it| it.split(';').find_map(|it| it.strip_prefix("r=")));
        left.and_then(|left| left.parse().ok()).expect("a number")
    }
}

/// The tokens that have come back since `start`, rounded up.
fn come_back_since(start: Instant) -> u64 {
    start.elapsed().as_millis() as u64 * TOKENS / 60_000 + 1
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app()).await });
    let http = Client::builder(TokioExecutor::new()).build_http();
    let caller = |key| Caller {
        http: http.clone(),
        server: server.clone(),
        key,
    };

    // A prompt of ten tokens, and at most ninety more: six requests fit, whatever they will take.
    let (ann, start) = (caller("ann"), Instant::now());
    let (answered, refusals) = ann.asks_at_once(8, 30, 90).await;
    let left = ann.tokens_left().await;
    println!("ann: {answered} of 8 answered, which took 40 tokens each; {left} of 600 are left");
    assert_eq!(answered, 6);
    assert!(
        refusals
            .iter()
            .all(|it| it.contains(r#""violated-policies":["tokens"]"#))
    );
    assert!((360..=360 + come_back_since(start)).contains(&left));

    // Bob hangs up after three of a thousand words: all that is held is charged.
    let (bob, start) = (caller("bob"), Instant::now());
    let mut answer = bob.clone().asks(1_000, 189).await.into_body();
    for _ in 0..3 {
        answer.frame().await.ok_or("no word")??;
    }
    assert_eq!(bob.tokens_left().await, 400);
    drop(answer);
    let left = loop {
        let left = bob.tokens_left().await;
        if left > 400 {
            break left;
        }
        assert!(start.elapsed() < WORD * 1_000, "it is streamed to nobody");
        sleep(WORD).await;
    };
    println!("bob: hung up after 3 words; {left} of 600 tokens are left");
    assert!(left <= 400 + come_back_since(start));

    // Ten requests are the limit, however few tokens they take.
    let (answered, refusals) = caller("cid").asks_at_once(12, 1, 1).await;
    println!("cid: {answered} of 12 small requests answered");
    assert_eq!(answered, 10);
    assert!(
        refusals
            .iter()
            .all(|it| it.contains(r#""violated-policies":["requests"]"#))
    );
    Ok(())
}
