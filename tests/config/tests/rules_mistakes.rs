//! Files of rules with mistakes: the error names the rule, the field and the line. And hostile
//! requests.

use std::{convert::Infallible, fmt::Write, net::SocketAddr, time::Instant};

use axum::{
    body::Body,
    extract::Request,
    http::{Method, Response},
};
use tollgate::{RateLimitLayer, rules::Rules, store::LocalStore};
use tower::{Layer, Service, ServiceExt, service_fn};

#[derive(Clone)]
struct User(u64);

fn read(toml: &str) -> Result<Rules, toml::de::Error> {
    let rules = Rules::new().extension("user", |user: &User| user.0);
    rules.replace(toml::Deserializer::parse(toml)?)?;
    Ok(rules)
}

/// The line that an error names, and its message.
fn mistake(toml: &str) -> (usize, String) {
    let error = read(toml).err();
    let error = error.unwrap_or_else(|| panic!("{toml} was read"));
    let printed = error.to_string();
    let line = printed
        .split("at line ")
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    let line = line.map(|line| line.parse().unwrap()).unwrap_or_default();
    (line, error.message().to_owned())
}

const LIMIT: &str = "limit = { algorithm = 'sliding-log', quota = '1/s' }\n";

/// A good rule of four lines, then one with this name and these lines.
fn second(lines: &str) -> String {
    format!(
        "[[rules]]\nname = 'good'\nroutes = '/good'\nkey = 'address'\n{LIMIT}\
         [[rules]]\nname = 'bad'\n{lines}"
    )
}

/// The message about a rule with these lines after its name, and the line that it names.
fn said(lines: &str) -> (usize, String) {
    let (line, message) = mistake(&second(lines));
    // TOML yields the fields of a map in alphabetical order: `key` and `limit` before `name`.
    let message = message
        .strip_prefix("rule 2: ")
        .or(message.strip_prefix("rule 2 (`bad`): "));
    let message = message.unwrap_or_else(|| panic!("{:?}", mistake(&second(lines))));
    // The rule begins in line 6, and these in line 8.
    (line, message.to_owned())
}

#[test]
fn a_file_without_rules_is_an_error_and_the_rules_of_before_stay() {
    let rules = read(&second(
        "routes = '/bad'\nkey = 'address'\nlimit = { algorithm = 'sliding-log', quota = '1/s' }",
    ))
    .unwrap();
    let before = format!("{rules:?}");
    for empty in ["", "# nothing yet", "rules = []", "unmatched = 'refuse'"] {
        let error = toml::Deserializer::parse(empty).and_then(|file| rules.replace(file));
        let message = error.unwrap_err().message().to_owned();
        assert!(message.contains("at least one of `rules`"), "{message}");
        assert_eq!(format!("{rules:?}"), before);
    }
}

