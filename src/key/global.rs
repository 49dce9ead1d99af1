//! One bucket for everyone.

use std::convert::Infallible;

use super::KeyExtractor;

/// Charges all requests to the same bucket, whoever sends them.
///
/// It works for requests of any type, HTTP or not. It protects the service behind the limit, but
/// does not protect callers from each other. Over Redis the bucket is on one node.
///
/// # Example: the requests need not be HTTP requests
///
/// ```
/// use tollgate::key::{Global, KeyExtractor};
///
/// assert_eq!(Global.extract(&7_u32), Ok(Some(())));
/// assert_eq!(Global.extract(&"a job"), Ok(Some(())));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Global;

impl<Req> KeyExtractor<Req> for Global {
    type Key = ();
    type Rejection = Infallible;

    fn extract(&self, _request: &Req) -> Result<Option<()>, Infallible> {
        Ok(Some(()))
    }
}
