//! Loads scripts into a node that does not have them: once for all calls that wait for it. If the
//! node refuses a load, calls without an answer fail with that error for a while.

use std::{
    collections::HashMap,
    error::Error as _,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::error::{StoreError, StoreErrorKind};

use super::{lock, run::in_a_task};

/// How long to wait after a refused load before the next one is sent.
const LOAD_RETRY_AFTER: Duration = Duration::from_millis(500);
/// For how long after a misconfiguration was reported calls without an answer fail with it.
const MISCONFIGURED_FOR: Duration = Duration::from_secs(3);

/// The scripts that were loaded into a node, and what is set up wrongly there.
#[derive(Default)]
pub(super) struct Loads {
    /// The last load of each script, by its sum; locked while a load is under way.
    last: Mutex<HashMap<Bytes, Arc<LastLoad>>>,
    /// The misconfiguration that the node has last reported, and when.
    misconfigured: Mutex<Option<(Instant, String)>>,
}

/// When a load has ended, and how.
type LastLoad = tokio::sync::Mutex<Option<(Instant, Result<(), StoreError>)>>;

impl Loads {
    /// Loads the script with this sum, unless a load has ended since the call that misses it was
    /// sent. If another call is loading it now, this waits for the same answer.
    ///
    /// The load goes on if its caller is dropped, so that the next calls know the answer.
    pub(super) async fn load(
        self: &Arc<Self>,
        (sha1, sent_at): (&Bytes, Instant),
        load: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Result<(), StoreError> {
        let last = Arc::clone(lock(&self.last).entry(sha1.clone()).or_default());
        let mut last = last.lock_owned().await;
        if let Some((at, loaded)) = &*last {
            let is_refused = (loaded.as_ref()).is_err_and(is_misconfigured);
            if *at > sent_at || is_refused && at.elapsed() < LOAD_RETRY_AFTER {
                return loaded.clone();
            }
        }
        let loads = Arc::clone(self);
        in_a_task(async move {
            let loaded = load.await;
            if let Err(error) = &loaded {
                loads.record_refusal(error);
            }
            *last = Some((Instant::now(), loaded.clone()));
            loaded
        })
        .await
    }

    /// The node has answered with this error.
    pub(super) fn record_refusal(&self, error: &StoreError) {
        if is_misconfigured(error) {
            let message = error.source().map(ToString::to_string);
            *lock(&self.misconfigured) = Some((Instant::now(), message.unwrap_or_default()));
        }
    }

    /// A misconfiguration that the node has reported recently.
    ///
    /// Under load some calls time out before Redis tells them what is set up wrongly. They must not
    /// be admitted as if Redis were only unavailable.
    pub(super) fn misconfiguration(&self) -> Option<String> {
        let known = lock(&self.misconfigured);
        let (at, message) = known.as_ref()?;
        (at.elapsed() < MISCONFIGURED_FOR).then(|| message.clone())
    }
}

fn is_misconfigured(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Misconfigured
}
