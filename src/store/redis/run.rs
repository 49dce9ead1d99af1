//! What happens to one decision: its script is sent, and its answer waited for until the deadline.
//! A script that is gone is loaded, and a slot that moves is followed.

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
    arguments::Arguments,
    failure::{self, Elsewhere, NOSCRIPT},
    link::{Busy, Link, Sent},
    loads::{LOAD_TIMEOUT, Unloaded},
    node::Node,
    scripts::Loadable,
};

/// How often a command is sent if it was not executed: a node redirected it, or had no script.
const MAX_ATTEMPTS: usize = 5;

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
pub(super) struct Command<'a> {
    /// The script that is run; without one the keys are deleted.
    script: Option<&'a Loadable>,
    keys: Vec<Bytes>,
    arguments: Option<Arguments>,
    /// From then on its answer is of no use.
    until: Instant,
}

impl Command<'_> {
    /// The first of its keys.
    pub(super) fn key(&self) -> &Bytes {
        &self.keys[0]
    }

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
        values.extend(
            (self.arguments.iter())
                .flat_map(Arguments::values)
                .map(Value::Bytes),
        );
        values
    }

    /// The load generation of its script.
    fn load_generation(&self) -> u64 {
        self.script.map_or(0, |script| script.loads.generation())
    }
}

/// Where a command is sent: to the node that holds its slot, or to the one that takes the slot
/// over.
struct Target {
    node: Arc<Node>,
    asking: bool,
}

impl Shared {
    /// Runs the script; one that Redis does not have is not run, so it is loaded and run again.
    pub(super) async fn run(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Arguments,
    ) -> Result<Bytes, StoreError> {
        self.execute(&self.command(script, keys, arguments)).await
    }

    /// A script with its keys and arguments, which has until the deadline from now on.
    pub(super) fn command<'a>(
        &self,
        script: &'a Loadable,
        keys: Vec<Bytes>,
        arguments: Arguments,
    ) -> Command<'a> {
        Command {
            script: Some(script),
            keys,
            arguments: Some(arguments),
            until: Instant::now() + self.deadline,
        }
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
        self.execute(&command).await.map(drop)
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
    /// Nearly always there is a connection, and its first answer is the last word. All else is in a
    /// box, so that it is no part of the future of each decision: that was 1.8 kB with it, which
    /// an allocator hands out far more slowly than what it keeps at hand (up to 1 kB), and which
    /// moves between the processors with each answer.
    ///
    /// An answer is waited for by the client's own timer, which also keeps what is late from being
    /// sent; all else by [`until`](Self::until). A timer around everything would take a tenth
    /// of the requests that one connection can carry.
    pub(super) async fn execute(&self, command: &Command<'_>) -> Result<Bytes, StoreError> {
        let generation = command.load_generation();
        let slot = self.servers.slot_of(command.key());
        let follow = |answered| Box::pin(self.follow(command, slot, answered, generation));
        let link = self.servers.link_in_turn(slot);
        let done = match link.map(|link| self.sent(link, command)) {
            Some(Ok(sent)) => match sent.await {
                Ok(Resp3Frame::BlobString { data, .. }) => Ok(data),
                answered => follow(Some(answered)).await,
            },
            Some(Err(error)) => Err(error),
            None => follow(None).await,
        };
        match command.script {
            Some(script) => script.loads.weigh(|| self.servers.server_of(slot), done),
            None => done,
        }
    }

    fn sent(&self, link: Arc<Link>, command: &Command<'_>) -> Result<Sent, StoreError> {
        let bounds = (self.deadline, self.servers.max_unanswered);
        let sent = link.send(command.name(), command.values(), bounds);
        sent.map_err(|Busy| self.busy())
    }

    /// Goes on with a command that was answered so, or that could not be sent at once.
    async fn follow(
        &self,
        command: &Command<'_>,
        slot: u16,
        answered: Option<Result<Resp3Frame, Error>>,
        mut generation: u64,
    ) -> Result<Bytes, StoreError> {
        let mut target = Target {
            node: match self.servers.known_node_of(slot) {
                Some(node) => node?,
                None => {
                    self.until(command.until, self.servers.node_of(slot))
                        .await?
                }
            },
            asking: false,
        };
        let mut answered = answered.map(|answer| self.sort(&target.node, answer));
        let mut last = None;
        for _ in 0..MAX_ATTEMPTS {
            let answer = match answered.take() {
                Some(answer) => answer,
                None => {
                    generation = command.load_generation();
                    self.send(&target, command).await
                }
            };
            let refused = match answer {
                Ok(answer) => return Ok(answer),
                Err(Refused::Failed(error)) => return Err(error),
                Err(Refused::Answered(error)) => {
                    if let Some(script) = command.script {
                        script.loads.refused(target.node.server(), &error);
                    }
                    return Err(error);
                }
                Err(refused) => refused,
            };
            match (&refused, command.script) {
                (Refused::NoScript, Some(script)) => {
                    let load = self.load(&target.node, script, generation);
                    self.until(command.until, load).await?;
                }
                (Refused::Elsewhere(elsewhere), _) => target = self.target(elsewhere)?,
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
                script.loads.refused(target.node.server(), &error);
                error
            }
            _ => failure::unavailable(
                "the nodes of the cluster do not agree on who holds the slot of the key",
            ),
        })
    }

    /// Where a node of the cluster sends a command.
    fn target(&self, elsewhere: &Elsewhere) -> Result<Target, StoreError> {
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
        Ok(Target { node, asking })
    }

    /// Loads the script to one node, unless somebody did it since `seen`.
    async fn load(&self, node: &Node, script: &Loadable, seen: u64) -> Result<(), StoreError> {
        let link = self.link(node).await?;
        let ask = || {
            let values = vec![
                Value::from_static_str("LOAD"),
                Value::from(script.text.as_str()),
            ];
            let bounds = (LOAD_TIMEOUT, self.servers.max_unanswered);
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

    /// Sends the command to a node, as long as it has time, and waits for the answer.
    async fn send(&self, target: &Target, command: &Command<'_>) -> Result<Bytes, Refused> {
        let link = match target.node.link_in_turn() {
            Some(link) => link,
            None => self.until(command.until, self.link(&target.node)).await?,
        };
        let time = command.until.saturating_duration_since(Instant::now());
        let bounds = (time, self.servers.max_unanswered);
        let sent = match target.asking {
            false => link.send(command.name(), command.values(), bounds),
            true => link.send_asking(command.name(), command.values(), bounds),
        };
        match sent {
            Ok(sent) => self.sort(&target.node, sent.await),
            Err(Busy) => Err(self.busy().into()),
        }
    }

    /// What the answer of a node means.
    fn sort(&self, node: &Node, answer: Result<Resp3Frame, Error>) -> Result<Bytes, Refused> {
        let frame = answer.map_err(|error| self.unanswered(error))?;
        let message = match failure::sorted(frame) {
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
