use tollgate::{RateLimitLayer, rules::Rules, store::LocalStore};

#[derive(Clone)]
struct Account {
    id: u64,
    plan: &'static str,
}

fn main() -> Result<(), toml::de::Error> {
    // An outer layer, which knows the caller, puts an `Account` into the request's extensions.
    let rules = Rules::new()
        .extension("user", |account: &Account| account.id)
        .extension("plan", |account: &Account| account.plan);
    rules.replace(toml::Deserializer::parse(RULES)?)?;
    let limit = RateLimitLayer::new(rules.clone(), LocalStore::new(), rules.clone());
    let app: axum::Router = axum::Router::new().layer(limit);

    // At any time, from any thread. The old rules stay if a new file is wrong.
    let wrong = RULES.replace("50/s", "50/fortnight");
    let error = rules.replace(toml::Deserializer::parse(&wrong)?).unwrap_err();
    assert!(error.to_string().starts_with("TOML parse error at line 32, column"));
    assert!(error.message().starts_with(r#"`quota`: "50/fortnight" is not a quota"#));
    rules.replace(serde_norway::Deserializer::from_str(YAML)).unwrap();
    let _ = app;
    Ok(())
}
