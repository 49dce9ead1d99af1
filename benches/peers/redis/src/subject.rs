//! Something that decides, one request after the other.

use std::{future::Future, pin::Pin};

/// Callers that come in turn.
pub(crate) const CALLERS: usize = 100;

/// So many decisions, and how many were admitted.
pub(crate) type Decide = Box<dyn FnMut(usize) -> Pin<Box<dyn Future<Output = usize>>>>;

/// Makes one of a decision about a caller.
pub(crate) fn one_by_one<F>(decide: impl Fn(String) -> F + Clone + 'static) -> Decide
where
    F: Future<Output = bool> + 'static,
{
    Box::new(move |count| {
        let decide = decide.clone();
        Box::pin(async move {
            let mut admitted = 0;
            for request in 0..count {
                let caller = format!("caller-{}", request % CALLERS);
                admitted += usize::from(decide(caller).await);
            }
            admitted
        })
    })
}
