//! The connections to one server, or to the primary behind Sentinel: each is watched, and replaced
//! when it is lost or hung.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use fred::{
    error::{Error, ErrorKind},
    types::config::Server,
};
use tokio::{sync::watch, task::AbortHandle, time::sleep};

use crate::error::StoreError;

use super::{
    backoff::Backoff,
    failure::{self, Disconnected},
    link::{Breaker, Link},
    settings::Settings,
};

/// Lost connections to one server are logged at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A server, and the connections to it that take turns.
pub(super) struct Node {
    server: Option<Server>,
    connections: Box<[KeptLink]>,
    next: AtomicUsize,
}

impl Node {
    pub(super) fn new(settings: &Settings, connections: usize) -> Self {
        let server = settings.server();
        let logged = Arc::<Logged>::default();
        let connection = || KeptLink::new(settings.clone(), Arc::clone(&logged));
        Self {
            server,
            connections: (0..connections.max(1)).map(|_| connection()).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Which server it is; `None` behind Sentinel, and for a Unix socket.
    pub(super) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The connection whose turn it is, if it is up and not suspected to hang.
    pub(super) fn next_link(&self) -> Option<Arc<Link>> {
        let connection = match &*self.connections {
            [only] => only,
            several => {
                let turn = self.next.fetch_add(1, Ordering::Relaxed);
                &several[turn % several.len()]
            }
        };
        let link = connection.shared.link.load();
        let link = link.as_ref().filter(|link| !link.is_suspect())?;
        Some(Arc::clone(link))
    }

    /// The connections that are up.
    pub(super) fn links(&self) -> impl Iterator<Item = Arc<Link>> {
        let connections = self.connections.iter();
        connections.filter_map(|connection| connection.shared.link.load_full())
    }

    /// The next connection that is up, one that is suspected to hang only if there is no other. At
    /// first this waits for the first attempt to connect.
    pub(super) async fn link(&self) -> Result<Arc<Link>, StoreError> {
        let turn = self.next.load(Ordering::Relaxed);
        let in_turn = || {
            let connections = self.connections.iter().cycle();
            connections
                .skip(turn % self.connections.len())
                .take(self.connections.len())
        };
        let mut suspect = None;
        for connection in in_turn() {
            match &*connection.shared.state.borrow() {
                State::Up(link) if link.is_suspect() => {
                    suspect.get_or_insert_with(|| Arc::clone(link));
                }
                State::Up(link) => return Ok(Arc::clone(link)),
                State::Untried => connection.start_keeper(),
                State::Down(_) => {}
            }
        }
        match (suspect, in_turn().next()) {
            (Some(link), _) => Ok(link),
            (None, Some(connection)) => connection.first_attempt().await,
            (None, None) => Err(failure::not_connected_yet()),
        }
    }

    /// Why it gets no decisions: it has no connection, or none that answers. `None` if it gets
    /// them, or has not been tried.
    #[inline]
    pub(super) fn outage(&self) -> Option<StoreError> {
        let (first, others) = self.connections.split_first()?;
        for connection in others {
            connection.outage()?;
        }
        first.outage()
    }

    /// Whether a connection is up and not suspected to hang.
    pub(super) fn is_healthy(&self) -> bool {
        self.connections.iter().any(|connection| {
            matches!(&*connection.shared.state.borrow(), State::Up(link) if !link.is_suspect())
        })
    }

    /// Whether the first attempt to connect has not ended.
    pub(super) fn is_untried(&self) -> bool {
        let mut connections = self.connections.iter();
        connections.all(|connection| matches!(&*connection.shared.state.borrow(), State::Untried))
    }
}

/// A connection that is kept: its link, and the task that replaces it when it is lost or hung.
struct KeptLink {
    shared: Arc<SharedLink>,
    keeper: Mutex<Option<AbortHandle>>,
}

struct SharedLink {
    settings: Settings,
    /// The link of the state, if it is up. Reading it writes no memory that other threads share.
    link: ArcSwapOption<Link>,
    /// Whether the state is down: read first, since every decision asks.
    is_down: AtomicBool,
    state: watch::Sender<State>,
    logged: Arc<Logged>,
}

/// When events about this server were last logged. The connections of a pool share it, so that a
/// restart of the server is not logged by each of them.
#[derive(Default)]
struct Logged {
    lost: LastLogged,
    stopped: LastLogged,
}

/// When an event was last logged.
#[derive(Default)]
struct LastLogged(Mutex<Option<Instant>>);

impl LastLogged {
    /// Whether it may be logged now: for one server at most once a second.
    fn may_log(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = last.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
        if is_time {
            *last = Some(Instant::now());
        }
        is_time
    }
}

enum State {
    /// The first attempt to connect has not ended.
    Untried,
    Up(Arc<Link>),
    /// The connection was lost, or could not be made.
    Down(Disconnected),
}

impl KeptLink {
    fn new(settings: Settings, logged: Arc<Logged>) -> Self {
        Self {
            shared: Arc::new(SharedLink {
                settings,
                link: ArcSwapOption::empty(),
                is_down: AtomicBool::new(false),
                state: watch::Sender::new(State::Untried),
                logged,
            }),
            keeper: Mutex::new(None),
        }
    }

    /// Starts the task that connects and reconnects, unless it runs.
    fn start_keeper(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.as_ref().is_none_or(AbortHandle::is_finished) {
            let shared = Arc::clone(&self.shared);
            *keeper =
                Some(tokio::spawn(async move { shared.keep_connected().await }).abort_handle());
        }
    }

    /// Why it gets no decisions; `None` if it gets them, or has not been tried.
    #[inline]
    fn outage(&self) -> Option<StoreError> {
        if self.shared.is_down.load(Ordering::Relaxed) {
            return match &*self.shared.state.borrow() {
                State::Down(disconnected) => Some(disconnected.error()),
                State::Untried | State::Up(_) => None,
            };
        }
        let link = self.shared.link.load();
        let is_open = link.as_deref().is_some_and(Link::is_open);
        is_open.then(failure::breaker_is_open)
    }

    async fn first_attempt(&self) -> Result<Arc<Link>, StoreError> {
        let mut state = self.shared.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                State::Up(link) => return Ok(Arc::clone(link)),
                State::Down(disconnected) => return Err(disconnected.error()),
                State::Untried => {}
            }
            if state.changed().await.is_err() {
                return Err(failure::not_connected_yet());
            }
        }
    }
}

