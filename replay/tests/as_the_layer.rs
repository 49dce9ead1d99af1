//! A replay decides as a layer does that is asked the same requests at the same instants.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use crate::support::Temporary;
use bytes::Bytes;
use fastrand::Rng;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use tollgate::{RateLimitLayer, Timestamp, clock::ManualClock, rules::Rules, store::LocalStore};
use tollgate_replay::{
    asked::Asked,
    decide::{Decider, Outcome},
    extensions::ExtensionSources,
    key_text::HeaderValues,
    log::PackedHeaders,
    logged::Logged,
    rules_file::{RulesFile, Scale},
    scenario::{Scenario, Setting},
};
use tower::{Layer, ServiceExt, service_fn};

/// What an outer layer would put into the requests of this service.
#[derive(Clone)]
struct User(String);

const FIRST: &str = include_str!("rules/first.toml");
const ALL: &str = include_str!("rules/all.toml");

/// So many requests, some at the same instant and some far apart; the same in each run.
fn traffic(many: usize) -> Vec<Logged> {
    let mut random = Rng::with_seed(1);
    let mut below = move |most: usize| random.usize(..most);
    let mut now = 1_700_000_000_000_000;
    let mut one = || {
        now += [0, 0, 100_000, 333_333, 1_000_000, 7_000_000][below(6)];
        let (method, uri) = [
            ("POST", "/login"),
            ("GET", "/search?q=1"),
            ("HEAD", "/search"),
            ("GET", "/export/7"),
            ("PUT", "/files/a"),
            ("DELETE", "/else"),
        ][below(6)];
        let mut headers = HeaderMap::new();
        let mut maybe = |name: &'static str, values: &[&str]| {
            let value = below(values.len() + 1);
            if let Some(value) = values.get(value) {
                headers.insert(name, value.parse().unwrap());
            }
        };
        maybe("x-plan", &["gold", "tin"]);
        maybe("x-api-key", &["one", "two", "one"]);
        maybe(
            "x-forwarded-for",
            &["192.0.2.1", "192.0.2.2, 10.1.1.1", "nonsense"],
        );
        Logged {
            started_micros: now,
            took_micros: None,
            address: ["10.0.0.1", "203.0.113.5", "2001:db8::1", ""][below(4)]
                .parse()
                .ok(),
            method: method.parse().unwrap(),
            uri: uri.parse().unwrap(),
            headers: PackedHeaders::from(&headers),
            user: [Some("ann"), Some("bob"), None][below(3)].map(str::to_owned),
            status: None,
        }
    };
    std::iter::repeat_with(&mut one).take(many).collect()
}

/// The rules of a file, and what its extensions are read from.
fn file(name: &str, toml: &str) -> (RulesFile, ExtensionSources) {
    let written = Temporary::new(&format!("{name}.toml"), toml);
    let file = RulesFile::read(&written.0).unwrap();
    let given = ["user=remote_user".to_owned()];
    let extensions = ExtensionSources::new(file.extension_names(), &given).unwrap();
    (file, extensions)
}

/// What a layer answers each request.
async fn answered(toml: &str, traffic: &[Logged]) -> Vec<StatusCode> {
    let rules = Rules::new().extension("user", |user: &User| user.0.clone());
    rules
        .replace(toml::Deserializer::parse(toml).unwrap())
        .unwrap();
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let layer = RateLimitLayer::new(rules.clone(), store, rules);
    let service = layer.layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    let mut answers = Vec::new();
    for logged in traffic {
        clock.set(Timestamp::from_micros(logged.started_micros));
        let mut request = Request::new(());
        *request.method_mut() = logged.method.clone();
        *request.uri_mut() = Uri::try_from(logged.uri.to_string()).unwrap();
        logged.headers.copy_to(request.headers_mut());
        if let Some(ip) = logged.address {
            request.extensions_mut().insert(SocketAddr::new(ip, 4711));
        }
        if let Some(user) = &logged.user {
            request.extensions_mut().insert(User(user.clone()));
        }
        let response = service.clone().oneshot(request).await.unwrap();
        answers.push(response.status());
    }
    answers
}

fn replayed(name: &str, toml: &str, traffic: &[Logged]) -> Vec<StatusCode> {
    let (file, extensions) = file(name, toml);
    let rules = file.rules(&extensions).unwrap();
    let mut decider = Decider::new(rules, 1_000).unwrap();
    let mut asked = Asked::empty();
    let status = |logged: &Logged| {
        // One request is filled again and again, as in a run.
        asked.fill(Box::new(logged.clone()), &extensions);
        match decider.decide(&asked.request, asked.at_micros) {
            Outcome::Rejected(rejection) => rejection.status(),
            Outcome::Decided(decided) if !decided.is_admitted => StatusCode::TOO_MANY_REQUESTS,
            Outcome::Decided(_) | Outcome::NoRule => StatusCode::OK,
        }
    };
    traffic.iter().map(status).collect()
}

#[tokio::test(start_paused = true)]
async fn a_replay_answers_each_request_as_the_layer_does() {
    let traffic = traffic(6_000);
    for (name, toml, statuses) in [
        ("first", FIRST, &[200, 400, 403, 429, 500][..]),
        ("all", ALL, &[200, 429, 500]),
    ] {
        let expected = answered(toml, &traffic).await;
        let found = replayed(name, toml, &traffic);
        let other = found
            .iter()
            .zip(&expected)
            .position(|(one, other)| one != other);
        assert_eq!(other.map(|place| &traffic[place]), None, "{name}");
        for status in statuses {
            let many = expected.iter().filter(|it| it.as_u16() == *status).count();
            assert!(many > 50, "{name}: only {many} × {status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_is_what_the_layer_answers() {
    let traffic = traffic(6_000);
    let expected = answered(ALL, &traffic).await;
    let many = |status: u16| expected.iter().filter(|it| it.as_u16() == status).count() as u64;
    let (file, extensions) = file("counted", ALL);
    let setting = Arc::new(Setting {
        limits: file.limits(),
        extensions: extensions.clone(),
        header_values: HeaderValues::Cut,
        max_keys: 1_000,
    });
    let rules = file.rules(&extensions).unwrap();
    let scenario = Scenario::new(&setting, rules, Scale::Same, true).unwrap();
    let log = traffic.iter().cloned().map(Box::new).map(Ok);
    let scenarios = tollgate_replay::replay::replay(log, &extensions, vec![scenario]).unwrap();
    let counts = &scenarios[0].counts;
    assert_eq!((counts.requests, counts.admitted), (6_000, many(200)));
    assert_eq!(counts.without_rule, 0);
    assert_eq!((counts.refused, counts.rejected()), (many(429), many(500)));
    let tried = &counts.limits[0];
    assert_eq!(tried.refused, 0);
    assert!((1..=counts.refused).contains(&tried.refused_by_others));
    assert!(tried.would_be_refused > 50);
    // The worst spans keep the printed bounds: 2 × 10 units in 10 s, and 1 released in 10 s.
    let details = scenarios[0].details.as_ref().unwrap();
    let most = |limit: usize| {
        let worst = details.limits[limit].worst.as_ref().unwrap();
        worst.worst().unwrap().most
    };
    assert!((10..=20).contains(&most(1)), "{}", most(1));
    assert_eq!(most(2), 1);
    let bins = details.over_time.bins().iter();
    assert_eq!(
        bins.map(|bin| bin.refused_otherwise).sum::<u64>(),
        counts.rejected()
    );
    assert!(details.limits[2].delays.count() > 50);
}
