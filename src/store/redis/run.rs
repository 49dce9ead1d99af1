//! Sends the script of a decision, and waits for the answer until the deadline. If Redis does not
//! have the script, it is loaded; if a slot has moved, the script is sent to its new node.

use std::{
    convert::Infallible,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::{
    error::{Error, ErrorKind},
    prelude::Value,
    types::Resp3Frame,
};

use crate::{
    error::{StoreError, StoreErrorKind},
    store::Verdict,
};

use super::{
    Shared,
    arguments::Arguments,
    failure::{self, NOSCRIPT, Redirect},
    limits::RedisLimit,
    link::{Busy, Link, PendingCommand},
    loads::{LOAD_TIMEOUT, LoadError},
    node::Node,
    scripts::Loadable,
};

/// How often a command is sent: again only if a node has redirected it, or had no script.
const MAX_ATTEMPTS: usize = 5;

/// The timeout of a command that nobody waits for.
pub(super) const LATE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a command has no reply.
enum NoReply {
    NoScript,
    Redirected(Redirect),
    /// Redis has answered with an error.
    RedisError(StoreError),
    /// There was no answer.
    Failed(StoreError),
}

impl From<StoreError> for NoReply {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A command about keys of one slot.
pub(super) struct Command<'a> {
    /// The script to run; `None` deletes the keys.
    script: Option<&'a Loadable>,
    keys: Vec<Bytes>,
    arguments: Option<Arguments>,
    /// How long its answer is waited for.
    timeout: Duration,
    deadline: Instant,
    /// Whether nobody waits for it. Then it is also sent to a server that misses deadlines.
    is_late: bool,
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

    /// The arguments of the command. Mostly they are needed once.
    fn values(&self) -> Vec<Value> {
        let mut values = Vec::with_capacity(3 + self.keys.len());
        if let Some(script) = self.script {
            values.push(script.sha1.clone());
            values.push(match self.keys.len() {
                // Without formatting a number.
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

/// The node to which a command is sent: the one that holds its slot, or the one to which the slot
/// is moving (`asking`).
struct Target {
    node: Arc<Node>,
    asking: bool,
}

impl Shared {
    /// Runs the script; if Redis does not have it, it is loaded first.
    pub(super) async fn run(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Arguments,
    ) -> Result<Bytes, StoreError> {
        self.execute(&self.command(script, keys, arguments)).await
    }

    /// A call of a script, whose deadline starts now.
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
            timeout: self.deadline,
            deadline: Instant::now() + self.deadline,
            is_late: false,
        }
    }

    /// Runs a script that nobody waits for.
    pub(super) async fn run_late(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Arguments,
    ) -> Result<Bytes, StoreError> {
        let timeout = self.deadline.max(LATE_TIMEOUT);
        self.run_within(timeout, script, keys, arguments).await
    }

    /// Runs a script whose answer is waited for this long.
    pub(super) async fn run_within(
        &self,
        timeout: Duration,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Arguments,
    ) -> Result<Bytes, StoreError> {
        let command = Command {
            timeout,
            deadline: Instant::now() + timeout,
            is_late: true,
            ..self.command(script, keys, arguments)
        };
        self.execute(&command).await
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
            timeout: self.deadline,
            deadline: Instant::now() + self.deadline,
            is_late: false,
        };
        self.execute(&command).await.map(drop)
    }

    /// The error of a decision that is not sent because the server is known to be unavailable;
    /// `None` if it is to be sent.
    pub(super) fn known_outage<L: RedisLimit<K>, K>(&self) -> Option<StoreError> {
        let outage = self.servers.outage()?;
        let loads = &L::only_scripts(&self.script_cache)?.loadable.loads;
        loads.note_first_call();
        let explained = loads.recent_misconfiguration(|| self.servers.server_of(0), &outage);
        let failed: Result<Verdict<Infallible>, _> = Err(explained.unwrap_or(outage));
        self.count(&failed);
        self.health.record(&failed, []);
        failed.err()
    }

    /// Waits for the work until the store's deadline from now.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.until(Instant::now() + self.deadline, work).await
    }

    /// Waits for the work until this deadline. Work that is done at once sets no timer.
    async fn until<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout_at(deadline.into(), work).await {
            Ok(done) => done,
            Err(_) if self.servers.is_untried() => Err(failure::not_connected_yet()),
            Err(_) => Err(failure::timed_out(self.deadline)),
        }
    }

    /// Sends the command, and sends it again if it was redirected or its script had to be loaded.
    ///
    /// Nearly always there is a connection, and its first answer is returned. Everything else is in
    /// [`retry`](Self::retry), whose future is boxed: with it the future of each decision took 1.8
    /// kB, which an allocator hands out far more slowly than up to 1 kB.
    ///
    /// The timeout of an answer is fred's own, which also keeps a command that has timed out from
    /// being sent. For the rest there is [`until`](Self::until). A timer around everything would
    /// take a tenth of the requests that one connection can carry.
    pub(super) async fn execute(&self, command: &Command<'_>) -> Result<Bytes, StoreError> {
        if let Some(script) = command.script {
            script.loads.note_first_call();
        }
        let generation = command.load_generation();
        let slot = self.servers.slot_of(command.key());
        let retry = |answered| Box::pin(self.retry(command, slot, answered, generation));
        let link = self.servers.next_link(slot);
        let done = match link.map(|link| self.send_now(link, command)) {
            Some(Ok(sent)) => match sent.await {
                Ok(Resp3Frame::BlobString { data, .. }) => Ok(data),
                answered => retry(Some(answered)).await,
            },
            Some(Err(error)) => Err(error),
            None => retry(None).await,
        };
        match command.script {
            Some(script) => script.loads.explain(|| self.servers.server_of(slot), done),
            None => done,
        }
    }

    fn send_now(
        &self,
        link: Arc<Link>,
        command: &Command<'_>,
    ) -> Result<PendingCommand, StoreError> {
        let bounds = (command.timeout, self.servers.max_unanswered);
        let sent = link.send(command.name(), command.values(), bounds);
        sent.map_err(|Busy| self.busy())
    }

    /// Goes on with a command whose first answer was not a reply, or that could not be sent at
    /// once.
    async fn retry(
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
                    self.until(command.deadline, self.servers.node_of(slot))
                        .await?
                }
            },
            asking: false,
        };
        let mut answered = answered.map(|answer| self.classify(&target.node, answer));
        let mut last = None;
        for _ in 0..MAX_ATTEMPTS {
            let answer = match answered.take() {
                Some(answer) => answer,
                None => {
                    generation = command.load_generation();
                    self.send(&target, command).await
                }
            };
            let no_reply = match answer {
                Ok(answer) => return Ok(answer),
                Err(NoReply::Failed(error)) => return Err(error),
                Err(NoReply::RedisError(error)) => {
                    if let Some(script) = command.script {
                        script.loads.record_refusal(target.node.server(), &error);
                    }
                    return Err(error);
                }
                Err(no_reply) => no_reply,
            };
            match (&no_reply, command.script) {
                (NoReply::NoScript, Some(script)) => {
                    let load = self.load(&target.node, script, generation);
                    self.until(command.deadline, load).await?;
                }
                (NoReply::Redirected(redirect), _) => target = self.target(redirect)?,
                _ => {}
            }
            last = Some(no_reply);
        }
        Err(match (last, command.script) {
            (Some(NoReply::NoScript), Some(script)) => {
                let error = StoreError::new(
                    StoreErrorKind::Misconfigured,
                    "Redis forgets the script as soon as it is loaded",
                );
                script.loads.record_refusal(target.node.server(), &error);
                error
            }
            _ => failure::unavailable(
                "the nodes of the cluster do not agree on who holds the slot of the key",
            ),
        })
    }

    /// The node that a command is redirected to.
    fn target(&self, redirect: &Redirect) -> Result<Target, StoreError> {
        let Some(cluster) = self.servers.cluster() else {
            return Err(StoreError::new(
                StoreErrorKind::Misconfigured,
                "Redis is a cluster, and the client is set up for one server",
            ));
        };
        let (server, asking) = match redirect {
            Redirect::Moved(server) => {
                cluster.request_refresh();
                (server, false)
            }
            Redirect::Ask(server) => (server, true),
        };
        let node = cluster.node(server);
        Ok(Target { node, asking })
    }

    /// Loads the script into a node, unless another call has done so since generation `seen`.
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
        loaded.map_err(|error| match error {
            LoadError::Refused(message) => failure::redis_error(&message),
            LoadError::Busy => self.busy(),
            LoadError::Unanswered(error) => self.unanswered(error),
            LoadError::Aborted => failure::unavailable("the runtime shuts down"),
        })
    }

    /// Sends the command to a node, and waits for the answer until its deadline.
    async fn send(&self, target: &Target, command: &Command<'_>) -> Result<Bytes, NoReply> {
        let link = match target.node.next_link() {
            Some(link) => link,
            None => {
                if let (false, Some(outage)) = (command.is_late, target.node.outage()) {
                    self.node_failed();
                    return Err(outage.into());
                }
                self.until(command.deadline, self.link(&target.node))
                    .await?
            }
        };
        let timeout = command.deadline.saturating_duration_since(Instant::now());
        let bounds = (timeout, self.servers.max_unanswered);
        let sent = match target.asking {
            false => link.send(command.name(), command.values(), bounds),
            true => link.send_asking(command.name(), command.values(), bounds),
        };
        match sent {
            Ok(sent) => self.classify(&target.node, sent.await),
            Err(Busy) => Err(self.busy().into()),
        }
    }

    /// The reply, or why there is none.
    fn classify(&self, node: &Node, answer: Result<Resp3Frame, Error>) -> Result<Bytes, NoReply> {
        let frame = answer.map_err(|error| self.unanswered(error))?;
        let message = match failure::reply_or_error(frame) {
            Ok(answer) => return Ok(answer),
            Err(message) => message,
        };
        if let Some(redirect) = Redirect::read(&message, node.server()) {
            return Err(NoReply::Redirected(redirect));
        }
        match failure::code(&message) {
            NOSCRIPT => Err(NoReply::NoScript),
            _ => Err(NoReply::RedisError(failure::redis_error(&message))),
        }
    }

    /// The next connection to a node.
    async fn link(&self, node: &Node) -> Result<Arc<Link>, StoreError> {
        node.link().await.inspect_err(|_| self.node_failed())
    }

    fn busy(&self) -> StoreError {
        self.node_failed();
        failure::too_many_unanswered()
    }

    /// The error of a call that fred could not complete.
    fn unanswered(&self, error: Error) -> StoreError {
        self.node_failed();
        match error.kind() {
            ErrorKind::Timeout => failure::timed_out(self.deadline),
            _ => failure::client_error(error),
        }
    }

    /// A node has failed: asks for the slots again, as another node may hold them by now.
    fn node_failed(&self) {
        if let Some(cluster) = self.servers.cluster() {
            cluster.request_refresh();
        }
    }
}
