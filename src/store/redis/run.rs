//! Runs a script within the deadline: loads it where it is gone, and follows a slot that moves.

use std::{future::Future, sync::Arc, time::Instant};

use bytes::Bytes;
use fred::{
    error::{Error, ErrorKind},
    prelude::Value,
    types::Resp3Frame,
};

use crate::error::{StoreError, StoreErrorKind};

use super::{
    Shared,
    failure::{self, Elsewhere, NOSCRIPT},
    link::Link,
    loads::{LONGEST_LOAD, Unloaded},
    node::Node,
    scripts::Loadable,
};

/// How often a command is sent that the cluster has sent elsewhere, or whose script was gone: it
/// was not executed.
const ATTEMPTS: usize = 5;

/// A command that was not executed, or not to its end.
enum Refused {
    NoScript,
    Elsewhere(Elsewhere),
    /// Redis has said no.
    Answered(StoreError),
    Failed(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A command about keys of one slot.
struct Command<'a> {
    /// The script that is run; without one the keys are deleted.
    script: Option<&'a Loadable>,
    keys: Vec<Bytes>,
    arguments: Option<Bytes>,
    /// From then on its answer is of no use.
    until: Instant,
}

impl Command<'_> {
    fn name(&self) -> &'static str {
        match self.script {
            Some(_) => "EVALSHA",
            None => "DEL",
        }
    }

    /// What is sent: made anew each time, as it is nearly always sent once.
    fn values(&self) -> Vec<Value> {
        let mut values = Vec::with_capacity(3 + self.keys.len());
        if let Some(script) = self.script {
            values.push(script.sha1.clone());
            values.push(match self.keys.len() {
                // Not written with digits each time.
                1 => Value::from_static_str("1"),
                keys => Value::from(keys as i64),
            });
        }
        values.extend(self.keys.iter().cloned().map(Value::Bytes));
        values.extend(self.arguments.clone().map(Value::Bytes));
        values
    }
}

/// Where a command is sent: to the node that holds its slot, or to the one that takes the slot
/// over.
struct Place {
    node: Arc<Node>,
    asking: bool,
}

impl Shared {
    /// Runs the script; one that Redis does not have is not run, so it is loaded and run again.
    pub(super) async fn run(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Bytes,
    ) -> Result<Bytes, StoreError> {
        let command = Command {
            script: Some(script),
            keys,
            arguments: Some(arguments),
            until: Instant::now() + self.deadline,
        };
        let slot = self.slot_of(&command.keys[0]);
        let done = self.follow(command).await;
        script.loads.weigh(|| self.servers.server_of(slot), done)
    }

