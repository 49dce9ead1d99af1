//! Loads a script to the nodes that do not have it: once for all calls that wait for it. If Redis
//! refuses, that error is kept for a moment, and calls that get no answer fail with it.

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
    link::{Busy, Sent},
};

/// After Redis has refused a load, the next one waits so long.
const LOAD_RETRY_AFTER: Duration = Duration::from_millis(500);
/// For so long after Redis has reported a misconfiguration, a call without an answer fails with it.
const MISCONFIGURED_FOR: Duration = Duration::from_secs(3);
/// How long a load may take, whatever the deadlines of the calls that wait for it.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(1);
/// Until a script has run once, and for no longer than this, a call without an answer fails as
/// misconfigured: whether Redis lets the store run scripts is not known yet.
const FIRST_RUN_WITHIN: Duration = Duration::from_secs(1);

/// The loads of one script.
#[derive(Default)]
pub(super) struct Loads {
    generation: AtomicU64,
    first_asked: OnceLock<Instant>,
    /// Whether Redis ever ran it.
    has_run: AtomicBool,
    /// On how many nodes Redis has reported a misconfiguration.
    misconfigured_nodes: AtomicUsize,
    nodes: Mutex<HashMap<Option<Server>, Arc<Node>>>,
}

/// The script on one node.
#[derive(Default)]
struct Node(Mutex<State>);

#[derive(Default)]
struct State {
    /// The generation of the last load.
    last: u64,
    loading: Option<Loading>,
    refused: Option<Misconfiguration>,
    misconfiguration: Option<Misconfiguration>,
}

/// A load that is not answered yet.
struct Loading {
    since: Instant,
    end: watch::Receiver<Option<Loaded>>,
}

/// What Redis has reported, and when it last did.
struct Misconfiguration {
    message: String,
    at: Instant,
}

/// How a load ended.
type Loaded = Result<(), Unloaded>;

/// Why a script was not loaded.
#[derive(Clone)]
pub(super) enum Unloaded {
    /// It was not sent, as too much waits already.
    Busy,
    /// Redis said no.
    Refused(String),
    /// Redis said nothing.
    Unanswered(Error),
    /// The runtime has ended.
    Aborted,
}

impl Loads {
    /// Load generation: reload only if unchanged since the failed call.
    pub(super) fn generation(&self) -> u64 {
        self.first_asked.get_or_init(Instant::now);
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
        ask: impl FnOnce() -> Result<Sent, Busy>,
    ) -> Loaded {
        let node = self.node(node);
        let mut end = {
            let mut state = node.state();
            if state.last > seen {
                return Ok(());
            }
            if let Some(refused) = &state.refused
                && refused.at.elapsed() < LOAD_RETRY_AFTER
            {
                return Err(Unloaded::Refused(refused.message.clone()));
            }
            match &state.loading {
                Some(loading) if loading.is_under_way() => loading.end.clone(),
                _ => {
                    let sent = ask().map_err(|Busy| Unloaded::Busy)?;
                    let end = self.begin(Arc::clone(&node), sent);
                    let since = Instant::now();
                    let loading = Loading { since, end };
                    state.loading.insert(loading).end.clone()
                }
            }
        };
        match end.wait_for(Option::is_some).await {
            Ok(loaded) => loaded.clone().expect("it was waited for"),
            Err(_) => Err(Unloaded::Aborted),
        }
    }

    fn begin(self: &Arc<Self>, node: Arc<Node>, sent: Sent) -> watch::Receiver<Option<Loaded>> {
        let (tell, end) = watch::channel(None);
        let loads = Arc::clone(self);
        tokio::spawn(async move {
            let loaded = loaded(sent.await);
            loads.end(&node, &loaded);
            tell.send_replace(Some(loaded));
        });
        end
    }

    fn end(&self, node: &Node, loaded: &Loaded) {
        let mut state = node.state();
        state.loading = None;
        match loaded {
            Ok(()) => {
                state.last = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
                state.refused = None;
                self.forgive(&mut state);
            }
            Err(Unloaded::Refused(message)) => {
                let error = failure::answered(message);
                if error.kind() == StoreErrorKind::Misconfigured {
                    state.refused = Some(Misconfiguration::now(message.clone()));
                    self.note(&mut state, &error);
                }
            }
            Err(_) => {}
        }
    }

    /// What a call that ran the script on this node came to: where no answer came, and Redis has
    /// said lately what is set up wrongly, that is the error.
    ///
    /// A store that is set up wrongly is no reason to admit, and in a crowd not everyone is told in
    /// time.
    pub(super) fn weigh(
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
                    self.forget(node());
                }
            }
            Err(error) => match error.kind() {
                StoreErrorKind::Unavailable => {
                    return self.known(node(), error).map_or(done, Err);
                }
                StoreErrorKind::Misconfigured | StoreErrorKind::InvalidInput => {}
            },
        }
        done
    }

    /// What Redis answered to a call of the script on this node.
    #[cold]
    pub(super) fn refused(&self, node: Option<&Server>, error: &StoreError) {
        if error.kind() == StoreErrorKind::Misconfigured {
            self.note(&mut self.node(node.cloned()).state(), error);
        }
    }

    /// What is known against running the script on this node, where it ended in this error.
    pub(super) fn known(&self, node: Option<Server>, error: &StoreError) -> Option<StoreError> {
        if self.misconfigured_nodes.load(Ordering::Relaxed) > 0 {
            let node = self.node(node);
            let state = node.state();
            let known = (state.misconfiguration.as_ref())
                .filter(|known| known.at.elapsed() < MISCONFIGURED_FOR);
            if let Some(Misconfiguration { message, .. }) = known {
                let message = format!("no answer, and a moment ago: {message}");
                return Some(StoreError::new(StoreErrorKind::Misconfigured, message));
            }
        }
        // Whether the store may run its scripts at all is still to be seen: at first that is no
        // reason to admit.
        let is_first =
            || (self.first_asked.get()).is_some_and(|at| at.elapsed() < FIRST_RUN_WITHIN);
        let is_unknown =
            !self.has_run.load(Ordering::Relaxed) && failure::is_unanswered(error) && is_first();
        is_unknown.then(|| {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            let message = format!("{why}, and whether Redis runs the script is not known yet");
            StoreError::new(StoreErrorKind::Misconfigured, message)
        })
    }

    fn note(&self, state: &mut State, error: &StoreError) {
        let message = error.source().map(ToString::to_string);
        let known = Misconfiguration::now(message.unwrap_or_default());
        if state.misconfiguration.replace(known).is_none() {
            self.misconfigured_nodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The script ran on this node: nothing is against it.
    #[cold]
    fn forget(&self, node: Option<Server>) {
        let node = self.node(node);
        self.forgive(&mut node.state());
    }

    fn forgive(&self, state: &mut State) {
        if state.misconfiguration.take().is_some() {
            self.misconfigured_nodes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn node(&self, node: Option<Server>) -> Arc<Node> {
        Arc::clone(self.nodes().entry(node).or_default())
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Option<Server>, Arc<Node>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loading {
    /// It may still be answered: neither is it late, nor has its runtime ended.
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

fn loaded(answer: Result<Resp3Frame, Error>) -> Loaded {
    match answer {
        Ok(frame) => failure::sorted(frame).map(drop).map_err(Unloaded::Refused),
        Err(error) => Err(Unloaded::Unanswered(error)),
    }
}
