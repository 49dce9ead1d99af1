//! Files of rules with mistakes: the error names the line, or the rule and the field. And hostile
//! requests.

use tollgate::rules::Rules;

use crate::rules::{Limited, request};

#[derive(Clone)]
struct User(u64);

fn read(toml: &str) -> Result<Rules, toml::de::Error> {
    let rules = Rules::new().extension("user", |user: &User| user.0);
    rules.replace(toml::Deserializer::parse(toml)?)?;
    Ok(rules)
}

/// The message of an error, and before it the line if it names one.
pub(crate) fn mistake(toml: &str) -> String {
    let error = read(toml).err();
    let error = error.unwrap_or_else(|| panic!("{toml} was read"));
    match error.span() {
        Some(place) => {
            let line = 1 + toml[..place.start].matches('\n').count();
            format!("line {line}: {}", error.message())
        }
        None => error.message().to_owned(),
    }
}

pub(crate) const LIMIT: &str = "limit = { algorithm = 'sliding-log', quota = '1/s' }\n";

/// A rule of this name, which is for these routes.
fn rule(name: &str, routes: &str) -> String {
    format!("[[rules]]\nname = '{name}'\nroutes = {routes}\nkey = 'address'\n{LIMIT}")
}

/// A rule in which nothing is wrong.
pub(crate) const GOOD: &str = "[[rules]]\nname = 'good'\nroutes = '/good'\nkey = 'address'\n\
    limit = { algorithm = 'sliding-log', quota = '1/s' }\n";

#[test]
fn a_file_without_rules_is_an_error_and_the_rules_of_before_stay() {
    let rules = read(GOOD).unwrap();
    let before = format!("{rules:?}");
    for empty in ["", "# nothing yet", "rules = []", "unmatched = 'refuse'"] {
        let error = toml::Deserializer::parse(empty).and_then(|file| rules.replace(file));
        let message = error.unwrap_err().message().to_owned();
        assert!(message.contains("at least one of `rules`"), "{message}");
        assert_eq!(format!("{rules:?}"), before);
    }
}

#[test]
fn a_rule_that_can_never_match_is_found_and_one_that_can_is_not() {
    let rule = |name: &str, routes: &str, key: &str| {
        format!("[[rules]]\nname = '{name}'\n{routes}\nkey = {key}\n{LIMIT}")
    };
    let two = |first: &str, key: &str, second: &str| {
        rule("first", first, key) + &rule("second", second, "'address'")
    };
    for (first, second) in [
        ("", "'GET /x'"),
        ("routes = '/{a}'", "'/x'"),
        ("routes = '/{a}'", "'/{b}'"),
        ("routes = '/{a}'", "'/v{n}'"),
        ("routes = '/v{n}'", "'/v1'"),
        ("routes = '/a/{*rest}'", "['/a/b', 'POST /a/{x}/{*y}']"),
        ("routes = ['GET /x', '/y']", "['HEAD /x', 'PUT,POST /y']"),
    ] {
        let second = format!("routes = {second}");
        let told = mistake(&two(first, "'address'", &second));
        let never = "it can never match: earlier rules, such as rule 1,";
        assert!(told.contains(never), "{told}");
        if second != "routes = '/{b}'" {
            read(&two(&second, "'address'", first)).unwrap();
        }
        read(&two(first, "{ header = 'x', missing = 'next' }", &second)).unwrap();
        read(&two(
            &format!("{first}\nshadow = true"),
            "'address'",
            &second,
        ))
        .unwrap();
        let all = two(first, "'address'", &second);
        read(&format!("match = 'all'\n{all}")).unwrap();
    }
    let methods = "GET,POST,PUT,DELETE,PATCH,OPTIONS,CONNECT,TRACE";
    for (first, second) in [
        ("/x", "'/{a}'"),
        ("/{a}", "'/'"),
        ("/v{n}", "['/v', '/{a}', '/w{n}']"),
        ("/a/{*rest}", "['/a', '/a/']"),
        ("/a/{b}", "'/a/{*rest}'"),
        ("/a/{b}/{c}/", "'/a/{*rest}'"),
        ("//", "'/{*rest}'"),
        ("GET /x", "'/x'"),
        ("HEAD /x", "'GET /x'"),
        (methods, "'/x'"),
        ("/x", "['/x', '/y']"),
    ] {
        let (first, second) = (format!("routes = '{first}'"), format!("routes = {second}"));
        read(&two(&first, "'address'", &second)).unwrap();
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
    let read = |yaml: &str| rules.replace(serde_norway::Deserializer::from_str(yaml));
    read(yaml).unwrap();
    let wrong = yaml.replace("100/s", "100/year");
    for (wrong, message) in [
        (&wrong, "`quota`: \"100/year\" is not a quota"),
        (&wrong, "line 13"),
        (&format!("{yaml}matches: all\n"), "unknown field `matches`"),
    ] {
        let told = read(wrong).unwrap_err().to_string();
        assert!(told.contains(message), "{told}");
        assert_eq!(format!("{rules:?}"), r#"Rules(["search", "burst", "day"])"#);
    }

    let limit = r#"{"algorithm":"gcra","quota":"1/s"}"#;
    let plans = format!(r#"{{"by":{{"header":"plan"}},"limits":{{"a":{limit},"a":{limit}}}}}"#);
    for (rule, field) in [
        (r#""name":"b""#, "name"),
        (r#""limit":{"quota":"1/s","quota":"9/s"}"#, "quota"),
        (&format!(r#""limit":{limit},"plans":{plans}"#), "a"),
    ] {
        let json = format!(r#"{{"rules":[{{"name":"a","key":"everyone",{rule}}}]}}"#);
        let error = rules.replace(&mut serde_json::Deserializer::from_str(&json));
        let told = error.unwrap_err().to_string();
        let message = format!("duplicate field `{field}`");
        assert!(told.starts_with(&message), "{told}");
    }
}

/// What these rules answer to a `GET` of each of these paths, in turn.
async fn statuses(rules: Rules, paths: &[&str]) -> Vec<u16> {
    let limited = Limited::of(rules);
    let mut statuses = Vec::new();
    for path in paths {
        let answer = limited.ask(request("GET", path)).await;
        statuses.push(answer.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn a_thousand_rules_are_read_and_found() {
    let two = |number: u32| {
        let of_both = |begin: &str, end: &str| rule(&format!("{begin}{number}"), end);
        of_both("a", &format!("'/r{number}'")) + &of_both("b", &format!("'/r{number}/{{id}}'"))
    };
    let file: String = (0..500).map(two).collect();
    let rules = read(&file).unwrap();
    let paths = ["/r0", "/r0", "/r499", "/r499", "/r499/7", "/r499/7"];
    let expected = [200, 429, 200, 429, 200, 429];
    assert_eq!(statuses(rules, &paths).await, expected);
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
    let [deep, wide] = ["/a", "/b"].map(|part| part.repeat(30_000));
    let paths = ["/none", &deep, "/x/y", &deep, &wide];
    assert_eq!(statuses(rules, &paths).await, [429, 200, 200, 429, 200]);
}