impl Drop for KeptLink {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut();
        if let Some(keeper) = keeper.unwrap_or_else(PoisonError::into_inner) {
            keeper.abort();
        }
    }
}

/// Sets the state back when the task ends, as it does with its runtime.
struct KeeperGuard<'a>(&'a SharedLink);

impl Drop for KeeperGuard<'_> {
    fn drop(&mut self) {
        self.0.set_state(State::Untried);
    }
}

impl SharedLink {
    fn set_state(&self, state: State) {
        let link = match &state {
            State::Up(link) => Some(Arc::clone(link)),
            State::Untried | State::Down(_) => None,
        };
        let is_down = matches!(state, State::Down(_));
        if let Some(gone) = self.link.swap(link) {
            self.settings.history().connection_ended(&gone);
        }
        self.state.send_replace(state);
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Connects, and connects again whenever the connection is lost or hung, for ever.
    async fn keep_connected(&self) {
        let _guard = KeeperGuard(self);
        let server = self.settings.name();
        let mut lost: Option<(Instant, bool)> = None;
        let mut stopped = StoppedSince::default();
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            let error = match self.settings.connect().await {
                Ok((client, mut running)) => {
                    if let Some((lost, is_logged)) = lost.take() {
                        self.settings.history().reconnected();
                        let after = lost.elapsed();
                        if is_logged {
                            tracing::info!(target: "tollgate::store", server, ?after, "connected to Redis again");
                        }
                    }
                    let link = Arc::new(Link::new(client, self.settings.deadline()));
                    self.set_state(State::Up(Arc::clone(&link)));
                    stopped.ends(&server);
                    let tell = |breaker| match breaker {
                        Breaker::Opened => stopped.begins(&server, &self.logged.stopped),
                        Breaker::Closed => stopped.ends(&server),
                    };
                    let error = tokio::select! {
                        error = running.ended() => error,
                        never = link.tell_breaker(tell) => match never {},
                        () = link.until_hung() => Error::new(ErrorKind::Timeout, "nothing was answered for a second"),
                        () = link.until_read_only() => Error::new(ErrorKind::Unknown, "READONLY the server is no primary"),
                    };
                    let is_logged = self.logged.lost.may_log();
                    if is_logged {
                        tracing::warn!(target: "tollgate::store", server, %error, "lost a connection to Redis");
                    }
                    lost = Some((Instant::now(), is_logged));
                    backoff.reset_after(began.elapsed());
                    error
                }
                Err(error) => error,
            };
            self.set_state(State::Down(Disconnected::new(error)));
            sleep(backoff.next()).await;
        }
    }
}

/// Since when a server that is connected gets no decisions; `None` if it gets them, or if that was
/// not logged.
#[derive(Default)]
struct StoppedSince(Option<Instant>);

impl StoppedSince {
    fn begins(&mut self, server: &str, last_logged: &LastLogged) {
        if self.0.is_none() && last_logged.may_log() {
            self.0 = Some(Instant::now());
            tracing::warn!(target: "tollgate::store", server, "Redis misses every deadline: it gets probes only");
        }
    }

    fn ends(&mut self, server: &str) {
        if let Some(since) = self.0.take() {
            let after = since.elapsed();
            tracing::info!(target: "tollgate::store", server, ?after, "Redis gets decisions again");
        }
    }
}