#[test]
fn a_mistake_is_told_with_its_rule_and_line() {
    let good = format!("key = 'address'\n{LIMIT}");
    for (lines, line, message) in [
        (format!("keys = 'address'\n{good}"), 8, "`keys` is not a field of a rule, which has `name`, `routes`, `key`, `cost`, `shadow`, `limit`, `plans`"),
        (LIMIT.to_owned(), 6, "`key` is missing, such as \"address\""),
        ("key = 'address'\n".to_owned(), 6, "`limit` is missing"),
        (format!("{good}cost = -1\n"), 10, ""),
        (format!("{good}cost = 4294967296\n"), 6, "`cost`: 4294967296 is too large"),
        (format!("routes = 'POSTT /x'\n{good}"), 8, "`routes`: \"POSTT\" is not a method of HTTP, such as \"GET\""),
        (format!("routes = ['/a', 'post /x']\n{good}"), 8, "`routes`: \"post\" is not a method of HTTP, such as \"GET\""),
        (format!("routes = ['GET x']\n{good}"), 8, "`routes`: the path \"x\" does not begin with \"/\""),
        (format!("routes = ['/{{a']\n{good}"), 8, "`routes`: \"/{a\" is not a pattern of paths"),
        (format!("routes = ['/{{*a}}/b']\n{good}"), 8, "`routes`: \"/{*a}/b\" is not a pattern of paths"),
        (format!("routes = []\n{good}"), 6, "`routes` is empty: leave it out for every request"),
        (format!("{good}routes = [{{ path = '/' }}]\n"), 10, "`path` is not a field of a route, which has `route` and `cost`, each once"),
        (format!("key = {{ extension = 'users' }}\n{LIMIT}"), 8, "`extension` is \"users\", which the program does not register (it registers `user`)"),
        (format!("key = {{ header = 'a b' }}\n{LIMIT}"), 8, "`header`: \"a b\" is not a header name"),
        (format!("key = {{ header = 'a', extension = 'user' }}\n{LIMIT}"), 8, "`key` needs `header` or `extension`, one of the two"),
        (format!("key = {{ header = 'a', missing = 'pass' }}\n{LIMIT}"), 8, "`missing` is \"pass\", but must be \"reject\", \"next\" or \"shared\""),
        (format!("key = 'client'\n{LIMIT}"), 8, "`key` is \"client\", which needs `proxies` before the rules"),
        ("key = 'address'\nlimit = { quota = '1/s' }\n".to_owned(), 9, "the limit needs `algorithm`, one of \"token-bucket\""),
        ("key = 'address'\nlimit = { algorithm = 'tocken', quota = '1/s' }\n".to_owned(), 9, "`algorithm` is \"tocken\", and not one of \"token-bucket\""),
        ("key = 'address'\nlimit = { algorithm = 'in-flight', requests = 5 }\n".to_owned(), 9, "`algorithm` is \"in-flight\", which needs a layer of its own"),
        ("key = 'address'\nlimit = { algorithm = 'sliding-log', quota = '1/fortnight' }\n".to_owned(), 9, "`quota`: \"1/fortnight\" is not a quota"),
        ("key = 'address'\nlimit = { algorithm = 'sliding-log', quota = '1/s', burst = 2 }\n".to_owned(), 9, "`burst` is not a field of a sliding-log"),
        ("key = 'address'\nlimit = []\n".to_owned(), 6, "`limit` has 0 limits, but must have 1 to 16"),
        ("key = 'address'\nlimit = [{ algorithm = 'sliding-log', quota = '1/s' }, { algorithm = 'gcra', quota = '1/s' }]\n".to_owned(), 6, "each of several limits needs a `name`"),
        ("key = 'address'\nlimit = { algorithm = 'sliding-log', quota = '1/s', name = 'good' }\n".to_owned(), 6, "another rule or limit has the name `good`"),
        ("key = 'address'\nlimit = { algorithm = 'sliding-log', quota = '1/s', name = 'a b' }\n".to_owned(), 6, "the policy name \"a b\" is not 1 to 64 of the characters"),
        (format!("{good}plans = {{ by = {{ header = 'p' }} }}\n"), 10, "`plans` needs `by` and `limits`"),
        (format!("{good}plans = {{ by = {{ header = 'p' }}, limits = {{ gold = {{ algorithm = 'gcra', quota = 'x' }} }} }}\n"), 10, "plan `gold`: `quota`: \"x\" is not a quota"),
        (format!("routes = 'GET /good'\n{good}"), 6, "it can never match: earlier rules, such as rule 1, match all of its requests"),
    ] {
        if message.is_empty() {
            let (at, told) = mistake(&second(&lines));
            assert!(at == line && told.contains("rule 2: `cost` to be a whole number"), "{at} {told}");
            continue;
        }
        let (at, told) = said(&lines);
        assert!(told.starts_with(message), "{told}\n{message}");
        assert_eq!(at, line, "{lines}: {told}");
    }
}

