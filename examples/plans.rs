//! A quota for each plan: free and paid callers, a customer with a quota of its own, and callers
//! without a limit.
//!
//! A small layer looks up the caller and puts the plan into the request's extensions, and
//! `by_request` chooses the limit by it. All plans have the same name, so a caller whose plan
//! changes in the middle of the day keeps its count. (The name is a header here, which is no login:
//! behind one, take the account that it has verified, by `FromExtension`.)
//!
//! ```text
//! cargo run --example plans
//! ```

use std::{collections::HashMap, error::Error, sync::Arc, sync::RwLock};

use axum::{Router, body::Body, extract::Request, middleware, routing::get};
use http::HeaderMap;
use tollgate::algorithm::FixedWindow;
use tollgate::{Quota, RateLimitLayer};
use tollgate::{choice::by_request, key::Header, store::LocalStore};
use tower::ServiceExt;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Plan {
    Free,
    Paid,
    /// This many a day, as in the contract.
    Enterprise(u64),
    /// Our own programs.
    Internal,
}

type Accounts = Arc<RwLock<HashMap<String, Plan>>>;

/// The plan of a caller, which a real login would look up.
fn plan_of(accounts: &Accounts, headers: &HeaderMap) -> Plan {
    let name = headers.get("x-user").and_then(|name| name.to_str().ok());
    let accounts = accounts.read().expect("nobody panics while writing");
    let plan = name.and_then(|name| accounts.get(name));
    plan.copied().unwrap_or(Plan::Free)
}

fn app(accounts: Accounts) -> Router {
    let daily = |units| {
        let window = FixedWindow::new(Quota::per_day(units));
        window.from_first_request().named("daily")
    };
    let (free, paid) = (daily(2), daily(5));
    let by_plan = by_request(move |request: &Request| match request.extensions().get() {
        Some(Plan::Paid) => paid.clone(),
        Some(Plan::Enterprise(units)) => daily(*units),
        _ => free.clone(),
    });
    let limit = RateLimitLayer::new(by_plan, LocalStore::new(), Header::new("x-user"))
        .exempt(|request: &Request| request.extensions().get() == Some(&Plan::Internal));
    let login = middleware::map_request(move |mut request: Request| {
        let plan = plan_of(&accounts, request.headers());
        request.extensions_mut().insert(plan);
        async move { request }
    });
    // The layer that is added last is the outermost: it runs before the limit.
    Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit)
        .layer(login)
}

/// How many of ten requests are admitted.
async fn admitted_of_ten(app: &Router, user: &str) -> Result<u32, Box<dyn Error>> {
    let mut admitted = 0;
    for _ in 0..10 {
        let request = Request::get("/").header("x-user", user);
        let response = app.clone().oneshot(request.body(Body::empty())?).await?;
        admitted += u32::from(response.status() == 200);
    }
    println!("{user:<8}  {admitted:>2} of 10");
    Ok(admitted)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let plans = [
        ("ann", Plan::Paid),
        ("acme", Plan::Enterprise(7)),
        ("backup", Plan::Internal),
    ];
    let plans = plans.map(|(name, plan)| (name.to_owned(), plan));
    let accounts: Accounts = Arc::new(RwLock::new(HashMap::from(plans)));
    let app = app(Arc::clone(&accounts));
    for (user, admitted) in [("bob", 2), ("ann", 5), ("acme", 7), ("backup", 10)] {
        assert_eq!(admitted_of_ten(&app, user).await?, admitted);
    }

    println!("bob pays from now on, and ann no longer:");
    for (user, plan) in [("bob", Plan::Paid), ("ann", Plan::Free)] {
        let mut accounts = accounts.write().expect("nobody panics while writing");
        accounts.insert(user.to_owned(), plan);
    }
    // Two of bob's five were used before he paid. Ann has used five, which is more than two.
    assert_eq!(admitted_of_ten(&app, "bob").await?, 3);
    assert_eq!(admitted_of_ten(&app, "ann").await?, 0);
    Ok(())
}
