//! Answers, and the services that are limited.

use std::convert::Infallible;

use axum::extract;
use http::{Request, Response};
use tollgate::{
    Quota, RateLimitLayer,
    algorithm::TokenBucket,
    key::{Global, PeerIp, from_fn},
    response::AsError,
    store::LocalStore,
};
use tower::{BoxError, Layer, Service, ServiceBuilder, service_fn, util::BoxService};

fn bucket() -> TokenBucket {
    TokenBucket::new(Quota::per_second(20))
}

/// What a server asks for.
fn serve<R>(_: impl Service<R>) {}

fn not_http() {
    let limit = RateLimitLayer::new(bucket(), LocalStore::new(), Global);
    let echo = service_fn(|number: u32| async move { Ok::<u32, BoxError>(number) });
    serve::<u32>(ServiceBuilder::new().layer(limit).service(echo));
}

fn no_key_for_this_request() {
    let limit = RateLimitLayer::new(bucket(), LocalStore::new(), PeerIp::new());
    let limit = limit.respond_with(AsError::new());
    let echo = service_fn(|number: u32| async move { Ok::<u32, BoxError>(number) });
    serve::<u32>(ServiceBuilder::new().layer(limit).service(echo));
}

struct Page;

fn body_not_from_bytes() {
    let limit = RateLimitLayer::new(bucket(), LocalStore::new(), PeerIp::new());
    let pages = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Page)) });
    serve::<Request<()>>(ServiceBuilder::new().layer(limit).service(pages));
}

fn rejection_of_text_alone() {
    let _ = from_fn(
        |request: &extract::Request| match request.headers().get("x-user") {
            Some(user) => Ok(Some(user.clone())),
            None => Err("sign in first"),
        },
    );
}

fn inner_not_clone() {
    let limit = RateLimitLayer::new(bucket(), LocalStore::new(), Global);
    let limit = limit.respond_with(AsError::new());
    let connection =
        || BoxService::new(service_fn(async |number: u32| Ok::<_, Infallible>(number)));
    let _ = limit.layer(connection());
    let _ = ServiceBuilder::new().layer(limit).service(connection());
}

fn main() {}
