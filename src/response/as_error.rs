//! The answer of a service without HTTP: an error that can be downcast.

use std::{error::Error, fmt};

use bytes::Bytes;
use http::{Response, StatusCode};

use super::{Reason, Refusal, Respond};
use crate::{decision::Decision, error::StoreErrorKind};

/// The error of a service that is limited with [`AsError`]; tower's `BoxError` is the same type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Fails a refused request with a [`RateLimited`] error, without a status code: for services
/// without HTTP.
///
/// The error of the service becomes [`BoxError`]. An error of the inner service can be downcast to
/// its own type, a refusal to [`RateLimited`], a rejection of the key extractor to [`KeyRejected`],
/// and a failure of the store to [`StoreFailed`].
///
/// # With axum
///
/// axum's services must not fail, so the compiler says "`Infallible: From<Box<..>>` is not
/// satisfied". That bound is axum's own, so the message is, too. Leave
/// `.respond_with(AsError::new())` out: [`Http`](super::Http) answers axum's requests. Or, to
/// handle the error yourself, put `axum::error_handling::HandleErrorLayer` around the limit.
///
/// # Example: a caller that waits for as long as the error says
///
/// ```
/// # use std::{convert::Infallible, time::Duration};
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Judgement, Policy, Status}};
/// use tollgate::response::{AsError, RateLimited, Reason, Refusal, Respond};
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, judgement: Judgement::RefusedForMicros(1_500_000),
/// #     replenished_after_micros: 1_500_000,
/// #     reset_after_micros: 1_500_000, delay_micros: 0,
/// # }));
/// # let refusal = Refusal::new(Reason::Limited(&decision));
/// # let answer: Result<(), _> = Respond::<u32, (), Infallible>::answer(&AsError::new(), &7, refusal);
/// let error = answer.unwrap_err();
/// let refused: &RateLimited = error.downcast_ref().unwrap();
/// assert_eq!(refused.decision().retry_after(), Some(Duration::from_millis(1_500)));
/// assert_eq!(error.to_string(), "the rate limit \"trial\" is exceeded: try again in 1.5s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsError;

impl AsError {
    /// Answers refusals with errors.
    pub const fn new() -> Self {
        Self
    }
}

impl<Req, Res, E: Into<BoxError>> Respond<Req, Res, E> for AsError {
    type Error = BoxError;

    fn answer(&self, _: &Req, refusal: Refusal<'_>) -> Result<Res, BoxError> {
        Err(match refusal.reason() {
            Reason::Limited(decision) => Box::new(RateLimited {
                decision: decision.clone(),
            }),
            Reason::Rejected(rejection) => Box::new(KeyRejected {
                rejection: rejection.clone(),
            }),
            Reason::StoreFailed(kind) => Box::new(StoreFailed { kind }),
        })
    }

    fn inner_error(error: E) -> BoxError {
        error.into()
    }
}

/// The request was refused: it is over its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimited {
    decision: Decision,
}

impl RateLimited {
    /// The decision, with the wait and the policies that refuse.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.decision.policy();
        match self.decision.retry_after() {
            Some(wait) => write!(
                f,
                "the rate limit {policy:?} is exceeded: try again in {wait:?}"
            ),
            None if !self.decision.never_fits() => {
                write!(f, "too many requests of the limit {policy:?} are in flight")
            }
            None => write!(
                f,
                "the request costs more than the rate limit {policy:?} can ever let through"
            ),
        }
    }
}

impl Error for RateLimited {}

/// The request was rejected: its key extractor found no key, and there should be one.
#[derive(Debug)]
pub struct KeyRejected {
    rejection: Response<Bytes>,
}

impl KeyRejected {
    /// The answer that an HTTP caller would have got.
    pub fn rejection(&self) -> &Response<Bytes> {
        &self.rejection
    }

    /// Its status: 400 for a missing credential, 500 for a missing peer address.
    pub fn status(&self) -> StatusCode {
        self.rejection.status()
    }
}

impl fmt::Display for KeyRejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.rejection.status();
        write!(f, "the request has no key for its rate limit ({status})")
    }
}

impl Error for KeyRejected {}

/// The request was refused because the store failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFailed {
    kind: StoreErrorKind,
}

impl StoreFailed {
    /// The kind of failure. Its cause is in the operator's log, not in this error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rate limit could not be checked")
    }
}

impl Error for StoreFailed {}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::error::StoreError;
    use crate::response::tests::{hopeless, refused_for};

    type Answer = Result<(), BoxError>;

    fn respond() -> impl Respond<u32, (), io::Error, Error = BoxError> {
        AsError::new()
    }

    fn error<E: Error + 'static>(answer: Answer) -> E {
        *answer.unwrap_err().downcast().unwrap()
    }

    #[test]
    fn a_refusal_is_an_error_with_the_decision_in_it() {
        let refused: RateLimited =
            error(respond().answer(&7, Refusal::new(Reason::Limited(&hopeless()))));
        assert_eq!(*refused.decision(), hopeless());
        assert!(
            refused
                .to_string()
                .contains("costs more than the rate limit \"api\"")
        );
        let refused = respond().answer(
            &7,
            Refusal::new(Reason::Limited(&refused_for(Duration::from_secs(3)))),
        );
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .ends_with("try again in 3s")
        );
    }

    #[test]
    fn a_rejection_is_an_error_with_the_answer_in_it() {
        let rejection = Response::builder()
            .status(400)
            .body(Bytes::from_static(b"no key"));
        let rejected: KeyRejected =
            error(respond().answer(&7, Refusal::new(Reason::Rejected(&rejection.unwrap()))));
        assert_eq!(rejected.status(), 400);
        assert_eq!(rejected.rejection().body(), "no key");
        assert!(rejected.to_string().ends_with("(400 Bad Request)"));
    }

    #[test]
    fn a_store_that_cannot_decide_is_an_error_without_its_reasons() {
        let failure = StoreError::new(StoreErrorKind::Misconfigured, "redis://s3cret");
        let failed: StoreFailed =
            error(respond().answer(&7, Refusal::new(Reason::StoreFailed(failure.kind()))));
        assert_eq!(failed.kind(), StoreErrorKind::Misconfigured);
        assert_eq!(failed.to_string(), "the rate limit could not be checked");
        assert!(!format!("{failed:?}").contains("s3cret"));
    }

    #[test]
    fn an_error_of_the_inner_service_stays_what_it_was() {
        let inner = <AsError as Respond<u32, (), io::Error>>::inner_error(io::Error::other("disk"));
        assert_eq!(inner.downcast::<io::Error>().unwrap().to_string(), "disk");
    }
}
