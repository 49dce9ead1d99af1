//! Rules in a file: which apply to a request, and what they charge.

use std::{
    convert::Infallible, future::poll_fn, net::SocketAddr, pin::pin, task::Poll, time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Method, Response, request::Parts},
    routing::any,
};
use tollgate::{
    RateLimitLayer, RateLimiter, Timestamp,
    clock::ManualClock,
    observe::Event,
    rules::{RuleKey, Rules},
    store::LocalStore,
};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};

#[derive(Clone)]
struct User(u64);

#[derive(Clone)]
struct Plan(&'static str);

type Service = BoxCloneSyncService<Request, Response<Body>, Infallible>;

/// A service behind these rules.
pub(crate) struct Limited {
    rules: Rules,
    clock: ManualClock,
    service: Service,
}

async fn answer(_: Request) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}

/// The rules of a file.
fn rules(toml: &str) -> Rules {
    let rules = Rules::new()
        .extension("user", |user: &User| user.0)
        .extension("plan", |plan: &Plan| plan.0);
    replace(&rules, toml).unwrap();
    rules
}

fn replace(rules: &Rules, toml: &str) -> Result<(), toml::de::Error> {
    rules.replace(toml::Deserializer::parse(toml)?)
}

impl Limited {
    /// By a file of these parts.
    fn by(toml: &[&str]) -> Self {
        Self::of(rules(&toml.concat()))
    }

    pub(crate) fn of(rules: Rules) -> Self {
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let store = LocalStore::builder().clock(clock.clone()).build();
        let layer = RateLimitLayer::new(rules.clone(), store, rules.clone());
        let service = BoxCloneSyncService::new(layer.layer(service_fn(answer)));
        Self {
            rules,
            clock,
            service,
        }
    }

    pub(crate) async fn ask(&self, request: Request) -> Response<Body> {
        self.service.clone().oneshot(request).await.unwrap()
    }

    /// How many of these requests are admitted.
    async fn admitted(&self, of: u32, request: impl Fn() -> Request) -> u32 {
        let mut admitted = 0;
        for _ in 0..of {
            admitted += u32::from(self.ask(request()).await.status() == 200);
        }
        admitted
    }

    /// How many of ten requests are admitted.
    async fn of_ten(&self, method: &str, path: &str) -> u32 {
        self.admitted(10, || request(method, path)).await
    }
}

pub(crate) fn request(method: &str, path: &str) -> Request {
    from([192, 0, 2, 1], method, path)
}

fn from(address: [u8; 4], method: &str, path: &str) -> Request {
    Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .extension(SocketAddr::from((address, 4711)))
        .body(Body::empty())
        .unwrap()
}

fn with_header(name: &'static str, value: &str) -> Request {
    let mut request = request("GET", "/");
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

fn with<T: Clone + Send + Sync + 'static>(extension: T) -> Request {
    let mut request = request("GET", "/");
    request.extensions_mut().insert(extension);
    request
}

fn values_of<'a>(response: &'a Response<Body>, field: &str) -> &'a str {
    response.headers()[field].to_str().unwrap()
}

/// A rule with this name, these fields and this quota a day.
fn rule(name: &str, fields: &str, a_day: u32) -> String {
    let limit = format!("{{ algorithm = \"fixed-window\", quota = \"{a_day}/day\" }}");
    format!("[[rules]]\nname = \"{name}\"\n{fields}\nlimit = {limit}\n")
}

const EVERYONE: &str = "key = \"everyone\"";

fn routes(routes: &str) -> String {
    format!("{EVERYONE}\nroutes = {routes}")
}

