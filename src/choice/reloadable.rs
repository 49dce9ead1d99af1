//! A limit that is replaced while it is in use.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::{algorithm::Limit, error::ConfigError};

use super::Choose;

/// Holds every request to the limit that is in force when it is judged, and lets any thread replace
/// that limit.
///
/// Clones share the limit: keep one, and put the other into the layer. No state is lost or
/// reset, readers never wait for a writer, and the answer to a request has the numbers by which it
/// was judged. What a state means under the new numbers depends on the [algorithm](super).
///
/// Several limits are one `Reloadable<(A, B)>`: a tuple of `Reloadable`s is no limit. In the
/// closure of [`by_request`](super::by_request), `TokenBucket::clone(&reloadable.in_force())` is
/// the limit in force.
///
/// # Example: a limit that is raised while it is in use
///
/// ```
/// use tollgate::{ConfigError, Quota, RateLimiter};
/// use tollgate::{algorithm::FixedWindow, choice::Reloadable, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let daily = |units| FixedWindow::new(Quota::per_day(units)).named("daily");
/// let limit = Reloadable::new(daily(2));
/// let limiter = RateLimiter::new(limit.clone(), LocalStore::new());
/// assert_eq!(limiter.check_cost("bob", 2).await?.remaining(), 0);
///
/// limit.replace(daily(5)).unwrap();
/// assert_eq!(limiter.check("bob").await?.remaining(), 2);
///
/// // Without the name it would be another policy, in which nobody has used anything.
/// let error = limit.replace(FixedWindow::new(Quota::per_day(9))).unwrap_err();
/// assert!(matches!(error, ConfigError::OtherPolicy { .. }));
/// assert_eq!(limiter.peek("bob").await?.limit(), 5);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Reloadable<L> {
    in_force: Arc<ArcSwap<L>>,
}

impl<L: Limit> Reloadable<L> {
    /// Puts this limit in force. To be replaced by other numbers it needs a name:
    /// `.named("daily")`.
    pub fn new(limit: L) -> Self {
        Self {
            in_force: Arc::new(ArcSwap::from_pointee(limit)),
        }
    }

    /// Puts another limit in force, from the next request on. [What is kept](crate::choice) are the
    /// buckets, unless their shape is another: a window of another period, say, begins anew.
    ///
    /// # Errors
    ///
    /// The new limit has another name; the old limit stays in force.
    pub fn replace(&self, limit: L) -> Result<(), ConfigError> {
        let (old, new) = (self.in_force.load().policy_names(), limit.policy_names());
        if old != new {
            return Err(ConfigError::OtherPolicy { old, new });
        }
        self.in_force.store(Arc::new(limit));
        Ok(())
    }

    /// The limit that is in force.
    pub fn in_force(&self) -> Arc<L> {
        self.in_force.load_full()
    }
}

impl<Req, L: Limit> Choose<Req> for Reloadable<L> {
    type Limit = L;
    type Choice = Arc<L>;

    fn choose(&self, _request: &Req) -> Arc<L> {
        self.in_force()
    }

    fn limit<'a>(&'a self, in_force: &'a Arc<L>) -> &'a L {
        in_force
    }
}