#[test]
fn a_name_that_is_there_twice_is_told_and_so_is_what_stands_outside_of_the_rules() {
    let good = format!("key = 'address'\n{LIMIT}");
    let twice =
        format!("[[rules]]\nname = 'a'\nroutes = '/a'\n{good}[[rules]]\nname = 'a'\n{good}");
    let (line, told) = mistake(&twice);
    assert_eq!(
        (line, &*told),
        (6, "rule 2 (`a`): another rule or limit has this name")
    );
    for (file, message) in [
        ("match = 'best'\n", "`match` must be \"first\" or \"all\""),
        (
            "unmatched = 'drop'\n",
            "`unmatched` must be \"pass\" or \"refuse\"",
        ),
        (
            "rule = []\n",
            "`rule` is not a field of a file of rules, which has `match`, `unmatched`, `proxies`, `rules`",
        ),
        (
            "proxies = { header = 'forwarded', trusted = ['10.0.0.0/33'] }\n",
            "`proxies`: \"10.0.0.0/33\" is not a CIDR block",
        ),
        (
            "proxies = { header = 'forwarded', trusted = ['0.0.0.0/0'] }\n",
            "`proxies`: ",
        ),
        ("proxies = { header = 'forwarded' }\n", "`proxies`: "),
        (
            "proxies = { trusted = ['10.0.0.0/8'] }\n",
            "`proxies` needs `header`",
        ),
        (
            "rules = 7\n",
            "invalid type: integer `7`, expected `rules` to be a list",
        ),
    ] {
        let (_, told) = mistake(file);
        assert!(told.starts_with(message), "{told}\n{message}");
    }
}

#[test]
fn a_rule_that_can_never_match_is_found_and_one_that_can_is_not() {
    let rule = |name: &str, routes: &str, key: &str| {
        format!("[[rules]]\nname = '{name}'\n{routes}\nkey = {key}\n{LIMIT}")
    };
    let two = |first: &str, key: &str, second: &str| {
        [
            rule("first", first, key),
            rule("second", second, "'address'"),
        ]
        .concat()
    };
    for (first, second) in [
        ("", "routes = 'GET /x'"),
        ("routes = '/{a}'", "routes = '/x'"),
        ("routes = '/{a}'", "routes = '/{b}'"),
        (
            "routes = '/a/{*rest}'",
            "routes = ['/a/b', 'POST /a/{x}/{*y}']",
        ),
        (
            "routes = ['GET /x', '/y']",
            "routes = ['HEAD /x', 'PUT,POST /y']",
        ),
    ] {
        let (_, told) = mistake(&two(first, "'address'", second));
        assert!(
            told.contains("it can never match: earlier rules, such as rule 1,"),
            "{told}"
        );
        if second != "routes = '/{b}'" {
            read(&two(second, "'address'", first)).unwrap();
        }
        read(&two(first, "{ header = 'x', missing = 'next' }", second)).unwrap();
        read(&format!(
            "match = 'all'\n{}",
            two(first, "'address'", second)
        ))
        .unwrap();
    }
    for (first, second) in [
        ("routes = '/x'", "routes = '/{a}'"),
        ("routes = '/{a}'", "routes = '/'"),
        ("routes = '/a/{*rest}'", "routes = '/a/'"),
        ("routes = '/a/{*rest}'", "routes = '/a'"),
        ("routes = '/a/{b}'", "routes = '/a/{*rest}'"),
        ("routes = 'GET /x'", "routes = '/x'"),
        ("routes = 'HEAD /x'", "routes = 'GET /x'"),
        (
            "routes = 'GET,POST,PUT,DELETE,PATCH,OPTIONS,CONNECT,TRACE'",
            "routes = '/x'",
        ),
        ("routes = '/x'", "routes = ['/x', '/y']"),
    ] {
        read(&two(first, "'address'", second)).unwrap();
    }
}

#[test]
fn a_file_by_which_too_many_limits_would_apply_to_one_request_is_refused() {
    let rules = |count: u32, routes: &str| {
        (0..count).fold("match = 'all'\n".to_owned(), |mut file, number| {
            let _ = write!(
                file,
                "[[rules]]\nname = 'r{number}'\nroutes = '{routes}'\nkey = 'address'\n{LIMIT}"
            );
            file
        })
    };
    for routes in ["/x", "/{x}", "GET"] {
        read(&rules(16, routes)).unwrap();
        let (_, told) = mistake(&rules(17, routes));
        assert_eq!(
            told,
            "up to 17 limits would apply to one request, more than 16"
        );
    }
}

