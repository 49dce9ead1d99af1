//! Rules of a file over Redis: they decide as in memory, in one script for each request.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::FixedWindow,
    clock::ManualClock,
    rules::{RuleKey, RuleLimits, Rules},
    store::{LocalStore, RedisStore, Store},
};
use tollgate_redis_tests::{Cluster, Server};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};

const DEADLINE: Duration = Duration::from_secs(20);

type Limited = BoxCloneSyncService<Request<()>, Response<Bytes>, Infallible>;

/// A service behind these rules, over this store.
fn service<S: Store<RuleLimits, RuleKey> + Sync>(rules: &Rules, store: S) -> Limited
where
    S::Deciding: Send,
{
    let layer = RateLimitLayer::new(rules.clone(), store, rules.clone());
    let inner = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Bytes::new())));
    BoxCloneSyncService::new(layer.layer(inner))
}

fn request(path: &str, plan: &str) -> Request<()> {
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    let request = Request::get(path).extension(peer).header("x-plan", plan);
    request.body(()).unwrap()
}

async fn ask(service: &Limited, path: &str, plan: &str) -> Response<Bytes> {
    service.clone().oneshot(request(path, plan)).await.unwrap()
}

/// Every algorithm, each in a rule of its own; these are in shadow.
fn every_algorithm(shadow: bool) -> Vec<Value> {
    let limits = [
        json!({ "algorithm": "token-bucket", "quota": "3/s", "burst": 5 }),
        json!({ "algorithm": "gcra", "quota": "2/s", "burst": 3 }),
        json!({ "algorithm": "leaky-bucket", "quota": "2/s", "capacity": 4 }),
        json!({ "algorithm": "fixed-window", "quota": "4/s" }),
        json!({ "algorithm": "fixed-window", "quota": "4/s", "from-first-request": true }),
        json!({ "algorithm": "sliding-log", "quota": "3/s" }),
        json!({ "algorithm": "sliding-window", "quota": "3/s" }),
        json!({ "algorithm": "sliding-buckets", "quota": "3/s", "precision": "100ms" }),
        json!({ "algorithm": "min-interval", "interval": "300ms" }),
        json!({ "algorithm": "leaky-bucket-queue", "quota": "1000/s", "capacity": 2 }),
        json!({ "algorithm": "token-bucket", "quota": "1000/s", "burst": 1, "wait-at-most": "2ms" }),
        json!({ "algorithm": "gcra", "quota": "1000/s", "burst": 1, "wait-at-most": "2ms" }),
        json!({ "algorithm": "leaky-bucket", "quota": "1000/s", "capacity": 1, "wait-at-most": "2ms" }),
    ];
    let rule = |(number, limit)| {
        json!({
            "name": format!("rule-{number}"),
            "routes": format!("/{number}"),
            "key": "address",
            "cost": 1,
            "shadow": shadow,
            "limit": limit,
        })
    };
    limits.into_iter().enumerate().map(rule).collect()
}

/// Rules of which several apply to one request.
fn several() -> Value {
    let limit = |units: u32| json!({ "algorithm": "fixed-window", "quota": format!("{units}/s") });
    json!({
        "match": "all",
        "rules": [
            {
                "name": "narrow",
                "routes": ["/a/{x}", { "route": "/b/{x}", "cost": 2 }],
                "key": ["address", { "header": "x-plan" }],
                "limit": [
                    { "name": "spacing", "algorithm": "min-interval", "interval": "50ms" },
                    { "name": "log", "algorithm": "sliding-log", "quota": "7/s" },
                ],
            },
            {
                "name": "plans",
                "key": "everyone",
                "limit": limit(5),
                "plans": { "by": { "header": "x-plan" }, "limits": { "gold": limit(9) } },
            },
            {
                "name": "tried",
                "routes": ["/{x}/1"],
                "key": "address",
                "shadow": true,
                "limit": { "algorithm": "token-bucket", "quota": "2/s" },
            },
        ],
    })
}

#[tokio::test]
async fn rules_over_redis_decide_as_in_memory_in_every_field() {
    let server = Server::start().await;
    let client = server.client().await;
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let rules = Rules::new();
    let local = LocalStore::builder().clock(clock.clone()).build();
    let redis = RedisStore::builder(client)
        .clock(clock.clone())
        .deadline(DEADLINE)
        .build();
    let services = [service(&rules, local), service(&rules, redis)];
    let mut refused = 0;
    let files = [
        json!({ "rules": every_algorithm(false) }),
        several(),
        json!({ "rules": every_algorithm(true) }),
        json!({ "rules": every_algorithm(false) }),
        several(),
    ];
    for file in files {
        rules.replace(&file).unwrap();
        for step in 0..150_u64 {
            let path = match step % 4 {
                0 => format!("/{}", step % 13),
                1 => "/a/1".to_owned(),
                2 => format!("/b/{}", step % 3),
                _ => format!("/{}", step / 3 % 13),
            };
            let plan = if step % 5 == 0 { "gold" } else { "free" };
            let mut answers = Vec::new();
            for service in &services {
                let answer = ask(service, &path, plan).await;
                answers.push((
                    answer.status(),
                    answer.headers().clone(),
                    answer.into_body(),
                ));
            }
            assert_eq!(answers[0], answers[1], "{path} in step {step}");
            refused += u32::from(answers[0].0 == 429);
            clock.advance(Duration::from_millis(step % 7 * 9));
        }
    }
    assert!((50..700).contains(&refused), "{refused}");
}

