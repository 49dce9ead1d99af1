//! Requests through a layer over one connection, beside bare calls of the script that the layer
//! runs, with the same deadline; and decisions about one hot key, beside those about many.

use std::{
    convert::Infallible,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::{
    clients::Client,
    prelude::{ClientLike, Options, Value},
};
use http::{Request, Response};
use http_body_util::Full;
use tollgate::{
    Quota, RateLimitLayer, RateLimiter,
    algorithm::TokenBucket,
    key::from_fn,
    response::{Fields, Http},
    store::{RedisStore, RedisUsage},
};
use tollgate_redis_tests::Server;
use tower::{Layer, ServiceExt, service_fn};

use crate::measure::{evalsha, store};

/// How many requests wait for an answer at the same time.
const IN_FLIGHT: u64 = 256;
const TIMES: u32 = 100;
pub(crate) const DEADLINE: Duration = Duration::from_secs(3_600);
const ROUNDS: u32 = 20;

pub(crate) async fn compare(server: &Server, client: &Client) {
    let rule = || TokenBucket::new(Quota::per_minute(1_000_000_000));
    // Calls of the script that come after its deadline would do nothing.
    let store = store(client, "throughput").deadline(DEADLINE).build();
    let arguments = arguments(server, || async {
        let limiter = RateLimiter::new(rule(), store.clone());
        let decision = limiter.check(&()).await.expect("a decision");
        assert!(decision.is_admitted());
    })
    .await;
    let services = [Fields::default(), Fields::Off].map(|fields| {
        let own_key = from_fn(|request: &Request<u64>| Ok::<_, Infallible>(Some(*request.body())));
        let layer = RateLimitLayer::new(rule(), store.clone(), own_key);
        let layer = layer.respond_with(Http::new().fields(fields));
        layer.layer(service_fn(|_: Request<u64>| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }))
    });

    let (mut layered, mut bare) = ([0.0_f64; 2], 0.0_f64);
    for _ in 0..ROUNDS {
        for (service, best) in services.iter().zip(&mut layered) {
            let service = service.clone();
            let through = per_second(move |task| {
                let service = service.clone();
                async move {
                    let response = service.oneshot(Request::new(task)).await;
                    assert_eq!(response.expect("no error").status(), 200);
                }
            });
            *best = best.max(through.await);
        }
        let options = Options {
            timeout: Some(DEADLINE),
            ..Options::default()
        };
        let (client, arguments) = (client.with_options(&options), arguments.clone());
        let called = per_second(move |_| {
            let (client, arguments) = (client.clone(), arguments.clone());
            async move {
                let answer = evalsha(&client, arguments).await;
                assert!(answer.as_bytes().is_some());
            }
        });
        bare = bare.max(called.await);
    }
    println!(
        "\nRequests a second, {IN_FLIGHT} in flight on one connection; bare calls of the layer's script with its deadline: {bare:.0}"
    );
    for (name, best) in ["its fields", "no fields"].into_iter().zip(layered) {
        let ratio = best / bare;
        let mark = if ratio >= 0.85 { ' ' } else { '!' };
        println!("Through a layer with {name}: {best:.0}; ratio {ratio:.2}{mark}(≥ 0.85)");
    }
    hot_key(server, client).await;
}

/// What one key costs that everybody asks about, from four stores, as of four processes.
async fn hot_key(server: &Server, client: &Client) {
    let limiters = (0..STORES).map(|_| {
        let store = store(client, "hot").deadline(DEADLINE).build();
        RateLimiter::new(TokenBucket::new(Quota::per_minute(1_000_000_000)), store)
    });
    let limiters: Vec<_> = limiters.collect();
    let (mut cold, mut hot) = (Spent::WORST, Spent::WORST);
    for _ in 0..ROUNDS {
        for (is_hot, best) in [(false, &mut cold), (true, &mut hot)] {
            let before = spent(server).await;
            let limiters = limiters.clone();
            let each = per_second(move |task| {
                let limiter = limiters[task as usize % STORES].clone();
                let key = if is_hot { u64::MAX } else { task };
                async move {
                    let decision = limiter.check(&key).await;
                    assert!(decision.expect("a decision").is_admitted());
                }
            });
            let (per_second, after) = (each.await, spent(server).await);
            let decisions = (IN_FLIGHT * u64::from(TIMES)) as f64;
            let of_each = Spent {
                cpu_micros: (after.cpu_micros - before.cpu_micros) / decisions,
                scripts: (after.scripts - before.scripts) / decisions,
                per_second,
            };
            if of_each.cpu_micros < best.cpu_micros {
                *best = of_each;
            }
        }
    }
    let ratio = hot.cpu_micros / cold.cpu_micros;
    let mark = if ratio <= 0.30 { ' ' } else { '!' };
    println!(
        "\n{IN_FLIGHT} decisions in flight from {STORES} stores: scripts for each, Redis's CPU in µs, decisions a second"
    );
    for (name, spent) in [("a key for each", cold), ("one hot key", hot)] {
        let Spent {
            scripts,
            cpu_micros,
            per_second,
        } = spent;
        println!("{name}: {scripts:.3}, {cpu_micros:.2}, {per_second:.0}");
    }
    println!("Redis's CPU for one hot key: ratio {ratio:.3}{mark}(≤ 0.30)");
    for stores in [1, 4, 16] {
        flood(server, client, stores).await;
    }
}

