//! The answer of a service without HTTP: an error that can be downcast.

use std::{error::Error, fmt};

use bytes::Bytes;
use http::Response;

use super::{Reason, Refusal, Respond};
use crate::{decision::Decision, error::StoreErrorKind};

/// The error of a service that is limited with [`AsError`]; tower's `BoxError` is the same type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Fails a refused request with a [`Refused`] error, without a status code: for services without
/// HTTP.
///
/// The error of the service becomes [`BoxError`]. It can be downcast: an error of the inner service
/// to its own type, any other to [`Refused`], which says why.
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
/// use tollgate::response::{AsError, Reason, Refusal, Refused, Respond};
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
/// let refused: &Refused = error.downcast_ref().unwrap();
/// let decision = refused.decision().expect("it is over its limit");
/// assert_eq!(decision.retry_after(), Some(Duration::from_millis(1_500)));
/// assert_eq!(error.to_string(), "The rate limit is exceeded. Try again in 2 seconds.");
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
        Err(Box::new(match refusal.reason() {
            Reason::Limited(decision) => Refused::Limited(decision.clone()),
            Reason::Rejected(rejection) => Refused::Rejected(rejection.clone()),
            Reason::StoreFailed(kind) => Refused::StoreFailed(kind),
        }))
    }

    fn inner_error(error: E) -> BoxError {
        error.into()
    }
}

/// Why a request did not reach the inner service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refused {
    /// It is over its limit: the decision has the wait and the policies that refuse.
    Limited(Decision),
    /// It has no key and must have one: the answer that an HTTP caller would have got, with 400 for
    /// a missing credential and 500 for a missing peer address.
    Rejected(Response<Bytes>),
    /// The store could not decide about it. The cause is in the operator's log, not in this error.
    StoreFailed(StoreErrorKind),
}

impl Refused {
    /// The decision, if the request is over its limit.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Limited(decision) => Some(decision),
            Self::Rejected(_) | Self::StoreFailed(_) => None,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Self::Limited(decision) => Reason::Limited(decision),
            Self::Rejected(rejection) => Reason::Rejected(rejection),
            Self::StoreFailed(kind) => Reason::StoreFailed(*kind),
        };
        f.write_str(&Refusal::new(reason).message())
    }
}

impl Error for Refused {}

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
        let refused: Refused =
            error(respond().answer(&7, Refusal::new(Reason::Limited(&hopeless()))));
        assert_eq!(refused.decision(), Some(&hopeless()));
        assert!(refused.to_string().starts_with("The request costs more"));
        let refused = respond().answer(
            &7,
            Refusal::new(Reason::Limited(&refused_for(Duration::from_secs(3)))),
        );
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .ends_with("Try again in 3 seconds.")
        );
    }

    #[test]
    fn a_rejection_is_an_error_with_the_answer_in_it() {
        let rejection = Response::builder()
            .status(400)
            .body(Bytes::from_static(b"no key"));
        let rejected: Refused =
            error(respond().answer(&7, Refusal::new(Reason::Rejected(&rejection.unwrap()))));
        assert_eq!(rejected.to_string(), "Bad Request");
        assert_eq!(rejected.decision(), None);
        let Refused::Rejected(rejection) = rejected else {
            panic!("{rejected:?}");
        };
        assert_eq!(
            (rejection.status().as_u16(), &rejection.body()[..]),
            (400, &b"no key"[..])
        );
    }

    #[test]
    fn a_store_that_cannot_decide_is_an_error_without_its_reasons() {
        let failure = StoreError::new(StoreErrorKind::Misconfigured, "redis://s3cret");
        let failed: Refused =
            error(respond().answer(&7, Refusal::new(Reason::StoreFailed(failure.kind()))));
        assert!(matches!(
            failed,
            Refused::StoreFailed(StoreErrorKind::Misconfigured)
        ));
        assert_eq!(failed.to_string(), "The request could not be counted.");
        assert!(!format!("{failed:?}").contains("s3cret"));
    }

    #[test]
    fn an_error_of_the_inner_service_stays_what_it_was() {
        let inner = <AsError as Respond<u32, (), io::Error>>::inner_error(io::Error::other("disk"));
        assert_eq!(inner.downcast::<io::Error>().unwrap().to_string(), "disk");
    }
}
