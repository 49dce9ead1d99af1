//! What happens to a request that the store could not decide about.

use crate::error::{StoreError, StoreErrorKind};

/// What happens to a request while the store is unavailable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// It is refused: 503, gRPC `UNAVAILABLE`. The default.
    #[default]
    Refuse,
    /// It is let through, uncounted and without rate-limit fields.
    Admit,
}

/// Chooses what happens to a request while the store is unavailable.
///
/// An [`OnStoreError`] is one, and so is a closure `|error: &StoreError| …` that answers one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what becomes of a request while the store is unavailable",
    label = "no choice between `OnStoreError::Refuse` and `OnStoreError::Admit`",
    note = "use one of the two, or a closure: `|error: &StoreError| OnStoreError::Refuse`"
)]
pub trait HandleStoreError {
    /// The choice. It is asked for [`StoreErrorKind::Unavailable`] only: a store that is set up
    /// wrongly, or a request that cannot be stored, is always refused, or callers could choose
    /// to be let through.
    fn handle(&self, error: &StoreError) -> OnStoreError;
}

impl HandleStoreError for OnStoreError {
    fn handle(&self, _error: &StoreError) -> OnStoreError {
        *self
    }
}

// Without this the compiler would say "expected a closure" of every type that is not one.
#[diagnostic::do_not_recommend]
impl<F: Fn(&StoreError) -> OnStoreError> HandleStoreError for F {
    fn handle(&self, error: &StoreError) -> OnStoreError {
        self(error)
    }
}

/// Whether the request passes undecided. The store has logged the error: it knows for how long.
#[cold]
pub(crate) fn admits(handler: &impl HandleStoreError, error: &StoreError) -> bool {
    match error.kind() {
        StoreErrorKind::Unavailable => handler.handle(error) == OnStoreError::Admit,
        StoreErrorKind::Misconfigured | StoreErrorKind::InvalidInput => false,
    }
}
