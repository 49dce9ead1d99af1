//! The answers: what a refused caller is told, and what an admitted one sees.

use bytes::Bytes;
use http::Response;

use crate::{decision::Decision, error::StoreError};

/// Turns decisions into answers of the service's own type.
pub trait Respond<Req, Res, Err> {
    /// The error of the limited service.
    type Error;

    /// The answer to a request that was refused. `Ok` is a response, `Err` an error of the service.
    ///
    /// # Errors
    ///
    /// Where refusals are told as errors.
    fn refuse(&self, request: &Req, decision: Decision) -> Result<Res, Self::Error>;

    /// The answer to a request whose key extractor rejected it.
    ///
    /// # Errors
    ///
    /// Where rejections are told as errors.
    fn reject(&self, request: &Req, rejection: Response<Bytes>) -> Result<Res, Self::Error>;

    /// The answer to a request that the store could not decide about, and that is not let through.
    ///
    /// # Errors
    ///
    /// Where failures are told as errors.
    fn unavailable(&self, request: &Req, error: &StoreError) -> Result<Res, Self::Error>;

    /// An error of the inner service, as one of the limited service.
    fn inner_error(&self, error: Err) -> Self::Error;

    /// Whether [`annotate`](Self::annotate) has anything to add; if not, an admitted request's decision is never made up.
    #[inline]
    fn annotates(&self) -> bool {
        false
    }

    /// Adds to the response of an admitted request what its caller should know.
    #[inline]
    fn annotate(&self, decision: &Decision, response: &mut Res) {
        let _ = (decision, response);
    }
}
