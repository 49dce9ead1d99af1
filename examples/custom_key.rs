//! A key of your own: one bucket for each tenant, found by the host name that the request is for.
//!
//! Only known hosts have a bucket. A caller that makes up a host gets no fresh bucket, but an
//! answer of this program's choice. Over Redis such a key is a `PortableKey`, too: one method,
//! which says what its bytes are (`self.0.write_to(parts)`).
//!
//! ```text
//! cargo run --example custom_key
//! ```

use std::{collections::HashMap, error::Error, sync::Arc};

use axum::{Router, body::Body, routing::get};
use bytes::Bytes;
use http::{Request, Response, header::HOST};
use tollgate::key::{KeyExtractor, Rejection};
use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, store::LocalStore};
use tower::ServiceExt;

/// The tenants, by host name.
#[derive(Clone)]
struct ByTenant(Arc<HashMap<&'static str, TenantId>>);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TenantId(u32);

impl<B> KeyExtractor<Request<B>> for ByTenant {
    type Key = TenantId;
    type Rejection = NoSuchTenant;

    fn extract(&self, request: &Request<B>) -> Result<Option<TenantId>, NoSuchTenant> {
        let host = request
            .headers()
            .get(HOST)
            .and_then(|host| host.to_str().ok());
        let tenant = host.and_then(|host| self.0.get(&*host.to_ascii_lowercase()));
        tenant.copied().map(Some).ok_or(NoSuchTenant)
    }
}

/// The answer to a request for an unknown host: 421 Misdirected Request.
///
/// (A `StatusCode` alone, or with a text, is a rejection too; a type of your own can do more.)
struct NoSuchTenant;

impl Rejection for NoSuchTenant {
    fn into_response(self) -> Response<Bytes> {
        let response = Response::builder()
            .status(421)
            .header("cache-control", "no-store");
        let body = Bytes::from_static(b"nobody lives here\n");
        response.body(body).expect("the parts are fixed and valid")
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Two host names of one tenant give the same key, so they share a bucket.
    let tenants = HashMap::from([
        ("acme.example", TenantId(1)),
        ("www.acme.example", TenantId(1)),
        ("umbrella.example", TenantId(2)),
    ]);
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_hour(2)),
        LocalStore::new(),
        ByTenant(Arc::new(tenants)),
    );
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit);

    for (host, status) in [
        ("acme.example", 200),
        ("WWW.Acme.example", 200),
        ("acme.example", 429),
        ("umbrella.example", 200),
        ("made-up.example", 421),
    ] {
        let request = Request::get("/").header(HOST, host).body(Body::empty())?;
        let response = app.clone().oneshot(request).await?;
        println!("{host:<17} {}", response.status());
        assert_eq!(response.status(), status);
    }
    Ok(())
}