#[tokio::test]
async fn one_script_decides_about_a_request_whatever_applies_to_it() {
    let server = Server::start().await;
    let rules = Rules::new();
    rules.replace(several()).unwrap();
    let store = RedisStore::builder(server.client().await)
        .deadline(DEADLINE)
        .build();
    let service = service(&rules, store);
    for path in ["/a/1", "/c"] {
        ask(&service, path, "free").await;
        let before = server.command_calls("evalsha").await;
        ask(&service, path, "free").await;
        assert_eq!(server.command_calls("evalsha").await - before, 1, "{path}");
    }
}

#[tokio::test]
async fn a_limit_of_a_file_and_one_in_code_of_the_same_name_share_a_bucket() {
    let server = Server::start().await;
    let client = server.client().await;
    let store = RedisStore::builder(client).deadline(DEADLINE).build();
    let rules = Rules::new();
    let file = json!({ "rules": [{
        "name": "daily",
        "key": "address",
        "limit": { "algorithm": "fixed-window", "quota": "3/day" },
    }] });
    rules.replace(file).unwrap();
    let service = service(&rules, store.clone());
    assert_eq!(ask(&service, "/", "free").await.status(), 200);
    let daily = FixedWindow::new(Quota::per_day(3)).named("daily");
    let limiter = RateLimiter::new(daily, store);
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    assert_eq!(limiter.check(&address).await.unwrap().remaining(), 1);
}

#[tokio::test]
async fn in_a_cluster_all_limits_of_a_request_admit_or_none_is_charged() {
    let cluster = Cluster::start().await;
    let rules = Rules::new();
    let limit =
        |units: u32| json!({ "algorithm": "fixed-window", "quota": format!("{units}/day") });
    let file = json!({ "match": "all", "rules": [
        { "name": "one", "key": "address", "limit": limit(3) },
        { "name": "two", "key": "everyone", "limit": limit(5), "routes": "/two" },
        { "name": "three", "key": "address", "limit": limit(1), "routes": "/three" },
    ] });
    rules.replace(file).unwrap();
    let store = RedisStore::builder(cluster.client().await)
        .deadline(DEADLINE)
        .build();
    let service = service(&rules, store);
    for (path, status) in [
        ("/three", 200),
        ("/three", 429),
        ("/two", 200),
        ("/two", 200),
        ("/two", 429),
        ("/", 429),
    ] {
        assert_eq!(ask(&service, path, "free").await.status(), status, "{path}");
    }
}

#[tokio::test]
async fn while_redis_is_dead_a_limiter_in_the_process_counts_by_limit_and_key() {
    a_limiter_in_the_process_counts(Server::kill).await;
}

#[tokio::test]
async fn while_redis_hangs_a_limiter_in_the_process_counts_by_limit_and_key() {
    a_limiter_in_the_process_counts(Server::stop_process).await;
}

async fn a_limiter_in_the_process_counts(fault: impl Fn(&Server)) {
    let server = Server::start().await;
    let client = server.client().await;
    let store = RedisStore::builder(client)
        .deadline(Duration::from_secs(1))
        .build();
    let rules = Rules::new();
    rules
        .replace(json!({ "rules": every_algorithm(false) }))
        .unwrap();
    let alone = FixedWindow::new(Quota::per_day(2)).named("alone");
    let layer = RateLimitLayer::new(rules.clone(), store, rules)
        .on_store_error(RateLimiter::new(alone, LocalStore::new()));
    let inner = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Bytes::new())));
    let service = BoxCloneSyncService::new(layer.layer(inner));
    // Redis has run the scripts, so that it is known to be set up well.
    for path in ["/0", "/1"] {
        let answer = ask(&service, path, "free").await;
        let policy = answer.headers()["ratelimit-policy"].to_str().unwrap();
        assert!(!policy.starts_with("\"alone\""), "{policy}");
    }
    fault(&server);
    for path in ["/0", "/1"] {
        for status in [200, 429, 429] {
            let answer = ask(&service, path, "free").await;
            assert_eq!(answer.status(), status, "{path}");
            let policy = answer.headers()["ratelimit-policy"].to_str().unwrap();
            assert!(policy.starts_with("\"alone\""), "{policy}");
        }
    }
}

#[tokio::test]
async fn as_many_limits_as_may_apply_to_one_request_are_decided_in_one_script() {
    let server = Server::start().await;
    let rules = Rules::new();
    let mut list = every_algorithm(false);
    list.extend(every_algorithm(true).into_iter().take(3));
    for (number, rule) in list.iter_mut().enumerate() {
        rule["name"] = json!(format!("r{number}"));
        rule["routes"] = json!("/");
    }
    assert_eq!(list.len(), 16);
    rules
        .replace(json!({ "match": "all", "rules": list }))
        .unwrap();
    let store = RedisStore::builder(server.client().await)
        .deadline(DEADLINE)
        .build();
    let service = service(&rules, store);
    let statuses = [
        ask(&service, "/", "free").await.status().as_u16(),
        ask(&service, "/", "free").await.status().as_u16(),
    ];
    assert_eq!(statuses, [200, 429]);
}
