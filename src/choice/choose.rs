//! What a layer or a limiter asks for the limit of each request.

use crate::algorithm::Limit;

/// Chooses the limit of each request. A limit chooses itself for all of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` chooses no algorithm for requests of type `{Req}`",
    label = "neither an algorithm nor a choice of one for `{Req}`",
    note = "use one of `tollgate::algorithm` (`TokenBucket::new(Quota::per_second(20))`, say), or let a closure choose one: `tollgate::choice::by_request(|request: &{Req}| ..)`",
    note = "a `RateLimiter` has no request: its choice is made for `()`"
)]
pub trait Choose<Req> {
    /// The algorithm, or [each of several](crate::EachOf).
    type Limit: Limit;
    /// What was chosen. It stays with the request until the response is there.
    type Choice: Send + 'static;

    fn choose(&self, request: &Req) -> Self::Choice;

    /// The limit that was chosen.
    fn limit<'a>(&'a self, choice: &'a Self::Choice) -> &'a Self::Limit;
}

impl<Req, L: Limit> Choose<Req> for L {
    type Limit = L;
    type Choice = ();

    #[inline]
    fn choose(&self, _request: &Req) {}

    #[inline]
    fn limit<'a>(&'a self, (): &'a ()) -> &'a L {
        self
    }
}
