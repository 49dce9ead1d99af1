//! A response body that cannot be made from bytes, so no refusal can be written in it.

use std::convert::Infallible;

use http::{Request, Response};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};
use tower::{Service, ServiceBuilder, service_fn};

struct Page;

/// What a server asks for.
fn serve(_: impl Service<Request<()>>) {}

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        PeerIp::new(),
    );
    let pages = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Page)) });
    let service = ServiceBuilder::new().layer(limit).service(pages);
    serve(service);
}
