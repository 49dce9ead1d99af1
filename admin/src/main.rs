//! Looks at the limits of one caller in Redis, and acts on them. `tollgate-admin --help` shows the
//! usage.

#![forbid(unsafe_code)]

mod args;

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Body, routing::any};
use clap::Parser;
use http::Request;
use tollgate::{
    Decision, RateLimiter, StoreError,
    clock::{Clock, SystemClock},
    rules::{KeyValue, RuleKey, Rules},
    store::{RedisConnection, RedisStore},
};
use tollgate_replay::{extensions::ExtensionSources, rules_file::RulesFile};

use tower::ServiceExt;

use args::{Act, Args, Caller, Server};

/// The exit code after an error, of the command line, of a file or of Redis.
const WRONG: u8 = 2;

/// How long Redis has for an answer.
const DEADLINE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(&args)),
        Err(error) => Err(error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tollgate-admin: {why}");
            ExitCode::from(WRONG)
        }
    }
}

async fn run(args: &Args) -> Result<(), String> {
    let file = RulesFile::read(&args.rules)?;
    let extensions = ExtensionSources::new(file.extension_names(), &[])?;
    let rules = file.rules(&extensions)?;
    let key = key_of(&args.caller, &rules, &extensions).await?;
    let limiter = RateLimiter::new(rules, store(&args.server)?);
    let until = |span: Duration| SystemClock::new().now().saturating_add(span);
    match args.act {
        Act::Look => {}
        Act::Reset => limiter.reset(only_one(&key, args)?).await.map_err(text)?,
        Act::Refuse { span } => {
            let refused = limiter.refuse_until(only_one(&key, args)?, until(span));
            refused.await.map_err(text)?;
        }
        Act::LetThrough { span } => {
            let let_through = limiter.let_through_until(only_one(&key, args)?, until(span));
            let_through.await.map_err(text)?;
        }
    }
    // What the limits say now, in the words of Redis: its clock may be another one.
    for (name, whose) in key.keys_by_limit() {
        let one = key.of_limit(name).expect("one of its own");
        let decision = limiter.peek(&one).await.map_err(text)?;
        println!("{name} of {whose:?}: {}", shown(&decision));
    }
    Ok(())
}

/// The key, if it is of one limit and of one caller.
fn only_one<'a>(key: &'a RuleKey, args: &Args) -> Result<&'a RuleKey, String> {
    let names: Vec<_> = key.keys_by_limit().map(|(name, _)| name).collect();
    if names.len() > 1 {
        let names = names.join(", ");
        return Err(format!(
            "several limits apply: say which with --limit: {names}"
        ));
    }
    if !args.everyone && key.keys_by_limit().any(|(_, whose)| is_shared(whose)) {
        let name = names.concat();
        return Err(format!(
            "{name} has one key for everyone, or for all who lack what tells them apart: \
             is a header, an extension or the route missing? --everyone acts on it"
        ));
    }
    Ok(key)
}

fn is_shared(key: &KeyValue) -> bool {
    match key {
        KeyValue::Everyone => true,
        KeyValue::Several(keys) => keys.iter().any(is_shared),
        _ => false,
    }
}

fn text(error: StoreError) -> String {
    error.to_string()
}

/// The limits of the caller's request, or the one that was asked for, with its keys.
async fn key_of(
    caller: &Caller,
    rules: &Rules,
    extensions: &ExtensionSources,
) -> Result<RuleKey, String> {
    let mut request = Request::builder()
        .method(&*caller.request.0)
        .uri(&*caller.request.1);
    for (name, value) in &caller.headers {
        request = request.header(name, value);
    }
    let mut request = request.body(()).map_err(|error| error.to_string())?;
    if let Some(peer) = caller.peer {
        request.extensions_mut().insert(SocketAddr::new(peer, 0));
    }
    for (name, value) in &caller.extensions {
        extensions.set(name, value.clone(), &mut request)?;
    }
    let request = routed(request).await?;
    let found = rules.extract(&request).map_err(|error| error.to_string())?;
    let key = found.ok_or("no rule matches this request")?;
    match &caller.limit {
        None => Ok(key),
        Some(name) => key.of_limit(name).ok_or_else(|| {
            let names: Vec<_> = key.keys_by_limit().map(|(name, _)| name).collect();
            format!(
                "{name:?} does not apply to this request: {}",
                names.join(", ")
            )
        }),
    }
}

/// The request with its path as its route, as a router gives it to a layer.
async fn routed(request: Request<()>) -> Result<Request<Body>, String> {
    let path = request.uri().path().to_owned();
    if !is_route(&path) {
        return Err(format!("{path:?} is no route, such as \"/users/{{id}}\""));
    }
    let seen = Arc::new(Mutex::new(None));
    let see = {
        let seen = Arc::clone(&seen);
        async move |request: Request<Body>| *seen.lock().expect("no panic") = Some(request)
    };
    let router = Router::new().without_v07_checks().route(&path, any(see));
    let request = request.map(|()| Body::empty());
    let _ = router.oneshot(request).await;
    let routed = seen.lock().expect("no panic").take();
    routed.ok_or_else(|| format!("no route is {path:?}"))
}

/// Whether each brace in it is around the name of a whole segment.
fn is_route(path: &str) -> bool {
    let segments: Vec<_> = path.split('/').collect();
    let is_segment = |(at, segment): (usize, &&str)| {
        let name = segment
            .strip_prefix('{')
            .and_then(|it| it.strip_suffix('}'));
        let Some(name) = name else {
            return !segment.contains(['{', '}']);
        };
        let rest = name.strip_prefix('*').filter(|_| at + 1 == segments.len());
        let name = rest.unwrap_or(name);
        !name.is_empty() && !name.contains(['{', '}', '*'])
    };
    path.starts_with('/') && segments.iter().enumerate().all(is_segment)
}

fn store(server: &Server) -> Result<RedisStore, String> {
    let connection = RedisConnection::from_url(&server.redis).map_err(|it| it.to_string())?;
    let mut builder = RedisStore::builder(connection)
        .prefix(&server.prefix)
        .deadline(DEADLINE);
    if let Some(tag) = &server.hash_tag {
        builder = builder.hash_tag(tag);
    }
    if let Some(key) = &server.digest_key {
        builder = builder.digest_key(key);
    }
    builder.try_build().map_err(|error| error.to_string())
}

fn spoken(span: Duration) -> String {
    playground::span::told(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

/// What a request of cost 1 would be answered.
fn shown(decision: &Decision) -> String {
    let left = format!("{} of {} left", decision.remaining(), decision.limit());
    match (decision.is_admitted(), decision.retry_after()) {
        (true, _) => left,
        (false, Some(wait)) => format!("refused for {}, {left}", spoken(wait)),
        (false, None) => format!("refused, {left}"),
    }
}
