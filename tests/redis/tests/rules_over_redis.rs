//! Rules of a file over Redis: they decide as in memory, in one script for each request.

use std::{collections::BTreeSet, convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tollgate::{
    RateLimitLayer, Timestamp,
    clock::ManualClock,
    rules::{RuleKey, RuleLimits, Rules},
    store::{LocalStore, Store},
};
use tollgate_algorithms::every_algorithm;
use tollgate_config_tests::in_a_file::{self, in_a_file};
use tollgate_redis_tests::{Server, comes, patient};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};

const HOUR: Duration = Duration::from_secs(3600);

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

/// A service behind the rules of this file, over this server.
async fn over(server: &Server, file: Value) -> Limited {
    let rules = Rules::new();
    rules.replace(file).unwrap();
    service(&rules, patient(server.client().await).build())
}

fn request(path: &str, plan: &str) -> Request<()> {
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    let request = Request::get(path).extension(peer).header("x-plan", plan);
    request.body(()).unwrap()
}

async fn ask(service: &Limited, path: &str, plan: &str) -> Response<Bytes> {
    service.clone().oneshot(request(path, plan)).await.unwrap()
}

/// Every algorithm, each in a rule of its own; these are in shadow. There are three units in a
/// period, and whoever waits does so for a third of it.
fn every_algorithm(period: Duration, shadow: bool) -> Vec<Value> {
    let millis = period.as_millis();
    let value = |variable: &str| match variable {
        "quota" => format!("\"3/{millis}ms\""),
        "burst" => "2".to_owned(),
        _ => format!("\"{}ms\"", millis / 3),
    };
    macro_rules! in_code {
        ($given:tt $($name:literal, $algorithm:expr, $model:ident $numbers:tt;)+) => {
            [$(stringify!($algorithm)),+, "Gcra::new(quota).burst(burst).wait_at_most(interval)"]
        };
    }
    let limits = every_algorithm!(in_code, quota, burst, precision, interval)
        .into_iter()
        .filter_map(|rust| in_a_file(rust, value))
        .map(|fields| serde_json::from_str::<Value>(&in_a_file::json(&fields)).unwrap());
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
    limits.enumerate().map(rule).collect()
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
    let redis = patient(client).clock(clock.clone()).build();
    let services = [service(&rules, local), service(&rules, redis)];
    let period = Duration::from_millis(30);
    let [enforced, in_shadow] = [false, true].map(|shadow| every_algorithm(period, shadow));
    // Ten requests for each rule, one after the other.
    let of_each: Vec<_> = (0..10 * enforced.len())
        .map(|step| format!("/{}", step / 10))
        .collect();
    let mixed: Vec<_> = (0..150)
        .map(|step| match step % 4 {
            0 => format!("/{}", step % 13),
            1 => "/a/1".to_owned(),
            2 => format!("/b/{}", step % 3),
            _ => format!("/{}", step / 3 % 13),
        })
        .collect();
    let paths = |paths: &[String]| paths.iter().cloned().collect::<BTreeSet<_>>();
    let [enforced, in_shadow] = [enforced, in_shadow].map(|rules| json!({ "rules": rules }));
    let none = BTreeSet::new();
    for (file, asked, advance_micros, all_refused) in [
        (&enforced, &of_each, 900, Some(paths(&of_each))),
        (&several(), &mixed, 9_000, None),
        (&in_shadow, &of_each, 900, Some(none)),
        (&enforced, &of_each, 900, Some(paths(&of_each))),
        (&several(), &mixed, 9_000, None),
    ] {
        rules.replace(file).unwrap();
        let (mut admitted, mut refused) = (BTreeSet::new(), BTreeSet::new());
        for (step, path) in (0_u64..).zip(asked) {
            let plan = if step % 5 == 0 { "gold" } else { "free" };
            let mut answers = Vec::new();
            for service in &services {
                let answer = ask(service, path, plan).await;
                answers.push((
                    answer.status(),
                    answer.headers().clone(),
                    answer.into_body(),
                ));
            }
            assert_eq!(answers[0], answers[1], "{path} in step {step}");
            let answered = match answers[0].0.as_u16() {
                200 => &mut admitted,
                429 => &mut refused,
                other => panic!("{path} in step {step}: {other}"),
            };
            answered.insert(path.clone());
            clock.advance(Duration::from_micros(step % 7 * advance_micros));
        }
        match all_refused {
            Some(all) => assert_eq!((admitted, refused), (paths(asked), all)),
            None => assert!(!admitted.is_empty() && !refused.is_empty()),
        }
    }
}

