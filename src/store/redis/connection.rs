//! The caller's own client, asked with a bound on what may be waiting for an answer.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use fred::{
    clients::{Client, Pool},
    error::Error,
    types::Resp3Frame,
};

use super::{Later, peer::Peer};

/// What a [`RedisStore`](super::RedisStore) sends its scripts over: a `fred` client, or a pool of them that take turns,
/// with whatever TLS, users, sockets and topology (one server, Sentinel, Cluster) they were built with.
///
/// The store's commands have settings of their own, whatever the client's are: each is sent once, fails at once while
/// there is no connection, and ends with the store's deadline. Everything else is the client's: how it reconnects, and
/// when it takes a connection for dead. It needs a reconnect policy, or it ends with the first connection that it loses;
/// it may serve other commands too.
///
/// # In a cluster
///
/// Of a client of a cluster only the settings are used, and it need not be connected: the store makes connections of its
/// own at the first decision, and ends them when it is dropped. It reconnects after 20 ms at first and 500 ms at most.
/// fred 10.1 mixes up the answers of all who share a client when it follows a slot that moves (`ASK`); the store's own
/// does not, and the store follows it itself.
#[derive(Clone)]
pub struct RedisConnection {
    peers: Arc<[Peer]>,
    next: Arc<AtomicUsize>,
}

impl From<Client> for RedisConnection {
    fn from(client: Client) -> Self {
        Self::of([client])
    }
}

impl From<Pool> for RedisConnection {
    fn from(pool: Pool) -> Self {
        Self::of(pool.clients().iter().cloned())
    }
}

impl RedisConnection {
    fn of(clients: impl IntoIterator<Item = Client>) -> Self {
        Self {
            peers: clients.into_iter().map(Peer::of).collect(),
            next: Arc::new(AtomicUsize::new(0)),
        }
    }
}

/// Asks Redis, and knows how many questions are not answered yet.
pub(super) struct Line {
    connection: RedisConnection,
    most_unanswered: usize,
    unanswered: Arc<AtomicUsize>,
}

/// Too many questions are not answered yet.
pub(super) struct Busy;

impl Line {
    pub(super) fn new(connection: RedisConnection, most_unanswered: usize) -> Self {
        Self {
            connection,
            most_unanswered,
            unanswered: Arc::new(AtomicUsize::new(0)),
        }
    }

    /// The client whose turn it is.
    pub(super) fn peer(&self) -> &Peer {
        match &*self.connection.peers {
            [only] => only,
            several => {
                let turn = self.connection.next.fetch_add(1, Ordering::Relaxed);
                &several[turn % several.len()]
            }
        }
    }

    /// Takes a place for a command, and sends it.
    pub(super) fn ask(
        &self,
        send: impl FnOnce(Place) -> Later<Result<Resp3Frame, Error>>,
    ) -> Result<Question, Busy> {
        let place = self.take_place().ok_or(Busy)?;
        Ok(Question {
            answer: Some(send(place)),
            is_sent: false,
        })
    }

    fn take_place(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.unanswered));
        let before = self.unanswered.fetch_add(1, Ordering::Relaxed);
        (before < self.most_unanswered).then_some(place)
    }
}

/// A place among the unanswered: it is free again when this is dropped.
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A command on its way.
///
/// Dropping it does not take it back. It still holds its place among the unanswered until Redis or the client has
/// answered it, so that what waits behind a stalled connection stays bounded.
pub(super) struct Question {
    answer: Option<Later<Result<Resp3Frame, Error>>>,
    is_sent: bool,
}

impl Future for Question {
    type Output = Result<Resp3Frame, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.is_sent = true;
        let answer = self.answer.as_mut().expect("polled after it was ready");
        let answer = std::task::ready!(answer.as_mut().poll(cx));
        self.answer = None;
        Poll::Ready(answer)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let (Some(answer), true) = (self.answer.take(), self.is_sent)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(answer);
        }
    }
}
