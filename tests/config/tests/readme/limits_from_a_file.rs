use serde::Deserialize;
use tollgate::algorithm::{FixedWindow, MinInterval, TokenBucket};
use tollgate::{LocalRateLimiter, RateLimiter, store::LocalStore};

#[derive(Deserialize)]
struct Limits {
    api: TokenBucket,
    login: (MinInterval, FixedWindow),
}

fn main() -> Result<(), toml::de::Error> {
    let limits: Limits = toml::from_str(
        r#"
        [api]
        algorithm = "token-bucket"
        quota = "20/s"
        burst = 40
        name = "api"

        [[login]]
        algorithm = "min-interval"
        interval = "500ms"
        name = "login-spacing"

        [[login]]
        algorithm = "fixed-window"
        quota = "100/day"
        name = "login-daily"
        "#,
    )?;
    let api: LocalRateLimiter<_, String> = RateLimiter::new(limits.api, LocalStore::new());
    let login: LocalRateLimiter<_, String> = RateLimiter::new(limits.login, LocalStore::new());
    let _ = (api, login); // or a `RateLimitLayer` of each

    let mistake = toml::from_str::<TokenBucket>(r#"quota = "20/fortnight""#).err().unwrap();
    assert!(mistake.message().starts_with(r#"`quota`: "20/fortnight" is not a quota, such as "20/s""#));
    Ok(())
}