#[test]
fn the_same_is_read_and_said_in_yaml_and_json() {
    let yaml = "\
proxies:
  header: x-forwarded-for
  trusted: [10.0.0.0/8]
rules:
  - name: search
    routes: [GET /search]
    key: [client, { extension: user }]
    limit: { algorithm: token-bucket, quota: 20/s, burst: 40 }
  - name: everything
    key: everyone
    shadow: true
    limit:
      - { name: burst, algorithm: gcra, quota: 100/s }
      - { name: day, algorithm: fixed-window, quota: 100000/day }
";
    let rules = Rules::new().extension("user", |user: &User| user.0);
    rules
        .replace(serde_norway::Deserializer::from_str(yaml))
        .unwrap();
    assert_eq!(format!("{rules:?}"), r#"Rules(["search", "burst", "day"])"#);
    let wrong = yaml.replace("100/s", "100/year");
    let error = rules
        .replace(serde_norway::Deserializer::from_str(&wrong))
        .unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("rule 2 (`everything`): `quota`: \"100/year\" is not a quota"),
        "{told}"
    );
    assert!(told.contains("line 13"), "{told}");
    let late = "rules: []\nmatch: all\n";
    let error = rules
        .replace(serde_norway::Deserializer::from_str(late))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`match` must come before the rules"),
        "{error}"
    );
    assert_eq!(format!("{rules:?}"), r#"Rules(["search", "burst", "day"])"#);

    let json = r#"{"rules":[{"name":"a","name":"b"}]}"#;
    let error = rules
        .replace(&mut serde_json::Deserializer::from_str(json))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "rule 1 (`a`): `name` is given twice at line 1 column 28"
    );
}

async fn answer(_: Request) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}

fn service(
    rules: &Rules,
) -> impl Service<Request, Response = Response<Body>, Error = Infallible> + Clone {
    let layer = RateLimitLayer::new(rules.clone(), LocalStore::new(), rules.clone());
    layer.layer(service_fn(answer))
}

fn request(method: Method, path: &str) -> Request {
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    let request = Request::builder().method(method).uri(path).extension(peer);
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn ten_thousand_rules_are_read_and_found() {
    let mut file = String::new();
    for number in 0..5_000 {
        for route in [format!("/r{number}"), format!("/r{number}/{{id}}")] {
            let _ = write!(
                file,
                "[[rules]]\nname = '{}'\nroutes = '{route}'\nkey = 'address'\n{LIMIT}",
                route.replace(['/', '{', '}'], ".")
            );
        }
    }
    let begun = Instant::now();
    let rules = read(&file).unwrap();
    // A quadratic reader would take minutes.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    let service = service(&rules);
    for path in ["/r0", "/r4999", "/r4999/7"] {
        for status in [200, 429] {
            let response = service
                .clone()
                .oneshot(request(Method::GET, path))
                .await
                .unwrap();
            assert_eq!(response.status(), status, "{path}");
        }
    }
}

#[tokio::test]
async fn a_path_of_100_kb_and_a_zero_quota_do_what_they_say() {
    let rules = read(
        "[[rules]]\nname = 'none'\nroutes = '/none'\nkey = 'address'\n\
         limit = { algorithm = 'token-bucket', quota = '0/s' }\n\
         [[rules]]\nname = 'deep'\nroutes = ['/a/{*rest}', '/{x}/{y}']\nkey = 'address'\n\
         limit = { algorithm = 'fixed-window', quota = '2/day' }\n",
    )
    .unwrap();
    let service = service(&rules);
    let ask = async |path: &str| {
        let response = service
            .clone()
            .oneshot(request(Method::GET, path))
            .await
            .unwrap();
        response.status().as_u16()
    };
    assert_eq!(ask("/none").await, 429);
    let deep = "/a".repeat(30_000);
    assert_eq!(
        [ask(&deep).await, ask("/x/y").await, ask(&deep).await],
        [200, 200, 429]
    );
    assert_eq!(ask(&"/b".repeat(30_000)).await, 200);
}
