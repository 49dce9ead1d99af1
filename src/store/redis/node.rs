//! The connections to one server, or to the primary behind Sentinel: each is watched, and replaced
//! when it is lost or hung.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use tokio::{sync::watch, task::JoinSet};

use crate::error::StoreError;

use super::{
    failure,
    health::Throttle,
    link::Link,
    loads::Loads,
    lock,
    settings::{Pauses, Settings},
};

/// A server, and the connections to it that take turns.
pub(super) struct Node {
    /// Its name or address; that of any sentinel, behind Sentinel.
    pub(super) host: String,
    connections: Box<[Arc<Connection>]>,
    next: AtomicUsize,
    /// The tasks of the connections.
    keepers: Mutex<JoinSet<()>>,
    pub(super) loads: Arc<Loads>,
}

impl Node {
    pub(super) fn new(settings: Settings) -> Self {
        let host = settings.hosts().first().map(|first| first.host.to_string());
        let (settings, events) = (Arc::new(settings), Arc::<Events>::default());
        let connection = |_| {
            Arc::new(Connection {
                settings: Arc::clone(&settings),
                events: Arc::clone(&events),
                state: watch::Sender::new(None),
            })
        };
        Self {
            host: host.unwrap_or_default(),
            connections: (0..settings.connections.max(1)).map(connection).collect(),
            next: AtomicUsize::new(0),
            keepers: Mutex::default(),
            loads: Arc::default(),
        }
    }

    /// The next connection that takes a command, or why there is none: see [`Link::outage`]. One
    /// that is suspected to hang is taken only if there is no other. At first this waits for the
    /// first attempt to connect.
    pub(super) async fn link(&self, is_late: bool) -> Result<Arc<Link>, StoreError> {
        loop {
            if let Some(link) = self.known_link(is_late) {
                return link;
            }
            self.start_keepers();
            let mut first = self.connections[0].state.subscribe();
            let _ = first.wait_for(Option::is_some).await;
        }
    }

    /// The same; none, if the first attempt to connect has not ended.
    fn known_link(&self, is_late: bool) -> State {
        let turn = self.next.fetch_add(1, Relaxed) % self.connections.len();
        let (before, after) = self.connections.split_at(turn);
        let mut second_best = None;
        let in_turn = after.iter().chain(before);
        for link in in_turn.filter_map(|connection| connection.link(is_late)) {
            match (link, &second_best) {
                (Ok(link), _) if !link.is_suspect() => return Some(Ok(link)),
                (_, Some(Ok(_))) => {}
                (link, _) => second_best = Some(link),
            }
        }
        second_best
    }

    /// Whether the first attempt to connect has ended.
    pub(super) fn was_tried(&self) -> bool {
        self.connections[0].state.borrow().is_some()
    }

    /// Why no connection takes a decision, or what nobody waits for; none, if one does, or has not
    /// been tried.
    pub(super) fn outage(&self, is_late: bool) -> Option<StoreError> {
        let mut outage = None;
        for connection in &self.connections {
            outage = Some(connection.link(is_late)?.err()?);
        }
        outage
    }

    /// Starts the tasks that connect and reconnect, unless they run.
    fn start_keepers(&self) {
        let mut keepers = lock(&self.keepers);
        while keepers.try_join_next().is_some() {}
        if keepers.is_empty() {
            for connection in &self.connections {
                keepers.spawn(Arc::clone(connection).keep_connected());
            }
        }
    }
}

/// What is known of a connection: that it is up, or why it is not; nothing, before the first
/// attempt to connect has ended.
type State = Option<Result<Arc<Link>, StoreError>>;

/// A connection, which is replaced when it is lost or hung.
struct Connection {
    settings: Arc<Settings>,
    events: Arc<Events>,
    state: watch::Sender<State>,
}

/// The events about a server. The connections of a pool share them, so that a restart of the server
/// is not logged by each.
#[derive(Default)]
struct Events {
    lost: Throttle,
    again: Throttle,
    stops: Throttle,
}

/// Sets the state back when the task ends, as it does with its runtime.
struct KeeperGuard<'a>(&'a Connection);

impl Drop for KeeperGuard<'_> {
    fn drop(&mut self) {
        self.0.state.send_replace(None);
    }
}

impl Connection {
    /// The link, if it takes a command.
    fn link(&self, is_late: bool) -> State {
        let link = self.state.borrow().clone()?;
        Some(link.and_then(|link| link.outage(is_late).map_or(Ok(link), Err)))
    }

    /// Connects, and connects again whenever the connection is lost or hung, for ever.
    async fn keep_connected(self: Arc<Self>) {
        let _guard = KeeperGuard(&self);
        let server = self.settings.name();
        let mut lost: Option<Instant> = None;
        let mut pauses = Pauses::new();
        loop {
            let began = Instant::now();
            let error = match self.settings.connect().await {
                Ok((client, mut running)) => {
                    if let Some(lost) = lost {
                        lock(&self.settings.usage).reconnects += 1;
                        let after = lost.elapsed();
                        if self.events.again.pass().is_some() {
                            tracing::info!(target: "tollgate::store", server, ?after, "connected to Redis again");
                        }
                    }
                    let link = Arc::new(Link::new(client, &self.settings));
                    self.state.send_replace(Some(Ok(Arc::clone(&link))));
                    let error = tokio::select! {
                        error = running.ended() => error,
                        error = link.until_unfit(&self.events.stops) => error,
                    };
                    lost = Some(Instant::now());
                    if self.events.lost.pass().is_some() {
                        tracing::warn!(target: "tollgate::store", server, %error, "lost a connection to Redis");
                    }
                    error
                }
                Err(error) => error,
            };
            let error = failure::no_connection(&error);
            self.state.send_replace(Some(Err(error)));
            match began.elapsed() < Pauses::MAX {
                true => pauses.pause().await,
                false => pauses = Pauses::new(),
            }
        }
    }
}
