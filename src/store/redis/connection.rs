//! The caller's own client, asked with a bound on what may be waiting for an answer.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use fred::{
    clients::{Client, Pool, WithOptions},
    error::Error,
    interfaces::ClientLike,
    prelude::Value,
    types::{ClusterHash, CustomCommand, Resp3Frame, config::Options},
};

use super::Later;

/// What a [`RedisStore`](super::RedisStore) sends its scripts over: a `fred` client, or a pool of them that take turns,
/// with whatever TLS, users, sockets and topology (one server, Sentinel, Cluster) they were built with.
///
/// The store's commands have settings of their own, whatever the client's are: each is sent once, fails at once while
/// there is no connection, and ends with the store's deadline. Everything else is the client's: how it reconnects, and
/// when it takes a connection for dead.
#[derive(Clone)]
pub struct RedisConnection {
    clients: Arc<[WithOptions<Client>]>,
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
        let options = Options {
            // A command that was sent may have been charged: it is never sent again.
            max_attempts: Some(1),
            // While there is no connection nothing waits for one.
            fail_fast: true,
            // The deadline is the store's own; a command is watched until it is answered.
            timeout: Some(Duration::ZERO),
            ..Options::default()
        };
        let clients = clients.into_iter();
        Self {
            clients: clients
                .map(|client| client.with_options(&options))
                .collect(),
            next: Arc::new(AtomicUsize::new(0)),
        }
    }

    fn client(&self) -> &WithOptions<Client> {
        match &*self.clients {
            [only] => only,
            several => &several[self.next.fetch_add(1, Ordering::Relaxed) % several.len()],
        }
    }

    /// Drops the connections and makes new ones: the server is no longer a primary.
    pub(super) fn reconnect(&self) {
        for client in &*self.clients {
            let client = client.clone();
            tokio::spawn(async move { client.force_reconnection().await });
        }
    }
}

/// Asks Redis, and knows how many questions are not answered yet.
#[derive(Clone)]
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

    pub(super) fn connection(&self) -> &RedisConnection {
        &self.connection
    }

    /// Sends a command to the node that holds the slot.
    pub(super) fn ask(
        &self,
        command: &'static str,
        hash: ClusterHash,
        arguments: Vec<Value>,
    ) -> Result<Question, Busy> {
        let place = self.take_place().ok_or(Busy)?;
        let client = self.connection.client().clone();
        let command = CustomCommand::new_static(command, hash, false);
        let answer = async move {
            let answer = client.custom_raw(command, arguments).await;
            drop(place);
            answer
        };
        Ok(Question {
            answer: Some(Box::pin(answer)),
            is_sent: false,
        })
    }

    fn take_place(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.unanswered));
        let before = self.unanswered.fetch_add(1, Ordering::Relaxed);
        (before < self.most_unanswered).then_some(place)
    }
}

struct Place(Arc<AtomicUsize>);

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
