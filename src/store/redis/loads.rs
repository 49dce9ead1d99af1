//! Loads a script into nodes that do not have it: once for all calls that wait for it. If Redis
//! refuses a load, calls without an answer fail with that error for a while.

use std::{
    collections::HashMap,
    error::Error as _,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::types::config::Server;

use crate::error::{StoreError, StoreErrorKind};

use super::{failure, link::PendingCommand, lock};

/// How long to wait after a refused load before the next one is sent.
const LOAD_RETRY_AFTER: Duration = Duration::from_millis(500);
/// For how long after a misconfiguration was reported calls without an answer fail with it.
const MISCONFIGURED_FOR: Duration = Duration::from_secs(3);
/// The timeout of a load. The calls that wait for it may have shorter ones.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(1);
/// For this long after a script's first call, or until it has run once, a call without an answer
/// fails as misconfigured: whether Redis lets the store run scripts is not known yet.
const FIRST_RUN_WITHIN: Duration = Duration::from_secs(1);

/// The loads of one script.
#[derive(Default)]
pub(super) struct Loads {
    first_called: OnceLock<Instant>,
    /// Whether Redis has ever run it.
    has_run: AtomicBool,
    /// How many loads have ended, in all nodes.
    ended: AtomicU64,
    /// The last load into each node; locked while a load is under way.
    last: Mutex<HashMap<Option<Server>, Arc<LastLoad>>>,
    /// The nodes that have reported a misconfiguration since they last ran it.
    misconfigured: Mutex<HashMap<Option<Server>, Misconfiguration>>,
}

type LastLoad = tokio::sync::Mutex<Option<Load>>;

/// A load that has ended.
struct Load {
    /// How many had ended then, with this one.
    number: u64,
    at: Instant,
    loaded: Result<(), StoreError>,
}

/// A misconfiguration that Redis has reported, and when it last did.
struct Misconfiguration {
    message: String,
    at: Instant,
}

impl Loads {
    /// The script is called, whether or not the call is sent; only the first call counts.
    #[inline]
    pub(super) fn note_first_call(&self) {
        self.first_called.get_or_init(Instant::now);
    }

    /// How many loads have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Loads the script to a node, unless a load has ended since `seen` of them had. If another
    /// call is loading it now, this waits for the same answer.
    ///
    /// The load goes on if its caller is dropped, so that the next calls know the answer.
    pub(super) async fn load(
        self: &Arc<Self>,
        node: Option<&Server>,
        seen: u64,
        send: impl FnOnce() -> Result<PendingCommand, StoreError>,
    ) -> Result<(), StoreError> {
        let last = Arc::clone(lock(&self.last).entry(node.cloned()).or_default());
        let mut last = last.lock_owned().await;
        if let Some(Load { number, at, loaded }) = &*last {
            let is_refused = (loaded.as_ref()).is_err_and(is_misconfigured);
            if *number > seen || is_refused && at.elapsed() < LOAD_RETRY_AFTER {
                return loaded.clone();
            }
        }
        let sent = send()?;
        let (loads, node) = (Arc::clone(self), node.cloned());
        let loading = tokio::spawn(async move {
            let loaded = match sent.await {
                Ok(frame) => failure::reply_or_error(frame)
                    .map(drop)
                    .map_err(|message| failure::redis_error(&message)),
                Err(error) => Err(failure::client_error(error, LOAD_TIMEOUT)),
            };
            match &loaded {
                Ok(()) => drop(lock(&loads.misconfigured).remove(&node)),
                Err(error) => loads.record_refusal(node.as_ref(), error),
            }
            *last = Some(Load {
                number: 1 + loads.ended.fetch_add(1, Ordering::AcqRel),
                at: Instant::now(),
                loaded: loaded.clone(),
            });
            loaded
        });
        let loaded = loading.await;
        loaded.unwrap_or_else(|_| Err(failure::runtime_ends()))
    }

    /// The result of a call of the script on this node. If there was no answer, but Redis has
    /// recently reported a misconfiguration, that is the error.
    ///
    /// Under load some calls time out before Redis tells them what is set up wrongly. They must not
    /// be admitted as if Redis were only unavailable.
    pub(super) fn explain(
        &self,
        node: impl FnOnce() -> Option<Server>,
        done: Result<Bytes, StoreError>,
    ) -> Result<Bytes, StoreError> {
        match &done {
            Ok(_) => {
                self.has_run.store(true, Ordering::Relaxed);
                // It has run on this node, so nothing is set up wrongly there.
                let mut misconfigured = lock(&self.misconfigured);
                if !misconfigured.is_empty() {
                    misconfigured.remove(&node());
                }
                done
            }
            Err(error) => self.misconfiguration(node, error).map_or(done, Err),
        }
    }

    /// Redis has answered a call of the script on this node with this error.
    pub(super) fn record_refusal(&self, node: Option<&Server>, error: &StoreError) {
        if is_misconfigured(error) {
            let known = Misconfiguration {
                message: error.source().map(ToString::to_string).unwrap_or_default(),
                at: Instant::now(),
            };
            lock(&self.misconfigured).insert(node.cloned(), known);
        }
    }

    /// The misconfiguration behind a missing answer: one that this node has reported recently, or
    /// that the script has not run yet.
    #[inline]
    pub(super) fn misconfiguration(
        &self,
        node: impl FnOnce() -> Option<Server>,
        error: &StoreError,
    ) -> Option<StoreError> {
        if error.kind() != StoreErrorKind::Unavailable {
            return None;
        }
        let misconfigured = lock(&self.misconfigured);
        let message = if !misconfigured.is_empty()
            && let Some(known) = misconfigured.get(&node())
            && known.at.elapsed() < MISCONFIGURED_FOR
        {
            format!("no answer, and a moment ago: {}", known.message)
        } else if !self.has_run.load(Ordering::Relaxed)
            && failure::is_unanswered(error)
            && (self.first_called.get()).is_some_and(|at| at.elapsed() < FIRST_RUN_WITHIN)
        {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{why}, and whether Redis runs the script is not known yet")
        } else {
            return None;
        };
        Some(StoreError::new(StoreErrorKind::Misconfigured, message))
    }
}

fn is_misconfigured(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Misconfigured
}
