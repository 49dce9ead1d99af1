//! One client: when it can be asked, and why it cannot.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use fred::{
    clients::{Client, WithOptions},
    error::Error,
    interfaces::{ClientLike, ClusterInterface, EventInterface},
    prelude::Value,
    types::{
        ClientState, ClusterHash, CustomCommand, Resp3Frame,
        config::{ConnectionConfig, Options, ReconnectPolicy, Server},
    },
};
use tokio::{
    sync::broadcast::{Receiver, error::TryRecvError},
    task::AbortHandle,
    time::sleep,
};

use super::{Later, connection::Place};

/// A client with the options of a decision.
pub(super) struct Peer {
    client: Arc<WithOptions<Client>>,
    /// Where the connections are not the caller's.
    own: Option<Own>,
    trouble: Mutex<Trouble>,
    reconnects: Arc<AtomicBool>,
}

/// A client that the store connects itself, and ends.
#[derive(Default)]
struct Own {
    was_connected: AtomicBool,
    task: Mutex<Option<AbortHandle>>,
}

/// What the client last told about its connections.
struct Trouble {
    events: Receiver<(Error, Option<Server>)>,
    last: Option<Error>,
}

/// Why a client has no connection.
pub(super) enum Apart {
    /// Nobody has connected it.
    Never,
    /// It is about to.
    NotYet,
    /// It lost it, or does not get one.
    Because(Error),
}

impl Peer {
    pub(super) fn of(client: Client) -> Self {
        if !client.has_reconnect_policy() && !client.is_clustered() {
            tracing::warn!(
                target: "tollgate::store",
                "the Redis client has no reconnect policy: it ends with the first connection that it loses"
            );
        }
        let (client, own) = match client.is_clustered() {
            true => (own_client(&client), Some(Own::default())),
            false => (client, None),
        };
        let trouble = Trouble {
            events: client.error_rx(),
            last: None,
        };
        Self {
            client: Arc::new(client.with_options(&options(None))),
            own,
            trouble: Mutex::new(trouble),
            reconnects: Arc::default(),
        }
    }

    pub(super) fn is_clustered(&self) -> bool {
        self.own.is_some()
    }

    /// Waits for the first connection, if the store makes it; what is lost later is not waited for.
    pub(super) async fn ready(&self) {
        let Some(own) = &self.own else {
            return;
        };
        if own.was_connected.load(Ordering::Relaxed) {
            return;
        }
        while !self.client.is_connected() {
            own.connect(&self.client);
            sleep(Duration::from_millis(1)).await;
        }
        own.was_connected.store(true, Ordering::Relaxed);
    }

    /// Sends a command to the node that holds the slot; `place` is kept until it is answered.
    ///
    /// fred's future takes 7 kB. So it is made where it stays: `Box::pin` would make it on the stack, and copy all of it.
    pub(super) fn send(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
        slot: u16,
        place: Place,
    ) -> Later<Result<Resp3Frame, Error>> {
        let client = Arc::clone(&self.client);
        // Of a command that it does not know, fred heeds no other hash.
        let hash = ClusterHash::Custom(slot);
        let command = CustomCommand::new_static(command, hash, false);
        let answer = Box::write(Box::new_uninit(), async move {
            let answer = client.custom_raw(command, arguments).await;
            drop(place);
            answer
        });
        Box::into_pin(answer)
    }

    /// Sends a command to this node.
    pub(super) fn send_to(
        &self,
        node: Server,
        command: &'static str,
        arguments: Vec<Value>,
        place: Place,
    ) -> Later<Result<Resp3Frame, Error>> {
        let client = (**self.client).with_options(&options(Some(node)));
        let command = CustomCommand::new_static(command, None, false);
        Box::pin(async move {
            let answer = client.custom_raw(command, arguments).await;
            drop(place);
            answer
        })
    }

