//! One server, or the primary behind Sentinel: its connections are made, watched, and made anew.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use fred::{
    error::{Error, ErrorKind},
    types::config::Server,
};
use tokio::{sync::watch, task::AbortHandle, time::sleep};

use super::{failure::Disconnected, link::Link, settings::Settings};

const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// That a connection to a server was lost is told at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A server, and the connections to it that take turns.
pub(super) struct Node {
    server: Option<Server>,
    connections: Box<[Connection]>,
    next: AtomicUsize,
}

impl Node {
    pub(super) fn new(settings: &Settings, connections: usize) -> Self {
        let server = settings.server();
        let last_told = LastTold::default();
        let connection = || Connection::new(settings.clone(), Arc::clone(&last_told));
        Self {
            server,
            connections: (0..connections.max(1)).map(|_| connection()).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Which server it is; `None` where Sentinel says so, or for a socket of this machine.
    pub(super) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The connection whose turn it is, if it is there and answers.
    pub(super) fn link_in_turn(&self) -> Option<Arc<Link>> {
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

    /// Its connections that are there.
    pub(super) fn links(&self) -> impl Iterator<Item = Arc<Link>> {
        let connections = self.connections.iter();
        connections.filter_map(|connection| connection.shared.link.load_full())
    }

    /// The next connection that answers, or one that may. If none was ever tried, this waits for
    /// the first attempt.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Disconnected> {
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
                State::Untried => connection.keep(),
                State::Down(_) => {}
            }
        }
        match (suspect, in_turn().next()) {
            (Some(link), _) => Ok(link),
            (None, Some(connection)) => connection.first_attempt().await,
            (None, None) => Err(Disconnected::NotYet),
        }
    }

    /// Whether it has a connection that answers.
    pub(super) fn is_well(&self) -> bool {
        self.connections.iter().any(|connection| {
            matches!(&*connection.shared.state.borrow(), State::Up(link) if !link.is_suspect())
        })
    }

    /// Whether no attempt to connect has come to its end.
    pub(super) fn is_untried(&self) -> bool {
        let mut connections = self.connections.iter();
        connections.all(|connection| matches!(&*connection.shared.state.borrow(), State::Untried))
    }
}

/// A place for one connection, in which a task keeps one.
struct Connection {
    shared: Arc<Shared>,
    keeper: Mutex<Option<AbortHandle>>,
}

struct Shared {
    settings: Settings,
    /// That of the state, if it is up: found without a write to memory that all threads share.
    link: ArcSwapOption<Link>,
    state: watch::Sender<State>,
    last_told: LastTold,
}

/// When it was last told that a connection to this server was lost: of those of a pool not each
/// tells the same.
type LastTold = Arc<Mutex<Option<Instant>>>;

enum State {
    /// No attempt to connect has come to its end.
    Untried,
    Up(Arc<Link>),
    /// It was lost, or could not be made.
    Down(Error),
}

impl Connection {
    fn new(settings: Settings, last_told: LastTold) -> Self {
        Self {
            shared: Arc::new(Shared {
                settings,
                link: ArcSwapOption::empty(),
                state: watch::Sender::new(State::Untried),
                last_told,
            }),
            keeper: Mutex::new(None),
        }
    }

    /// Starts the task that keeps a connection, unless there is one.
    fn keep(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.as_ref().is_none_or(AbortHandle::is_finished) {
            let shared = Arc::clone(&self.shared);
            *keeper = Some(tokio::spawn(async move { shared.keep().await }).abort_handle());
        }
    }

    async fn first_attempt(&self) -> Result<Arc<Link>, Disconnected> {
        let mut state = self.shared.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                State::Up(link) => return Ok(Arc::clone(link)),
                State::Down(error) => return Err(Disconnected::Because(error.clone())),
                State::Untried => {}
            }
            if state.changed().await.is_err() {
                return Err(Disconnected::NotYet);
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut();
        if let Some(keeper) = keeper.unwrap_or_else(PoisonError::into_inner) {
            keeper.abort();
        }
    }
}

/// Forgets the connection when the task that keeps it ends, as with its runtime.
struct KeepingGuard<'a>(&'a Shared);

impl Drop for KeepingGuard<'_> {
    fn drop(&mut self) {
        self.0.is(State::Untried);
    }
}

impl Shared {
    fn is(&self, state: State) {
        let link = match &state {
            State::Up(link) => Some(Arc::clone(link)),
            State::Untried | State::Down(_) => None,
        };
        if let Some(gone) = self.link.swap(link) {
            self.settings.history().connection_ended(&gone);
        }
        self.state.send_replace(state);
    }

    /// Whether it is time to tell that a connection was lost: for one server at most once a second.
    fn is_to_be_told(&self) -> bool {
        let mut last_told = self
            .last_told
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_time = last_told.is_none_or(|told| told.elapsed() >= LOG_INTERVAL);
        if is_time {
            *last_told = Some(Instant::now());
        }
        is_time
    }

    /// Makes a connection, watches it, and makes another one when it is lost or hung, for ever.
    async fn keep(&self) {
        let _keeping = KeepingGuard(self);
        let server = self.settings.name();
        let mut lost: Option<(Instant, bool)> = None;
        let mut pause = Duration::ZERO;
        loop {
            let made = Instant::now();
            let error = match self.settings.connect().await {
                Ok((client, mut running)) => {
                    if let Some((lost, is_told)) = lost.take() {
                        self.settings.history().reconnected();
                        let after = lost.elapsed();
                        if is_told {
                            tracing::info!(target: "tollgate::store", server, ?after, "connected to Redis again");
                        }
                    }
                    let link = Arc::new(Link::new(client, self.settings.deadline()));
                    self.is(State::Up(Arc::clone(&link)));
                    let error = tokio::select! {
                        error = running.ended() => error,
                        () = link.is_hung() => Error::new(ErrorKind::Timeout, "nothing was answered for a second"),
                        () = link.is_read_only() => Error::new(ErrorKind::Unknown, "READONLY the server is no primary"),
                    };
                    let is_told = self.is_to_be_told();
                    if is_told {
                        tracing::warn!(target: "tollgate::store", server, %error, "lost a connection to Redis");
                    }
                    lost = Some((Instant::now(), is_told));
                    if made.elapsed() >= MAX_PAUSE {
                        pause = Duration::ZERO;
                    }
                    error
                }
                Err(error) => error,
            };
            self.is(State::Down(error));
            sleep(pause.mul_f64(0.5 + chance() / 2.0)).await;
            pause = (2 * pause).clamp(MIN_PAUSE, MAX_PAUSE);
        }
    }
}

/// From 0 to 1, so that many processes don't come back at the same instant.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}
