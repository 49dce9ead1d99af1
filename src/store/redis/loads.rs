//! Loads a script into nodes that do not have it: once for all calls that wait for it. If Redis
//! refuses a load, calls without an answer fail with that error for a while.

use std::{
    collections::HashMap,
    error::Error as _,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::{
    error::Error,
    types::{Resp3Frame, config::Server},
};
use tokio::sync::watch;

use crate::error::{StoreError, StoreErrorKind};

use super::{
    failure,
    link::{Busy, PendingCommand},
};

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
    generation: AtomicU64,
    first_called: OnceLock<Instant>,
    /// Whether Redis has ever run it.
    has_run: AtomicBool,
    /// How many nodes have reported a misconfiguration.
    misconfigured_nodes: AtomicUsize,
    nodes: Mutex<HashMap<Option<Server>, Arc<ScriptOnNode>>>,
}

#[derive(Default)]
struct ScriptOnNode(Mutex<State>);

#[derive(Default)]
struct State {
    /// The generation of the last load.
    last_load: u64,
    loading: Option<Loading>,
    refused_load: Option<Misconfiguration>,
    misconfiguration: Option<Misconfiguration>,
}

/// A load in flight.
struct Loading {
    since: Instant,
    end: watch::Receiver<Option<LoadResult>>,
}

/// A misconfiguration that Redis has reported, and when it last did.
struct Misconfiguration {
    message: String,
    at: Instant,
}

/// How a load ended.
type LoadResult = Result<(), LoadError>;

/// Why a script was not loaded.
#[derive(Clone)]
pub(super) enum LoadError {
    /// It was not sent: too many commands wait for an answer.
    Busy,
    /// Redis has answered with this error.
    Refused(String),
    /// Redis has not answered.
    Unanswered(Error),
    /// The runtime has ended.
    Aborted,
}

impl Loads {
    /// The script is called, whether or not the call is sent; only the first call counts.
    #[inline]
    pub(super) fn note_first_call(&self) {
        self.first_called.get_or_init(Instant::now);
    }

    /// Load generation: reload only if unchanged since the failed call.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Loads the script to a node, unless another call did since `seen`. If another call is loading
    /// it now, this waits for the same answer.
    ///
    /// The load goes on if its caller is dropped, so that the next calls know the answer.
    pub(super) async fn load(
        self: &Arc<Self>,
        node: Option<Server>,
        seen: u64,
        ask: impl FnOnce() -> Result<PendingCommand, Busy>,
    ) -> LoadResult {
        let node = self.node(node);
        let mut end = {
            let mut state = node.lock();
            if state.last_load > seen {
                return Ok(());
            }
            if let Some(refused) = &state.refused_load
                && refused.at.elapsed() < LOAD_RETRY_AFTER
            {
                return Err(LoadError::Refused(refused.message.clone()));
            }
            match &state.loading {
                Some(loading) if loading.is_under_way() => loading.end.clone(),
                _ => {
                    let sent = ask().map_err(|Busy| LoadError::Busy)?;
                    let end = self.start_load(Arc::clone(&node), sent);
                    let since = Instant::now();
                    let loading = Loading { since, end };
                    state.loading.insert(loading).end.clone()
                }
            }
        };
        match end.wait_for(Option::is_some).await {
            Ok(loaded) => loaded.clone().expect("the load has ended"),
            Err(_) => Err(LoadError::Aborted),
        }
    }

    fn start_load(
        self: &Arc<Self>,
        node: Arc<ScriptOnNode>,
        sent: PendingCommand,
    ) -> watch::Receiver<Option<LoadResult>> {
        let (sender, end) = watch::channel(None);
        let loads = Arc::clone(self);
        tokio::spawn(async move {
            let loaded = load_result(sent.await);
            loads.load_ended(&node, &loaded);
            sender.send_replace(Some(loaded));
        });
        end
    }