#[tokio::test]
async fn one_script_decides_about_a_request_whatever_applies_to_it() {
    let server = Server::start().await;
    let service = over(&server, several()).await;
    for path in ["/a/1", "/c"] {
        ask(&service, path, "free").await;
        let before = server.command_calls("evalsha").await;
        ask(&service, path, "free").await;
        assert_eq!(server.command_calls("evalsha").await - before, 1, "{path}");
    }
}

#[tokio::test]
async fn the_only_limit_that_applies_to_a_request_is_leased() {
    let server = Server::start().await;
    let rules = Rules::new();
    let limit = json!({ "algorithm": "token-bucket", "quota": "1000/h" });
    let rule = json!({ "name": "api", "routes": "/", "key": "address", "limit": limit });
    rules.replace(json!({ "rules": [rule] })).unwrap();
    let store = patient(server.client().await).build();
    let store = store.leased(Duration::from_secs(10));
    let service = service(&rules, store.clone());
    for _ in 0..60 {
        assert_eq!(ask(&service, "/", "free").await.status(), 200);
    }
    assert!(store.usage().leased > 20, "{:?}", store.usage());
}

#[tokio::test]
async fn as_many_limits_as_may_apply_to_one_request_are_decided() {
    let mut list = every_algorithm(HOUR, false);
    list.extend(every_algorithm(HOUR, true));
    list.truncate(16);
    for (number, rule) in list.iter_mut().enumerate() {
        rule["name"] = json!(format!("r{number}"));
        rule["routes"] = json!("/");
    }
    let server = Server::start().await;
    let service = over(&server, json!({ "match": "all", "rules": list })).await;
    for status in [200, 429] {
        assert_eq!(ask(&service, "/", "free").await.status(), status);
    }
}

#[tokio::test]
async fn more_limits_than_fit_into_a_script_are_decided_too() {
    let rule = |number: u32| {
        let limit = json!({ "algorithm": "token-bucket", "quota": format!("{}/day", 3 + number) });
        json!({ "name": format!("r{number}"), "key": "everyone", "limit": limit })
    };
    let file = json!({ "match": "all", "rules": (0..20).map(rule).collect::<Vec<_>>() });
    let server = Server::start().await;
    let service = over(&server, file).await;
    for admitted in [true, true, true, false, false] {
        let answer = ask(&service, "/", "").await;
        assert_eq!(answer.status() == 200, admitted);
    }
}

#[tokio::test]
async fn who_leaves_the_queue_of_a_rule_gives_its_turn_back() {
    let queue = json!({ "algorithm": "leaky-bucket-queue", "quota": "1/hour", "capacity": 2 });
    let rules = Rules::new();
    let file = json!({ "rules": [{ "name": "queue", "key": "everyone", "limit": queue }] });
    rules.replace(&file).unwrap();
    let server = Server::start().await;
    let store = patient(server.client().await).build();
    let service = service(&rules, store.clone());
    // An answer, or none once the request waits.
    let asked = async || {
        let before = store.usage().admitted;
        let mut asked = Box::pin(ask(&service, "/", ""));
        tokio::select! {
            answer = &mut asked => (Some(answer.status()), asked),
            () = comes("a turn", async || store.usage().admitted > before) => (None, asked),
        }
    };
    assert_eq!(ask(&service, "/", "").await.status(), 200);
    let (answer, waits) = asked().await;
    assert_eq!(answer, None);
    assert_eq!(asked().await.0.unwrap(), 429);
    drop(waits);
    comes("its turn", async || asked().await.0.is_none()).await;
}
