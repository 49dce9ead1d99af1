//! Looks at the limits of one caller in Redis, and acts on them. `tollgate-admin --help` shows the
//! usage.

#![forbid(unsafe_code)]

mod args;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use http::Request;
use tollgate::{
    Decision, RateLimiter, StoreError,
    clock::{Clock, SystemClock},
    rules::{RuleKey, Rules},
    store::{RedisConnection, RedisStore},
};
use tollgate_replay::{extensions::ExtensionSources, rules_file::RulesFile};

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
    let key = key_of(&args.caller, &rules, &extensions)?;
    let limiter = RateLimiter::new(rules, store(&args.server)?);
    let names: Vec<_> = key.keys_by_limit().map(|(name, _)| name).collect();
    if let Act::Look = args.act {
        for name in names {
            let key = key.of_limit(name).expect("one of its own");
            println!(
                "{name}: {}",
                shown(&limiter.peek(&key).await.map_err(told)?)
            );
        }
        return Ok(());
    }
    if let [_, _, ..] = &*names {
        let names = names.join(", ");
        return Err(format!(
            "several limits apply: say which with --limit: {names}"
        ));
    }
    let until = |span: Duration| SystemClock::new().now().saturating_add(span);
    let (done, what) = match args.act {
        Act::Look => unreachable!("it is done"),
        Act::Reset => (limiter.reset(&key).await, "reset".to_owned()),
        Act::Refuse { span } => (
            limiter.refuse_until(&key, until(span)).await,
            format!("refused for {}", spoken(span)),
        ),
        Act::LetThrough { span } => {
            let done = limiter.let_through_until(&key, until(span)).await;
            (done, format!("let through for {}", spoken(span)))
        }
    };
    done.map_err(told)?;
    println!("{}: {what}", names.join(", "));
    Ok(())
}

fn told(error: StoreError) -> String {
    error.to_string()
}

/// The limits of the caller's request, or the one that was asked for, with its keys.
fn key_of(
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
        request
            .extensions_mut()
            .insert(std::net::SocketAddr::new(peer, 0));
    }
    for (name, value) in &caller.extensions {
        extensions.set(name, value.clone(), &mut request)?;
    }
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
