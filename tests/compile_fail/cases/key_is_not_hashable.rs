//! An extractor whose key has no `Hash` and no `Eq`.

use std::convert::Infallible;
use tollgate::key::KeyExtractor;

#[derive(Clone)]
struct Tenant(String);

struct ByTenant;

impl KeyExtractor<axum::extract::Request> for ByTenant {
    type Key = Tenant;
    type Rejection = Infallible;

    fn extract(&self, _: &axum::extract::Request) -> Result<Option<Tenant>, Infallible> {
        Ok(Some(Tenant(String::new())))
    }
}

fn main() {}
