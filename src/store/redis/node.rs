//! The connections to one server, or to the primary behind Sentinel: each is watched, and replaced
//! when it is lost or hung.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fred::{
    error::{Error, ErrorKind},
    types::config::Server,
};
use tokio::{sync::watch, task::AbortHandle, time::sleep};

use crate::error::StoreError;

use super::{backoff::Backoff, failure, link::Link, lock, settings::Settings};

/// Lost connections to one server are logged at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A server, and the connections to it that take turns.
pub(super) struct Node {
    server: Option<Server>,
    connections: Box<[Connection]>,
    next: AtomicUsize,
}

impl Node {
    pub(super) fn new(settings: &Settings, connections: usize) -> Self {
        let logged = Arc::<Logged>::default();
        let connection = |_| Connection {
            kept: Arc::new(Kept {
                settings: settings.clone(),
                state: watch::Sender::new(State::Untried),
                logged: Arc::clone(&logged),
            }),
            keeper: Mutex::new(None),
        };
        Self {
            server: settings.server(),
            connections: (0..connections.max(1)).map(connection).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Which server it is; `None` behind Sentinel, and for a Unix socket.
    pub(super) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The connections, from the one whose turn it is on.
    fn in_turn(&self) -> impl Iterator<Item = &Connection> {
        let turn = self.next.load(Ordering::Relaxed) % self.connections.len();
        let (before, after) = self.connections.split_at(turn);
        after.iter().chain(before)
    }

    /// The connection whose turn it is, if it is up and not suspected to hang.
    pub(super) fn next_link(&self) -> Option<Arc<Link>> {
        self.next.fetch_add(1, Ordering::Relaxed);
        let link = self.in_turn().next()?.link()?;
        (!link.is_suspect()).then_some(link)
    }

    /// The connections that are up.
    pub(super) fn links(&self) -> impl Iterator<Item = Arc<Link>> {
        self.connections.iter().filter_map(Connection::link)
    }

    /// The next connection that is up, one that is suspected to hang only if there is no other. At
    /// first this waits for the first attempt to connect.
    pub(super) async fn link(&self) -> Result<Arc<Link>, StoreError> {
        let mut suspect = None;
        for connection in self.in_turn() {
            connection.start_keeper();
            match connection.link() {
                Some(link) if link.is_suspect() => suspect = suspect.or(Some(link)),
                Some(link) => return Ok(link),
                None => {}
            }
        }
        match (suspect, self.in_turn().next()) {
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
        self.links().any(|link| !link.is_suspect())
    }

    /// Whether the first attempt to connect has not ended.
    pub(super) fn is_untried(&self) -> bool {
        let mut connections = self.connections.iter();
        connections.all(|connection| matches!(&*connection.kept.state.borrow(), State::Untried))
    }
}

/// A connection, and the task that replaces it when it is lost or hung.
struct Connection {
    kept: Arc<Kept>,
    keeper: Mutex<Option<AbortHandle>>,
}

struct Kept {
    settings: Settings,
    state: watch::Sender<State>,
    logged: Arc<Logged>,
}

enum State {
    /// The first attempt to connect has not ended.
    Untried,
    Up(Arc<Link>),
    /// The connection was lost, or could not be made.
    Down(StoreError),
}

/// When events about this server were last logged. The connections of a pool share it, so that a
/// restart of the server is not logged by each of them.
#[derive(Default)]
struct Logged {
    lost: Mutex<Option<Instant>>,
    stopped: Mutex<Option<Instant>>,
}

/// Whether an event may be logged now: for one server at most once a second.
fn may_log(last: &Mutex<Option<Instant>>) -> bool {
    let mut last = lock(last);
    let is_time = last.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
    if is_time {
        *last = Some(Instant::now());
    }
    is_time
}

impl Connection {
    /// Starts the task that connects and reconnects, unless it runs.
    fn start_keeper(&self) {
        let mut keeper = lock(&self.keeper);
        if keeper.as_ref().is_none_or(AbortHandle::is_finished) {
            let kept = Arc::clone(&self.kept);
            let task = tokio::spawn(async move { kept.keep_connected().await });
            *keeper = Some(task.abort_handle());
        }
    }

    fn link(&self) -> Option<Arc<Link>> {
        match &*self.kept.state.borrow() {
            State::Up(link) => Some(Arc::clone(link)),
            State::Untried | State::Down(_) => None,
        }
    }

    /// Why it gets no decisions; `None` if it gets them, or has not been tried.
    #[inline]
    fn outage(&self) -> Option<StoreError> {
        match &*self.kept.state.borrow() {
            State::Down(error) => Some(error.clone()),
            State::Up(link) if link.is_open() => Some(failure::unanswered(
                "no answer in time to the last decisions, nor to a probe yet",
            )),
            State::Untried | State::Up(_) => None,
        }
    }

    async fn first_attempt(&self) -> Result<Arc<Link>, StoreError> {
        let mut state = self.kept.state.subscribe();
        let tried = state.wait_for(|state| !matches!(state, State::Untried));
        match tried.await.as_deref() {
            Ok(State::Up(link)) => Ok(Arc::clone(link)),
            Ok(State::Down(error)) => Err(error.clone()),
            Ok(State::Untried) | Err(_) => Err(failure::not_connected_yet()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(keeper) = &*lock(&self.keeper) {
            keeper.abort();
        }
    }
}

/// Sets the state back when the task ends, as it does with its runtime.
struct KeeperGuard<'a>(&'a Kept);

impl Drop for KeeperGuard<'_> {
    fn drop(&mut self) {
        self.0.set_state(State::Untried);
    }
}

impl Kept {
    fn set_state(&self, state: State) {
        if let State::Up(gone) = self.state.send_replace(state) {
            self.settings.history.connection_ended(&gone);
        }
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
                        self.settings.history.reconnected();
                        let after = lost.elapsed();
                        if is_logged {
                            tracing::info!(target: "tollgate::store", server, ?after, "connected to Redis again");
                        }
                    }
                    let link = Arc::new(Link::new(client, self.settings.deadline));
                    self.set_state(State::Up(Arc::clone(&link)));
                    stopped.ends(&server);
                    let tell = |is_open| match is_open {
                        true => stopped.begins(&server, &self.logged.stopped),
                        false => stopped.ends(&server),
                    };
                    let error = tokio::select! {
                        error = running.ended() => error,
                        never = link.tell_breaker(tell) => match never {},
                        () = link.until_hung() => Error::new(ErrorKind::Timeout, "nothing was answered for a second"),
                        () = link.until_read_only() => Error::new(ErrorKind::Unknown, "READONLY the server is no primary"),
                    };
                    let is_logged = may_log(&self.logged.lost);
                    if is_logged {
                        tracing::warn!(target: "tollgate::store", server, %error, "lost a connection to Redis");
                    }
                    lost = Some((Instant::now(), is_logged));
                    backoff.reset_after(began.elapsed());
                    error
                }
                Err(error) => error,
            };
            self.set_state(State::Down(failure::no_connection(&error)));
            sleep(backoff.next()).await;
        }
    }
}

/// Since when a server that is connected gets no decisions; `None` if it gets them, or if that was
/// not logged.
#[derive(Default)]
struct StoppedSince(Option<Instant>);

impl StoppedSince {
    fn begins(&mut self, server: &str, last_logged: &Mutex<Option<Instant>>) {
        if self.0.is_none() && may_log(last_logged) {
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
