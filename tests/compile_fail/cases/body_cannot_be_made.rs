//! A service whose response body cannot be made from bytes.

use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::Global, store::LocalStore};
use tower::{Layer, Service, service_fn};

struct FileBody;

fn serve<S: Service<http::Request<()>>>(_: S) {}

fn main() {
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_second(5)), LocalStore::new(), Global);
    let service = limit.layer(service_fn(|_: http::Request<()>| async {
        Ok::<_, std::io::Error>(http::Response::new(FileBody))
    }));
    serve(service);
}