    /// Sends a command to a node that takes over the slot of its keys.
    pub(super) fn send_asking(
        &self,
        node: Server,
        command: &'static str,
        arguments: Vec<Value>,
        place: Place,
    ) -> Later<Result<Resp3Frame, Error>> {
        // One pipeline: nothing else comes between the two on that connection.
        let both = self.client.pipeline().with_options(&options(Some(node)));
        Box::pin(async move {
            let _place = place;
            let asking = CustomCommand::new_static("ASKING", None, false);
            let command = CustomCommand::new_static(command, None, false);
            let _: Value = both.custom(asking, Vec::<Value>::new()).await?;
            let _: Value = both.custom(command, arguments).await?;
            let answers = both.try_all::<Value>().await;
            match answers.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(mut answers) => Ok(Resp3Frame::BlobString {
                    data: answers.pop().unwrap_or(Value::Null).convert()?,
                    attributes: None,
                }),
                // What the server answers begins with its code; what the client says does not.
                Err(error) if begins_with_a_code(error.details()) => Ok(Resp3Frame::SimpleError {
                    data: error.details().into(),
                    attributes: None,
                }),
                Err(error) => Err(error),
            }
        })
    }

    /// The node that holds this slot, as far as the client knows; `None` outside of a cluster.
    pub(super) fn node_of(&self, slot: u16) -> Option<Server> {
        let nodes = self.own.as_ref().and(self.client.cached_cluster_state())?;
        nodes.get_server(slot).cloned()
    }

    /// The nodes that the client has connections to; none outside of a cluster.
    pub(super) fn nodes(&self) -> Vec<Server> {
        let nodes = self.own.as_ref().and(self.client.cached_cluster_state());
        nodes.map_or_else(Vec::new, |nodes| nodes.unique_primary_nodes())
    }

    /// Why there is no connection, if there is none.
    pub(super) fn apart(&self) -> Option<Apart> {
        let last = self.trouble().last(&self.client);
        match (self.client.state(), last) {
            (ClientState::Connected, _) => None,
            (_, Some(error)) => Some(Apart::Because(error)),
            (ClientState::Disconnected, None) if self.own.is_none() => Some(Apart::Never),
            (_, None) => Some(Apart::NotYet),
        }
    }

    /// Drops the connection and makes a new one, since the server is no longer a primary: at most once a second.
    ///
    /// Not in a cluster, which says itself where the primary is; nor without a policy, as fred ends a client that has
    /// none when it is asked to reconnect.
    pub(super) fn reconnect(&self) {
        if self.own.is_some() || !self.client.has_reconnect_policy() {
            return;
        }
        if self.reconnects.swap(true, Ordering::Relaxed) {
            return;
        }
        let (client, reconnects) = (self.client.clone(), Arc::clone(&self.reconnects));
        tokio::spawn(async move {
            tracing::warn!(target: "tollgate::store", "Redis is read-only: looking for the primary");
            let _ = client.force_reconnection().await;
            sleep(Duration::from_secs(1)).await;
            reconnects.store(false, Ordering::Relaxed);
        });
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Own {
    fn connect(&self, client: &Client) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = Some(client.connect().abort_handle());
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Trouble {
    fn last(&mut self, client: &Client) -> Option<Error> {
        loop {
            match self.events.try_recv() {
                Ok((error, _)) => self.last = Some(error),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty) => return self.last.clone(),
                Err(TryRecvError::Closed) => {
                    // The client was told to quit, and may be connected again.
                    self.events = client.error_rx();
                    return self.last.clone();
                }
            }
        }
    }
}

/// A client like this one, for the store alone.
///
/// In a cluster fred 10.1 must not follow `ASK`: it reads an answer from the new owner's connection, whosever it is, so
/// that from then on the callers behind it get the answers of others; and without attempts left it ends the client. It
/// follows none only where the client itself is told so, which would be wrong for what else the caller asks of it.
fn own_client(client: &Client) -> Client {
    let mut config = client.client_config();
    config.fail_fast = false;
    let connection = ConnectionConfig {
        max_redirections: 0,
        max_command_attempts: 1,
        ..client.connection_config().clone()
    };
    let policy = ReconnectPolicy::new_exponential(0, 20, 500, 2);
    let perf = client.perf_config();
    Client::new(config, Some(perf), Some(connection), Some(policy))
}

fn options(cluster_node: Option<Server>) -> Options {
    Options {
        // A command that was sent may have been charged: it is never sent again.
        max_attempts: Some(1),
        // While there is no connection nothing waits for one.
        fail_fast: true,
        // The deadline is the store's own; a command is watched until it is answered.
        timeout: Some(Duration::ZERO),
        cluster_node,
        ..Options::default()
    }
}

fn begins_with_a_code(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or("");
    code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}