/// What a flood of refused requests costs, if refusals are remembered.
async fn flood(server: &Server, client: &Client, stores: usize) {
    let stores: Vec<_> = (0..stores)
        .map(|_| {
            let store = store(client, &format!("flood:{stores}")).deadline(DEADLINE);
            store.remember_refusals(DEADLINE).build()
        })
        .collect();
    let rule = TokenBucket::new(Quota::per_second(1));
    let limiters = stores
        .iter()
        .map(|store| RateLimiter::new(rule.clone(), store.clone()));
    let limiters: Arc<Vec<_>> = Arc::new(limiters.collect());
    let (before, end) = (spent(server).await, Instant::now() + FLOOD_FOR);
    let tasks = (0..FLOODING).map(|task| {
        let limiters = Arc::clone(&limiters);
        tokio::spawn(async move {
            for key in (0..FLOODED).cycle().skip(task * 7) {
                if Instant::now() >= end {
                    break;
                }
                let decided = limiters[task % limiters.len()].check(&(key as u64)).await;
                decided.expect("a decision");
                tokio::task::yield_now().await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a task that does not panic");
    }
    let scripts = spent(server).await.scripts - before.scripts;
    let usages: Vec<_> = stores.iter().map(RedisStore::usage).collect();
    let sum = |of: fn(&RedisUsage) -> u64| usages.iter().map(of).sum::<u64>() as f64;
    let (admitted, decisions) = (sum(|it| it.admitted), sum(|it| it.admitted + it.refused));
    let (of_each_unit, of_each) = (scripts / admitted, scripts / decisions);
    let mark = if of_each <= 0.005 { ' ' } else { '!' };
    println!(
        "Flood of {FLOODED} keys of 1/s from {} stores, refusals remembered: {decisions} decisions, {admitted} admitted; \
         scripts for each unit {of_each_unit:.2}, for each decision {of_each:.5}{mark}(≤ 0.005)",
        stores.len(),
    );
}

/// How many keys are flooded, by how many tasks, and for how long.
const FLOODED: usize = 100;
const FLOODING: usize = 16;
const FLOOD_FOR: Duration = Duration::from_secs(4);

/// How many stores ask about the hot key.
const STORES: usize = 4;

/// What a decision has cost.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) cpu_micros: f64,
    pub(crate) scripts: f64,
    per_second: f64,
}

impl Spent {
    const WORST: Self = Self {
        cpu_micros: f64::INFINITY,
        scripts: f64::INFINITY,
        per_second: 0.0,
    };
}

pub(crate) async fn spent(server: &Server) -> Spent {
    let mut seconds = 0.0;
    for name in ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"] {
        let field = server.info_field("cpu", name).await.expect("a number");
        seconds += field.parse::<f64>().expect("a number");
    }
    Spent {
        cpu_micros: seconds * 1e6,
        scripts: server.command_calls("evalsha").await as f64,
        per_second: 0.0,
    }
}

/// How often this is done in a second, by all tasks together.
async fn per_second<F: Future<Output = ()> + Send + 'static>(
    once: impl Fn(u64) -> F + Clone + Send + Sync + 'static,
) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..IN_FLIGHT)
        .map(|task| {
            let once = once.clone();
            tokio::spawn(async move {
                for _ in 0..TIMES {
                    once(task).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task that does not panic");
    }
    (IN_FLIGHT * u64::from(TIMES)) as f64 / start.elapsed().as_secs_f64()
}

/// What the store sends for a decision after the first, as the server has seen it: the script's
/// name and all that follows.
async fn arguments<F: Future<Output = ()>>(server: &Server, decide: impl Fn() -> F) -> Vec<Value> {
    decide().await;
    let () = server
        .command("CONFIG", &["SET", "slowlog-log-slower-than", "0"])
        .await;
    decide().await;
    let () = server
        .command("CONFIG", &["SET", "slowlog-log-slower-than", "-1"])
        .await;
    let entries: Vec<Value> = server.command("SLOWLOG", &["GET", "100"]).await;
    let commands = entries.into_iter().filter_map(|entry| {
        let Value::Array(fields) = entry else {
            return None;
        };
        let Some(Value::Array(words)) = fields.into_iter().nth(3) else {
            return None;
        };
        let is_script = words[0]
            .as_str()
            .is_some_and(|name| name.eq_ignore_ascii_case("evalsha"));
        is_script.then(|| words[1..].to_vec())
    });
    commands.last().expect("a script that was logged")
}
