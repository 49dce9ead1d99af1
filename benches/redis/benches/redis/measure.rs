//! Runs the cases in turns, and reads what Redis has counted.

use std::{collections::BTreeMap, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use fred::{
    clients::Client,
    interfaces::ClientLike,
    prelude::Value,
    types::{ClusterHash, CustomCommand},
};
use tollgate::{RateLimiter, algorithm::Scripted, store::RedisStore};
use tollgate_redis_tests::{Counted, Server};

/// How many tasks ask at the same time, each for a key of its own.
pub(crate) const TASKS: u64 = 64;

/// What is measured: one turn of so many calls.
pub(crate) type Turn = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()>>>>;

pub(crate) struct Case {
    pub(crate) name: String,
    turn: Turn,
    pub(crate) best: Cost,
}

/// What Redis spent on a call of a script.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) micros: f64,
    /// How many commands the script called.
    pub(crate) commands: f64,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, turn: Turn) -> Self {
        Self {
            name: name.into(),
            turn,
            best: Cost {
                micros: f64::INFINITY,
                commands: 0.0,
            },
        }
    }
}

/// Lets all cases take turns; the first turns warm up.
pub(crate) async fn alternate(server: &Server, cases: &mut [Case], rounds: u32) {
    let is_quick = std::env::var_os("TOLLGATE_BENCH_QUICK").is_some_and(|value| value != "0");
    let rounds = if is_quick { 2 } else { rounds };
    for round in 0..=rounds {
        for case in &mut *cases {
            let () = server.command("CONFIG", &["RESETSTAT"]).await;
            (case.turn)().await;
            let cost = counted(&server.commands().await);
            if round > 0 && cost.micros < case.best.micros {
                case.best = cost;
            }
        }
    }
}

/// What the scripts that ran have cost; their commands are all but those that call scripts,
/// connect, and look.
fn counted(commands: &BTreeMap<String, Counted>) -> Cost {
    const OF_OTHERS: [&str; 8] = [
        "evalsha", "config", "info", "hello", "auth", "client", "ping", "quit",
    ];
    let scripts = commands.get("evalsha").copied().unwrap_or_default();
    let of_scripts = commands
        .iter()
        .filter(|(name, _)| !OF_OTHERS.contains(&name.as_str()));
    let called: u64 = of_scripts.map(|(_, counted)| counted.calls).sum();
    Cost {
        micros: scripts.micros as f64 / scripts.calls as f64,
        commands: called as f64 / scripts.calls as f64,
    }
}

/// A turn of decisions: every task asks so often, and must get this answer. With fewer keys than
/// tasks a task for each key asks for all: decisions that are asked together would share calls.
pub(crate) fn decisions<A: Scripted>(
    algorithm: A,
    store: RedisStore,
    keys: u64,
    (times, admitted): (u32, bool),
) -> Turn {
    let limiter = RateLimiter::new(algorithm, store);
    Box::new(move || {
        let limiter = limiter.clone();
        Box::pin(all(move |task| {
            let limiter = limiter.clone();
            async move {
                for _ in 0..times_of(task, keys, times) {
                    let decision = limiter.check(&task).await.expect("a decision");
                    assert_eq!(decision.is_admitted(), admitted, "{decision:?}");
                }
            }
        }))
    })
}

/// How often a task asks if so many of them ask for all.
fn times_of(task: u64, asking: u64, times: u32) -> u64 {
    match task < asking {
        true => u64::from(times) * TASKS / asking.min(TASKS),
        false => 0,
    }
}

/// A turn of a script of one's own: so many tasks call it for all with these arguments.
pub(crate) fn script(
    client: &Client,
    sha1: String,
    (asking, times): (u64, u32),
    arguments: impl Fn(u64) -> Vec<Value> + Clone + Send + 'static,
) -> Turn {
    let client = client.clone();
    Box::new(move || {
        let (client, sha1, arguments) = (client.clone(), sha1.clone(), arguments.clone());
        Box::pin(all(move |task| {
            let (client, sha1, arguments) = (client.clone(), sha1.clone(), arguments.clone());
            async move {
                for _ in 0..times_of(task, asking, times) {
                    let mut values = vec![Value::from(&sha1)];
                    values.extend(arguments(task));
                    evalsha(&client, values).await;
                }
            }
        }))
    })
}

pub(crate) async fn all<F: Future<Output = ()> + Send + 'static>(task: impl Fn(u64) -> F) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| tokio::spawn(task(number)))
        .collect();
    for task in tasks {
        task.await.expect("a task that does not panic");
    }
}

pub(crate) async fn evalsha(client: &impl ClientLike, values: Vec<Value>) -> Value {
    let command = CustomCommand::new_static("EVALSHA", ClusterHash::Custom(0), false);
    client.custom(command, values).await.expect("an answer")
}

/// Loads a script, and tells the name that Redis knows it by.
pub(crate) async fn load(client: &Client, text: &str) -> String {
    let command = CustomCommand::new_static("SCRIPT", ClusterHash::Custom(0), false);
    let loaded = client.custom(command, vec![Value::from("LOAD"), Value::from(text)]);
    loaded.await.expect("a script that can be loaded")
}

/// A store that waits: what is measured is not how long an answer takes.
pub(crate) fn store(client: &Client, prefix: &str) -> tollgate::store::RedisStoreBuilder {
    RedisStore::builder(client.clone())
        .prefix(prefix)
        .deadline(Duration::from_secs(30))
}

/// A key of the scripts of one's own.
pub(crate) fn key(prefix: &str, number: u64) -> Value {
    Value::Bytes(Bytes::from(format!("{prefix}:{number}")))
}

/// A number, and what it should be at most, if it should be anything.
pub(crate) fn at_most(number: f64, most: f64) -> String {
    if most.is_nan() {
        return format!("{number:>6.2}         ");
    }
    let mark = if number <= most { ' ' } else { '!' };
    format!("{number:>6.2}{mark}(≤ {most:.2})")
}