#[tokio::test]
async fn the_first_rule_that_matches_applies_and_what_none_is_for_passes() {
    let users = routes(r#"["GET,DELETE /users/{id}", "/admin/{*rest}"]"#);
    let limited = Limited::by(&[
        &rule("login", &routes(r#"["POST /login"]"#), 2),
        &rule("users", &users, 3),
        &rule("versions", &routes(r#"["/v{n}/users"]"#), 1),
        &rule("writes", &routes(r#"["POST", "PUT"]"#), 4),
    ]);
    assert_eq!(limited.of_ten("POST", "/login").await, 2);
    assert_eq!(limited.of_ten("GET", "/login").await, 10);
    assert_eq!(limited.of_ten("DELETE", "/users/7").await, 3);
    assert_eq!(limited.of_ten("GET", "/users/8").await, 0);
    assert_eq!(limited.of_ten("PURGE", "/admin/a/b").await, 0);
    assert_eq!(limited.of_ten("GET", "/users/7/photo").await, 10);
    assert_eq!(limited.of_ten("GET", "/v2/users").await, 1);
    assert_eq!(limited.of_ten("GET", "/v/users").await, 10);
    assert_eq!(limited.of_ten("POST", "/users/7").await, 4);
    assert_eq!(limited.of_ten("PUT", "/").await, 0);
}

#[tokio::test]
async fn head_is_limited_as_get_is_unless_a_rule_before_is_for_it() {
    let get = rule("get", &routes(r#"["GET /"]"#), 2);
    assert_eq!(Limited::by(&[&get]).of_ten("HEAD", "/").await, 2);
    let limited = Limited::by(&[&rule("head", &routes(r#"["HEAD /"]"#), 5), &get]);
    assert_eq!(limited.of_ten("HEAD", "/").await, 5);
    assert_eq!(limited.of_ten("GET", "/").await, 2);
}

#[tokio::test]
async fn a_file_may_refuse_what_no_rule_is_for() {
    let home = rule("home", &routes(r#"["/"]"#), 100);
    let limited = Limited::by(&["unmatched = \"refuse\"\n", &home]);
    assert_eq!(limited.ask(request("GET", "/")).await.status(), 200);
    let other = limited.ask(request("GET", "/other")).await;
    assert_eq!(other.status(), 403);
}

#[tokio::test]
async fn all_rules_that_match_apply_and_none_is_charged_if_one_refuses() {
    let limited = Limited::by(&[
        "match = \"all\"\n",
        &rule("narrow", &routes(r#"["/a/{x}"]"#), 2),
        &rule("wide", EVERYONE, 5),
        &rule("other", &routes(r#"["/{x}/b"]"#), 4),
    ]);
    let response = limited.ask(request("GET", "/a/b")).await;
    let policies = values_of(&response, "ratelimit-policy");
    let names: Vec<_> = policies.split('"').skip(1).step_by(2).collect();
    assert_eq!(names, ["narrow", "wide", "other"]);
    assert_eq!(limited.of_ten("GET", "/a/c").await, 1);
    // The refused ones were charged to no rule.
    assert_eq!(limited.of_ten("GET", "/c/d").await, 3);
    assert_eq!(limited.of_ten("GET", "/c/b").await, 0);
    limited.clock.advance(Duration::from_secs(86_400));
    assert_eq!(limited.of_ten("GET", "/c/b").await, 4);
}

#[tokio::test]
async fn in_a_router_a_rule_is_for_the_route_however_a_path_is_spelled() {
    let file = [
        rule("photo", &routes(r#"["/users/{user}/photo"]"#), 2),
        rule("users", &routes(r#"["/users/{*rest}"]"#), 3),
    ];
    let rules = rules(&file.concat());
    let app: Router = Router::new()
        .route("/users/{id}/photo", any(async || ""))
        .route("/users/{id}/{*more}", any(async || ""))
        .route("/login", any(async || ""))
        .layer(RateLimitLayer::new(rules.clone(), LocalStore::new(), rules));
    let ask = async |path: &str| {
        let response = app.clone().oneshot(request("GET", path)).await.unwrap();
        response.status().as_u16()
    };
    for (path, status) in [
        ("/users/1/photo", 200),
        ("/users/%31/photo", 200),
        ("/users/2/photo", 429),
        // The router has another route for these.
        ("/users/2/%70hoto", 200),
        ("/users/1/a/b", 200),
        ("/users/1/a", 200),
        ("/users/1/b", 429),
        ("/login", 200),
    ] {
        assert_eq!(ask(path).await, status, "{path}");
    }
}

#[tokio::test]
async fn each_key_finds_whose_bucket_it_is() {
    let address = |last| from([192, 0, 2, last], "GET", "/");
    let proxied = |client: &str| {
        let mut request = from([10, 0, 0, 1], "GET", "/");
        let client = client.parse().unwrap();
        request.headers_mut().insert("x-forwarded-for", client);
        request
    };
    let (seven, header) = ("192.0.2.7", |value| with_header("x-key", value));
    let user = |number| with(User(number));
    let both = "[\"address\", { extension = \"user\" }]";
    for (key, one, other, is_same) in [
        ("\"everyone\"", address(1), address(2), true),
        ("\"address\"", address(1), address(2), false),
        ("\"address\"", address(1), address(1), true),
        ("\"client\"", proxied(seven), address(7), true),
        ("\"client\"", proxied(seven), proxied("192.0.2.8"), false),
        // What a caller of a proxy has written before is not read.
        (
            "\"client\"",
            proxied("6.6.6.6, 192.0.2.7"),
            address(7),
            true,
        ),
        ("{ header = \"x-key\" }", header("a"), header("a"), true),
        ("{ header = \"x-key\" }", header("a"), header("b"), false),
        ("{ extension = \"user\" }", user(1), user(1), true),
        ("{ extension = \"user\" }", user(1), user(2), false),
        (both, user(1), user(1), true),
        (both, user(1), user(2), false),
    ] {
        let (one, other) = (one.into_parts().0, other.into_parts().0);
        let rule = rule("r", &format!("key = {key}"), 1);
        for header in ["x-forwarded-for", "X-Forwarded-For"] {
            let proxies =
                format!("proxies = {{ header = '{header}', trusted = ['10.0.0.0/8'] }}\n");
            let limited = Limited::by(&[&proxies, &rule]);
            let ask = |of: &Parts| limited.ask(Request::from_parts(of.clone(), Body::empty()));
            assert_eq!(ask(&one).await.status(), 200);
            let is_refused = ask(&other).await.status() == 429;
            assert_eq!(is_refused, is_same, "{key}");
        }
    }
}

#[tokio::test]
async fn a_request_without_the_key_is_rejected_shares_a_bucket_or_goes_to_the_next_rule() {
    for (source, status) in [("header = \"x-key\"", 400), ("extension = \"user\"", 500)] {
        let first = |more: &str| rule("first", &format!("key = {{ {source}{more} }}"), 2);
        let of_ten = async |file: &[&str]| Limited::by(file).of_ten("GET", "/").await;
        let alone = Limited::by(&[&first("")]);
        let rejected = alone.ask(request("GET", "/")).await;
        assert_eq!(rejected.status(), status, "{source}");
        let shared = first(", missing = \"shared\"");
        assert_eq!(of_ten(&[&shared]).await, 2, "{source}");
        let next = [first(", missing = \"next\""), rule("last", EVERYONE, 3)];
        assert_eq!(of_ten(&[&next[0], &next[1]]).await, 3, "{source}");
        assert_eq!(
            of_ten(&[&first(""), "shadow = true\n"]).await,
            10,
            "{source}"
        );
    }
}

#[tokio::test]
async fn a_rule_charges_its_cost_or_that_of_the_route() {
    let fields = routes(r#"["/a", { route = "/b/{x}", cost = 5 }]"#) + "\ncost = 2";
    let limited = Limited::by(&[&rule("r", &fields, 15)]);
    assert_eq!(limited.admitted(2, || request("GET", "/b/1")).await, 2);
    assert_eq!(limited.of_ten("GET", "/a").await, 2);
    let nothing = Limited::by(&[&rule("r", &format!("{EVERYONE}\ncost = 0"), 0)]);
    assert_eq!(nothing.of_ten("GET", "/").await, 10);
}

#[tokio::test]
async fn a_rule_in_shadow_refuses_nobody_takes_nothing_from_others_and_is_told_to_the_observer() {
    let file = |matching: &str, shadow: bool| {
        [
            &format!("match = {matching:?}\n"),
            &rule("tried", &format!("{EVERYONE}\nshadow = {shadow}"), 2),
            &rule("enforced", EVERYONE, 5),
        ]
        .map(String::as_str)
        .concat()
    };
    for matching in ["first", "all"] {
        let rules = rules(&file(matching, true));
        let (told, events) = std::sync::mpsc::channel();
        let store = LocalStore::new();
        let layer = RateLimitLayer::new(rules.clone(), store, rules.clone()).observe(
            move |event: &Event<'_, RuleKey>| {
                let mut shadows = Vec::new();
                event.describe_shadows(&mut |policy, refuses| {
                    shadows.push((policy.policy().to_owned(), refuses))
                });
                told.send((format!("{:?}", event.key().unwrap()), shadows))
                    .unwrap();
            },
        );
        let service = layer.layer(service_fn(answer));
        let ask = async || service.clone().oneshot(request("GET", "/")).await.unwrap();
        for would_refuse in [false, false, true] {
            let response = ask().await;
            assert_eq!(response.status(), 200);
            assert!(!values_of(&response, "ratelimit").contains("tried"));
            let (key, shadows) = events.recv().unwrap();
            assert_eq!(key, r#"{"tried": everyone, "enforced": everyone}"#);
            assert_eq!(shadows, [("tried".to_owned(), would_refuse)]);
        }
        if matching == "all" {
            // It keeps its count.
            replace(&rules, &file(matching, false)).unwrap();
        } else {
            for _ in 3..5 {
                assert_eq!(ask().await.status(), 200);
            }
        }
        assert_eq!(ask().await.status(), 429);
    }
}

#[tokio::test]
async fn a_rule_in_shadow_neither_adds_to_the_cost_nor_refuses_what_has_not_its_key() {
    let tried = |key| {
        let fields = format!("key = {key}\nshadow = true\ncost = 3");
        rule("tried", &fields, 100)
    };
    let (api, of_header) = (rule("api", EVERYONE, 5), tried("{ header = 'x-key' }"));
    let of_ten = async |file: &[&str]| Limited::by(file).of_ten("GET", "/").await;
    assert_eq!(
        of_ten(&["match = 'all'\n", &api, &tried("'everyone'")]).await,
        5
    );
    assert_eq!(of_ten(&["unmatched = 'refuse'\n", &of_header]).await, 10);
    let first = rule("first", &format!("{EVERYONE}\nroutes = ['/']"), 5);
    for tried in [&of_header, &tried("'everyone'")] {
        // Of the enforced rules after it the first applies alone.
        let last = rule("last", EVERYONE, 2);
        assert_eq!(of_ten(&[tried, &first, &last]).await, 5);
    }
}

#[tokio::test]
async fn a_plan_is_chosen_by_a_value_of_the_request_and_the_count_goes_with_the_caller() {
    for (by, gold) in [
        ("header = \"x-plan\"", with_header("x-plan", "gold")),
        ("extension = \"plan\"", with(Plan("gold"))),
    ] {
        let a_day = |units| format!("{{ algorithm = 'fixed-window', quota = '{units}/day' }}");
        let plans = format!("{{ gold = {}, silver = {} }}", a_day(5), a_day(3));
        let plans = format!("plans = {{ by = {{ {by} }}, limits = {plans} }}");
        let limited = Limited::by(&[&rule("daily", "key = 'address'", 2), &plans]);
        assert_eq!(limited.of_ten("GET", "/").await, 2);
        let (parts, _) = gold.into_parts();
        let gold = || Request::from_parts(parts.clone(), Body::empty());
        assert_eq!(limited.admitted(10, gold).await, 3);
        // A value without a plan.
        let other = from([192, 0, 2, 9], "GET", "/");
        assert_eq!(limited.ask(other).await.status(), 200);
    }
}

#[tokio::test]
async fn no_count_is_lost_when_the_file_changes_or_is_wrong() {
    let [a, b] = [("a", "/a"), ("b", "/b")]
        .map(|(name, path)| move |a_day| rule(name, &routes(&format!("[\"{path}\"]")), a_day));
    let limited = Limited::by(&[&a(3), &b(3)]);
    assert_eq!(limited.admitted(2, || request("GET", "/a")).await, 2);
    assert_eq!(limited.admitted(1, || request("GET", "/b")).await, 1);
    for file in [
        [b(3), a(3)].concat(),
        [a(3), b(3)].concat(),
        // It disappears, and returns.
        b(3),
        [b(3), a(3)].concat(),
    ] {
        replace(&limited.rules, &file).unwrap();
    }
    replace(&limited.rules, "[[rules]]\nname = 'a'").unwrap_err();
    replace(&limited.rules, "[[rules").unwrap_err();
    assert_eq!(limited.of_ten("GET", "/a").await, 1);
    assert_eq!(limited.of_ten("GET", "/b").await, 2);
    replace(&limited.rules, &[a(7), b(0)].concat()).unwrap();
    assert_eq!(limited.of_ten("GET", "/a").await, 4);
    assert_eq!(limited.of_ten("GET", "/b").await, 0);
    // A new bucket: an algorithm does not read another algorithm's state.
    let of_a_log = a(7).replace("fixed-window", "sliding-log");
    replace(&limited.rules, &of_a_log).unwrap();
    assert_eq!(limited.of_ten("GET", "/a").await, 7);
    replace(&limited.rules, &a(9)).unwrap();
    assert_eq!(limited.of_ten("GET", "/a").await, 2);
}

#[tokio::test]
async fn the_cost_of_the_layer_multiplies_that_of_the_rule_and_the_observer_is_told() {
    let rules = rules(&rule("r", &format!("{EVERYONE}\ncost = 3"), 20));
    let (told, costs) = std::sync::mpsc::channel();
    let layer = RateLimitLayer::new(rules.clone(), LocalStore::new(), rules)
        .cost(2)
        .observe(move |event: &Event<'_, RuleKey>| told.send(event.cost()).unwrap());
    let service = layer.layer(service_fn(answer));
    let response = service.oneshot(request("GET", "/")).await.unwrap();
    assert!(values_of(&response, "ratelimit").contains(";r=14;"));
    assert_eq!(costs.recv(), Ok(6));
}

/// Two layers over one store, with rules in opposite orders: if locks were taken in the order of
/// the rules, two threads would soon deadlock.
#[test]
fn threads_get_no_more_than_one_would_whatever_the_order_of_their_rules() {
    let [a, b] = [("a", 90_000), ("b", 20_000)].map(|(name, a_day)| rule(name, EVERYONE, a_day));
    let store = LocalStore::new();
    let (told, admitted) = std::sync::mpsc::channel();
    for order in [[&*a, &b], [&*b, &a], [&*a, &b], [&*b, &a]] {
        let told = told.clone();
        let rules = rules(&format!("match = \"all\"\n{}", order.concat()));
        let layer = RateLimitLayer::new(rules.clone(), store.clone(), rules);
        let service = layer.layer(service_fn(answer));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            let mut admitted = 0;
            for _ in 0..15_000 {
                let answered = service.clone().oneshot(request("GET", "/"));
                admitted += u32::from(runtime.block_on(answered).unwrap().status() == 200);
            }
            told.send(admitted).unwrap();
        });
    }
    let of_each = [(); 4].map(|()| {
        let admitted = admitted.recv_timeout(Duration::from_secs(60));
        admitted.expect("no thread waits for another")
    });
    assert_eq!(of_each.iter().sum::<u32>(), 20_000);
}

#[tokio::test]
async fn any_number_of_limits_may_apply_to_one_request() {
    let each = (0..40).map(|number| rule(&format!("r{number}"), EVERYONE, 3 + number % 7));
    let limited = Limited::by(&["match = \"all\"\n", &each.collect::<String>()]);
    assert_eq!(limited.of_ten("GET", "/").await, 3);
}

#[test]
fn a_caller_who_is_idle_leaves_the_store() {
    let rules = rules(&rule("one", "key = 'address'", 1));
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store = LocalStore::builder().max_keys(1).clock(clock.clone());
    let store = store.build();
    let limiter = RateLimiter::new(rules.clone(), store.clone());
    for caller in 0..50 {
        let key = rules.extract(&from([192, 0, 2, caller], "GET", "/"));
        assert!(limiter.check(&key.unwrap().unwrap()).now().is_admitted());
        let usage = store.usage();
        assert_eq!((usage.keys, usage.overflow_decisions), (1, 0), "{caller}");
        clock.advance(Duration::from_secs(2 * 86_400));
    }
}

#[tokio::test]
async fn who_leaves_the_queue_of_a_rule_gives_its_turn_back() {
    let queue = "limit = { algorithm = 'leaky-bucket-queue', quota = '1/hour', capacity = 2 }";
    let limited = Limited::by(&["[[rules]]\nname = 'queue'\nkey = 'everyone'\n", queue]);
    assert_eq!(limited.ask(request("GET", "/")).await.status(), 200);
    for _ in 0..3 {
        let mut asked = pin!(limited.ask(request("GET", "/")));
        let waits = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending()));
        assert!(waits.await, "in the queue");
        assert_eq!(limited.ask(request("GET", "/")).await.status(), 429);
    }
}

#[test]
fn requests_have_the_same_key_if_they_are_charged_to_the_same_buckets() {
    let each = [("a", "key = 'address'"), ("b", EVERYONE), ("c", EVERYONE)];
    let each = each.map(|(name, key)| rule(name, key, 1));
    let rules = rules(&format!("match = \"all\"\n{}", each.concat()));
    let of = |caller, path| rules.extract(&from([192, 0, 2, caller], "GET", path));
    let key = |caller, path| of(caller, path).unwrap().unwrap();
    assert_eq!(key(1, "/"), key(1, "/x"));
    assert_ne!(key(1, "/"), key(2, "/"));
    let [b, c] = ["b", "c"].map(|name| key(1, "/").of_limit(name).unwrap());
    assert_ne!(b, c, "two limits of one caller");
    assert_eq!(b, key(2, "/").of_limit("b").unwrap());
}
