//! An inner service that is not `Clone`.

use std::convert::Infallible;

use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::Global, response::AsError, store::LocalStore};
use tower::{Layer, ServiceBuilder, service_fn, util::BoxService};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        Global,
    )
    .respond_with(AsError::new());
    let connection =
        || BoxService::new(service_fn(async |number: u32| Ok::<_, Infallible>(number)));
    let _ = limit.layer(connection());
    let _ = ServiceBuilder::new().layer(limit).service(connection());
}
