//! One bucket for everyone.

use std::convert::Infallible;

use super::KeyExtractor;

/// Charges every request to one and the same bucket, whoever sends it.
///
/// It works for requests of any type, HTTP or not. It protects what stands behind the limiter; it
/// does not keep one caller from taking what belongs to the others. Over Redis that one bucket
/// lives on one shard.
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