    /// The slot of a key; 0 outside of a cluster.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        self.servers.slot_of(key)
    }

    /// Deletes the keys, all in one slot.
    pub(super) async fn delete(&self, keys: Vec<Bytes>) -> Result<(), StoreError> {
        let command = Command {
            script: None,
            keys,
            arguments: None,
            until: Instant::now() + self.deadline,
        };
        self.follow(command).await.map(drop)
    }

    /// Waits for the work till the deadline.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.until(Instant::now() + self.deadline, work).await
    }

    /// Waits for the work till then. Work that is done at once sets no timer.
    async fn until<T>(
        &self,
        until: Instant,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout_at(until.into(), work).await {
            Ok(done) => done,
            Err(_) if self.servers.is_untried() => Err(failure::not_yet()),
            Err(_) => Err(failure::late(self.deadline)),
        }
    }

    /// Sends the command until a node has executed it: to where the cluster sends it, and after its
    /// script is loaded.
    ///
    /// An answer is waited for by the client's own timer, which also keeps what is late from being
    /// sent; all else by [`until`](Self::until). A timer around everything would take a tenth
    /// of the requests that one connection can carry.
    async fn follow(&self, command: Command<'_>) -> Result<Bytes, StoreError> {
        let slot = self.servers.slot_of(&command.keys[0]);
        let mut place = Place {
            node: match self.servers.known_node_of(slot) {
                Some(node) => node?,
                None => {
                    self.until(command.until, self.servers.node_of(slot))
                        .await?
                }
            },
            asking: false,
        };
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            let seen = command.script.map_or(0, |script| script.loads.so_far());
            let refused = match self.send(&place, &command, attempt == 0).await {
                Ok(answer) => return Ok(answer),
                Err(Refused::Failed(error)) => return Err(error),
                Err(Refused::Answered(error)) => {
                    if let Some(script) = command.script {
                        script.loads.refused(place.node.server(), &error);
                    }
                    return Err(error);
                }
                Err(refused) => refused,
            };
            match (&refused, command.script) {
                // In a box, as it is rare, and would be a part of every decision's future.
                (Refused::NoScript, Some(script)) => {
                    let load = Box::pin(self.load(&place.node, script, seen));
                    self.until(command.until, load).await?;
                }
                (Refused::Elsewhere(elsewhere), _) => place = self.place(elsewhere)?,
                _ => {}
            }
            last = Some(refused);
        }
        Err(match (last, command.script) {
            (Some(Refused::NoScript), Some(script)) => {
                let error = StoreError::new(
                    StoreErrorKind::Misconfigured,
                    "Redis forgets the script as soon as it is loaded",
                );
                script.loads.refused(place.node.server(), &error);
                error
            }
            _ => failure::unavailable(
                "the nodes of the cluster do not agree on who holds the slot of the key",
            ),
        })
    }

    /// Where a node of the cluster sends a command.
    fn place(&self, elsewhere: &Elsewhere) -> Result<Place, StoreError> {
        let Some(cluster) = self.servers.cluster() else {
            return Err(StoreError::new(
                StoreErrorKind::Misconfigured,
                "Redis is a cluster, and the client is set up for one server",
            ));
        };
        let (server, asking) = match elsewhere {
            Elsewhere::Moved(server) => {
                cluster.look_again();
                (server, false)
            }
            Elsewhere::Ask(server) => (server, true),
        };
        let node = cluster.node(server);
        Ok(Place { node, asking })
    }

    /// Loads the script to one node, unless somebody did it since `seen`.
    async fn load(&self, node: &Node, script: &Loadable, seen: u64) -> Result<(), StoreError> {
        let link = self.link(node).await?;
        let ask = || {
            let values = vec![
                Value::from_static_str("LOAD"),
                Value::from(script.text.as_str()),
            ];
            let bounds = (LONGEST_LOAD, self.servers.max_unanswered);
            link.send("SCRIPT", values, bounds)
        };
        let loaded = script.loads.load(node.server().cloned(), seen, ask).await;
        loaded.map_err(|unloaded| match unloaded {
            Unloaded::Refused(message) => failure::answered(&message),
            Unloaded::Busy => self.busy(),
            Unloaded::Unanswered(error) => self.unanswered(error),
            Unloaded::Aborted => failure::unavailable("the runtime shuts down"),
        })
    }

    async fn send(
        &self,
        place: &Place,
        command: &Command<'_>,
        is_first: bool,
    ) -> Result<Bytes, Refused> {
        let asked = (command.name(), command.values());
        self.ask(&place.node, place.asking, asked, (command.until, is_first))
            .await
    }

    /// Sends a command to a node, waits for the answer, and sorts it.
    async fn ask(
        &self,
        node: &Node,
        asking: bool,
        (name, values): (&'static str, Vec<Value>),
        (until, is_first): (Instant, bool),
    ) -> Result<Bytes, Refused> {
        let (link, time) = match node.link_in_turn() {
            Some(link) if is_first => (link, self.deadline),
            Some(link) => (link, until.saturating_duration_since(Instant::now())),
            None => {
                let link = self.until(until, self.link(node)).await?;
                (link, until.saturating_duration_since(Instant::now()))
            }
        };
        let bounds = (time, self.servers.max_unanswered);
        let sent = match asking {
            false => link.send(name, values, bounds),
            true => link.send_asking(name, values, bounds),
        };
        let Ok(sent) = sent else {
            return Err(self.busy().into());
        };
        let frame = match sent.await {
            Ok(frame) => frame,
            Err(error) => return Err(self.unanswered(error).into()),
        };
        let message = match sorted(frame) {
            Ok(answer) => return Ok(answer),
            Err(message) => message,
        };
        if let Some(elsewhere) = Elsewhere::read(&message, node.server()) {
            return Err(Refused::Elsewhere(elsewhere));
        }
        match failure::code(&message) {
            NOSCRIPT => Err(Refused::NoScript),
            _ => Err(Refused::Answered(failure::answered(&message))),
        }
    }

    /// The connection to a node whose turn it is.
    async fn link(&self, node: &Node) -> Result<Arc<Link>, StoreError> {
        node.link().await.map_err(|disconnected| {
            self.node_is_ill();
            StoreError::from(disconnected)
        })
    }

    fn busy(&self) -> StoreError {
        self.node_is_ill();
        failure::busy()
    }

    /// No answer came.
    fn unanswered(&self, error: Error) -> StoreError {
        self.node_is_ill();
        match error.kind() {
            ErrorKind::Timeout => failure::late(self.deadline),
            _ => failure::unanswered(error),
        }
    }

    /// A node does not answer: another one may hold its slots by now.
    fn node_is_ill(&self) {
        if let Some(cluster) = self.servers.cluster() {
            cluster.look_again();
        }
    }
}

/// The answer, or the error that Redis answered.
pub(super) fn sorted(frame: Resp3Frame) -> Result<Bytes, String> {
    match frame {
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::VerbatimString { data, .. } => Ok(data),
        Resp3Frame::Number { .. } => Ok(Bytes::new()),
        Resp3Frame::SimpleError { data, .. } => Err(data.to_string()),
        Resp3Frame::BlobError { data, .. } => Err(String::from_utf8_lossy(&data).into_owned()),
        _ => Err("an answer of an unexpected kind".to_owned()),
    }
}
