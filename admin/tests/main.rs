//! The program, run beside a limiter by the same rules over a real server.

use std::{fs, net::SocketAddr, path::PathBuf, process::Command};

use http::Request;
use tollgate::{RateLimiter, rules::Rules, store::RedisStore};
use tollgate_redis_tests::Server;

const RULES: &str = r#"{
    "match": "all",
    "rules": [
        {
            "name": "accounts",
            "key": { "extension": "account" },
            "limit": { "algorithm": "sliding-log", "quota": "3/day" }
        },
        {
            "name": "login",
            "routes": ["POST /login"],
            "key": ["address", { "header": "x-device" }],
            "limit": [
                { "name": "logins", "algorithm": "token-bucket", "quota": "5/day" },
                { "name": "spacing", "algorithm": "min-interval", "interval": "1us" }
            ]
        },
        {
            "name": "homes",
            "routes": ["GET /"],
            "key": { "extension": "missing", "missing": "shared" },
            "limit": { "algorithm": "gcra", "quota": "9/day" }
        },
        {
            "name": "pages",
            "routes": ["GET /pages/{page}"],
            "key": "route",
            "limit": { "algorithm": "fixed-window", "quota": "7/day" }
        }
    ]
}"#;

#[derive(Clone)]
struct Account(&'static str);

/// A service with a limiter over a server, and the program beside it.
struct Running {
    server: Server,
    rules: Rules,
    limiter: RateLimiter<Rules, RedisStore>,
    file: PathBuf,
}

impl Running {
    async fn start(name: &str) -> Self {
        let server = Server::start().await;
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&file, RULES).unwrap();
        let rules = Rules::new()
            .extension("account", |account: &Account| account.0)
            .extension("missing", |missing: &String| missing.clone());
        let mut text = serde_json::Deserializer::from_str(RULES);
        rules.replace(&mut text).unwrap();
        let store = RedisStore::builder(server.client().await);
        let store = store.prefix("shop").digest_key(&[171; 32]).build();
        Self {
            limiter: RateLimiter::new(rules.clone(), store),
            server,
            rules,
            file,
        }
    }

    /// Whether a login of this account is admitted.
    async fn login(&self, account: &'static str) -> bool {
        let request = Request::post("/login")
            .header("x-device", "phone")
            .extension(Account(account))
            .extension("192.0.2.1:4711".parse::<SocketAddr>().unwrap());
        let key = self.rules.extract(&request.body(()).unwrap());
        let decided = self.limiter.check(&key.unwrap().unwrap()).await;
        decided.unwrap().is_admitted()
    }

    /// Runs the program about a login of this account: its exit code, and what it prints.
    fn admin(&self, words: &[&str], account: &str) -> (Option<i32>, String) {
        let login = ["--request", "POST /login"];
        let is_login = !words.contains(&"--request");
        let ran = Command::new(env!("CARGO_BIN_EXE_tollgate-admin"))
            .arg(&self.file)
            .args(["--header", "x-device: phone"])
            .args(["--peer", "192.0.2.1", "--prefix", "shop"])
            .args(["--extension", &format!("account={account}")])
            .args(login.iter().filter(|_| is_login))
            .args(words)
            .env("TOLLGATE_DIGEST_KEY", "ab".repeat(32))
            .env("REDIS_URL", self.server.url())
            .output()
            .unwrap();
        let [out, err] = [ran.stdout, ran.stderr].map(|it| String::from_utf8(it).unwrap());
        (ran.status.code(), out + &err)
    }

    #[track_caller]
    fn says(&self, words: &[&str], account: &str, wanted: &str) {
        let (code, said) = self.admin(words, account);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}

#[tokio::test]
async fn a_caller_is_seen_refused_let_through_and_reset_beside_the_service() {
    let running = Running::start("beside.json").await;
    for admitted in [true, true, true, false] {
        assert_eq!(running.login("ann").await, admitted);
    }
    running.says(&["look"], "ann", ": refused for 2");
    running.says(&["look"], "ann", ", 0 of 3 left\nlogins of [192.0.2.1, ");
    running.says(&["look", "--limit", "logins"], "bob", "]: 2 of 5 left\n");
    let only = |act: &'static str, limit| [act, "--limit", limit];
    running.says(&only("reset", "accounts"), "ann", ": 3 of 3 left");
    assert!(running.login("ann").await);

    let refuse = ["refuse", "1day", "--limit", "accounts"];
    running.says(&refuse, "ann", ": refused for 2");
    assert!(!running.login("ann").await);

    let let_through = ["let-through", "2h", "--limit", "accounts"];
    running.says(&let_through, "ann", ": 3 of 3 left");
    // The other limits still count.
    for admitted in [true, false] {
        assert_eq!(running.login("ann").await, admitted);
    }
    assert!(!running.login("bob").await);
    let page = ["look", "--request", "GET /pages/{page}", "--limit", "pages"];
    running.says(&page, "ann", " bytes): 7 of 7 left");
    running.says(&only("reset", "logins"), "ann", ": 5 of 5 left");
    for admitted in [true, true, true, true, true, false] {
        assert_eq!(running.login("ann").await, admitted);
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_is_done() {
    let running = Running::start("wrong.json").await;
    let says = |words: &[&str], wanted: &str| {
        let (code, said) = running.admin(words, "ann");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(wanted), "{said}");
    };
    says(
        &["reset"],
        "several limits apply: say which with --limit: accounts, logins, spacing",
    );
    says(
        &["reset", "--limit", "uploads"],
        r#""uploads" does not apply to this request"#,
    );
    says(&["refuse", "1fortnight"], "is not a span of time");
    says(
        &["look", "--extension", "user=ann"],
        r#"no rule names "user""#,
    );
    says(&["look", "--header", "x-account ann"], "a name and a value");
    says(
        &["look", "--prefix", "shop", "--digest-key", "12"],
        "64 hexadecimal digits",
    );
    says(
        &["look", "--redis", "http://127.0.0.1"],
        "the URL of Redis is not one such as",
    );
    let at_home = ["refuse", "1h", "--request", "GET /", "--limit", "homes"];
    says(&at_home, "homes has one key for everyone");
    says(&["look", "--request", "GET /{}"], r#""/{}" is no route"#);
    running.server.kill();
    says(&["look"], "no connection to Redis");
}