    fn load_ended(&self, node: &ScriptOnNode, loaded: &LoadResult) {
        let mut state = node.lock();
        state.loading = None;
        match loaded {
            Ok(()) => {
                state.last_load = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
                state.refused_load = None;
                self.clear_misconfiguration(&mut state);
            }
            Err(LoadError::Refused(message)) => {
                let error = failure::redis_error(message);
                if error.kind() == StoreErrorKind::Misconfigured {
                    state.refused_load = Some(Misconfiguration::now(message.clone()));
                    self.record_misconfiguration(&mut state, &error);
                }
            }
            Err(_) => {}
        }
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
                if !self.has_run.load(Ordering::Relaxed) {
                    self.has_run.store(true, Ordering::Relaxed);
                }
                if self.misconfigured_nodes.load(Ordering::Relaxed) > 0 {
                    self.record_run(node());
                }
            }
            Err(error) => match error.kind() {
                StoreErrorKind::Unavailable => {
                    return self.recent_misconfiguration(node, error).map_or(done, Err);
                }
                StoreErrorKind::Misconfigured | StoreErrorKind::InvalidInput => {}
            },
        }
        done
    }

    /// Redis has answered a call of the script on this node with this error.
    pub(super) fn record_refusal(&self, node: Option<&Server>, error: &StoreError) {
        if error.kind() == StoreErrorKind::Misconfigured {
            self.record_misconfiguration(&mut self.node(node.cloned()).lock(), error);
        }
    }

    /// The misconfiguration behind a missing answer: one that this node has reported recently, or
    /// that the script has not run yet.
    #[inline]
    pub(super) fn recent_misconfiguration(
        &self,
        node: impl FnOnce() -> Option<Server>,
        error: &StoreError,
    ) -> Option<StoreError> {
        let has_misconfigured = self.misconfigured_nodes.load(Ordering::Relaxed) > 0;
        let may_be_first = !self.has_run.load(Ordering::Relaxed) && failure::is_unanswered(error);
        match has_misconfigured || may_be_first {
            true => self.known_misconfiguration(node, error, may_be_first),
            false => None,
        }
    }

    fn known_misconfiguration(
        &self,
        node: impl FnOnce() -> Option<Server>,
        error: &StoreError,
        may_be_first: bool,
    ) -> Option<StoreError> {
        if self.misconfigured_nodes.load(Ordering::Relaxed) > 0 {
            let node = self.node(node());
            let state = node.lock();
            let known = (state.misconfiguration.as_ref())
                .filter(|known| known.at.elapsed() < MISCONFIGURED_FOR);
            if let Some(Misconfiguration { message, .. }) = known {
                let message = format!("no answer, and a moment ago: {message}");
                return Some(StoreError::new(StoreErrorKind::Misconfigured, message));
            }
        }
        // Whether Redis lets the store run the script is not known yet.
        let is_first =
            || (self.first_called.get()).is_some_and(|at| at.elapsed() < FIRST_RUN_WITHIN);
        (may_be_first && is_first()).then(|| {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            let message = format!("{why}, and whether Redis runs the script is not known yet");
            StoreError::new(StoreErrorKind::Misconfigured, message)
        })
    }

    fn record_misconfiguration(&self, state: &mut State, error: &StoreError) {
        let message = error.source().map(ToString::to_string);
        let known = Misconfiguration::now(message.unwrap_or_default());
        if state.misconfiguration.replace(known).is_none() {
            self.misconfigured_nodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The script has run on this node, so nothing is set up wrongly there.
    fn record_run(&self, node: Option<Server>) {
        let node = self.node(node);
        self.clear_misconfiguration(&mut node.lock());
    }

    fn clear_misconfiguration(&self, state: &mut State) {
        if state.misconfiguration.take().is_some() {
            self.misconfigured_nodes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn node(&self, node: Option<Server>) -> Arc<ScriptOnNode> {
        Arc::clone(self.nodes().entry(node).or_default())
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Option<Server>, Arc<ScriptOnNode>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScriptOnNode {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loading {
    /// Whether it may still be answered: it has not timed out, and its runtime has not ended.
    fn is_under_way(&self) -> bool {
        self.since.elapsed() < LOAD_TIMEOUT && self.end.has_changed().is_ok()
    }
}

impl Misconfiguration {
    fn now(message: String) -> Self {
        let at = Instant::now();
        Self { message, at }
    }
}

fn load_result(answer: Result<Resp3Frame, Error>) -> LoadResult {
    match answer {
        Ok(frame) => failure::reply_or_error(frame)
            .map(drop)
            .map_err(LoadError::Refused),
        Err(error) => Err(LoadError::Unanswered(error)),
    }
}
