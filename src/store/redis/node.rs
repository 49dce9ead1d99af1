//! One server, or the primary behind Sentinel: its connections are made, watched, and made anew.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::config::{
        Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, UnresponsiveConfig,
    },
};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinHandle},
    time::{sleep, timeout},
};

use super::{failure::Disconnected, link::Link};

/// How long each step of a handshake may take, at least.
const SHORTEST_HANDSHAKE: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// That a connection to a server was lost is told at most this often.
const TOLD_AGAIN: Duration = Duration::from_secs(1);

/// How connections are made: as the caller's client would, but for what the store decides itself.
#[derive(Clone)]
pub(super) struct Settings {
    config: Config,
    connection: ConnectionConfig,
    performance: PerformanceConfig,
    /// How long each step of a handshake may take.
    handshake: Duration,
    /// How long a decision may take.
    deadline: Duration,
    past: Arc<Past>,
}

/// What became of the connections that were there before, to any server.
#[derive(Default)]
pub(super) struct Past {
    /// How often one was made after another one was lost or given up.
    reconnects: AtomicU64,
    /// The last answer over one that is gone.
    last_answer: Mutex<Option<Instant>>,
}

impl Past {
    pub(super) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(super) fn last_answer(&self) -> Option<Instant> {
        *self
            .last_answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, link: &Link) {
        let mut last = self
            .last_answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = (*last).max(link.last_answer());
    }
}

impl Settings {
    pub(super) fn of(client: &Client, deadline: Duration) -> Self {
        let handshake = SHORTEST_HANDSHAKE.max(deadline.saturating_mul(4));
        let mut connection = ConnectionConfig {
            connection_timeout: handshake,
            internal_command_timeout: handshake,
            max_command_attempts: 1,
            // What waits is bounded by the store.
            max_command_buffer_len: 0,
            // Whether a connection is hung is seen by the store.
            unresponsive: UnresponsiveConfig {
                max_timeout: None,
                ..UnresponsiveConfig::default()
            },
            ..client.connection_config().clone()
        };
        // Small commands one after the other: nobody waits for the acknowledgement of the one before.
        connection.tcp.nodelay = connection.tcp.nodelay.or(Some(true));
        Self {
            config: Config {
                fail_fast: true,
                ..client.client_config()
            },
            connection,
            performance: client.perf_config(),
            handshake,
            deadline,
            past: Arc::default(),
        }
    }

    pub(super) fn past(&self) -> Arc<Past> {
        Arc::clone(&self.past)
    }

    pub(super) fn is_clustered(&self) -> bool {
        self.config.server.is_clustered()
    }

    pub(super) fn hosts(&self) -> Vec<Server> {
        self.config.server.hosts()
    }

    /// The same for one node of a cluster.
    pub(super) fn of_node(&self, server: Server) -> Self {
        let mut settings = self.clone();
        settings.config.server = ServerConfig::Centralized { server };
        settings
    }

    /// Connects a new client, which ends with its connection.
    async fn connect(&self) -> Result<(Client, Running), Error> {
        let client = Client::new(
            self.config.clone(),
            Some(self.performance.clone()),
            Some(self.connection.clone()),
            None,
        );
        let mut running = Running(client.connect());
        // Behind Sentinel there are some steps more, of which fred leaves one without a limit.
        let limit = 6 * self.handshake;
        let connected = async {
            tokio::select! {
                biased;
                ended = &mut running.0 => Err(why_it_ended(ended)),
                connected = client.wait_for_connect() => connected,
            }
        };
        match timeout(limit, connected).await {
            Ok(connected) => connected.map(|()| (client, running)),
            Err(_) => Err(Error::new(ErrorKind::Timeout, "no end of the handshake")),
        }
    }
}

/// The task of a connection, which ends with this.
struct Running(JoinHandle<Result<(), Error>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn why_it_ended(ended: Result<Result<(), Error>, tokio::task::JoinError>) -> Error {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => Error::new(ErrorKind::Canceled, "it was closed"),
        Err(error) => Error::new(ErrorKind::Unknown, error.to_string()),
    }
}

/// A server, and the connections to it that take turns.
pub(super) struct Node {
    server: Option<Server>,
    connections: Box<[Connection]>,
    next: AtomicUsize,
}

impl Node {
    pub(super) fn new(settings: &Settings, connections: usize) -> Self {
        let server = match &settings.config.server {
            ServerConfig::Centralized { server } => Some(server.clone()),
            _ => None,
        };
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

    /// The next connection that answers, or one that may. If none was ever tried, this waits for the first attempt.
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

/// When it was last told that a connection to this server was lost: of those of a pool not each tells the same.
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
struct Keeping<'a>(&'a Shared);

impl Drop for Keeping<'_> {
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
            self.settings.past.is_over(&gone);
        }
        self.state.send_replace(state);
    }

    /// Whether it is time to tell that a connection was lost: for one server at most once a second.
    fn is_to_be_told(&self) -> bool {
        let mut last_told = self
            .last_told
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_time = last_told.is_none_or(|told| told.elapsed() >= TOLD_AGAIN);
        if is_time {
            *last_told = Some(Instant::now());
        }
        is_time
    }

    /// Makes a connection, watches it, and makes another one when it is lost or hung, for ever.
    async fn keep(&self) {
        let _keeping = Keeping(self);
        let server = Named(&self.settings.config.server).to_string();
        let mut lost: Option<(Instant, bool)> = None;
        let mut pause = Duration::ZERO;
        loop {
            let made = Instant::now();
            let error = match self.settings.connect().await {
                Ok((client, mut running)) => {
                    if let Some((lost, is_told)) = lost.take() {
                        self.settings
                            .past
                            .reconnects
                            .fetch_add(1, Ordering::Relaxed);
                        let after = lost.elapsed();
                        if is_told {
                            tracing::info!(target: "tollgate::store", server, ?after, "connected to Redis again");
                        }
                    }
                    let link = Arc::new(Link::new(client, self.settings.deadline));
                    self.is(State::Up(Arc::clone(&link)));
                    let error = tokio::select! {
                        ended = &mut running.0 => why_it_ended(ended),
                        () = link.is_hung() => Error::new(ErrorKind::Timeout, "nothing was answered for a second"),
                        () = link.is_read_only() => Error::new(ErrorKind::Unknown, "READONLY the server is no primary"),
                    };
                    let is_told = self.is_to_be_told();
                    if is_told {
                        tracing::warn!(target: "tollgate::store", server, %error, "lost a connection to Redis");
                    }
                    lost = Some((Instant::now(), is_told));
                    if made.elapsed() >= LONGEST_PAUSE {
                        pause = Duration::ZERO;
                    }
                    error
                }
                Err(error) => error,
            };
            self.is(State::Down(error));
            sleep(pause.mul_f64(0.5 + chance() / 2.0)).await;
            pause = (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }
}

/// From 0 to 1, so that many processes don't come back at the same instant.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// A server as an operator knows it.
struct Named<'a>(&'a ServerConfig);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ServerConfig::Centralized { server } => write!(f, "{server}"),
            ServerConfig::Sentinel { service_name, .. } => {
                write!(f, "the primary of {service_name}")
            }
            other => {
                let hosts: Vec<_> = other.hosts().iter().map(ToString::to_string).collect();
                f.write_str(&hosts.join(", "))
            }
        }
    }
}
