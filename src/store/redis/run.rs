//! Sends the script of a decision, and waits for the answer until the deadline. If Redis does not
//! have the script, it is loaded; if a slot has moved, the script is sent to its new node.

use std::{
    convert::Infallible,
    future::Future,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::prelude::Value;

use crate::{
    error::{StoreError, StoreErrorKind},
    store::Verdict,
};

use super::{
    Shared,
    failure::{self, NOSCRIPT},
    limits::RedisLimit,
    loads::LOAD_TIMEOUT,
    node::Node,
    reply::has_tail,
    scripts::Loadable,
};

/// How often a command is sent: again only if a node has redirected it, or had no script.
const MAX_ATTEMPTS: usize = 5;

/// The timeout of a command that nobody waits for.
pub(super) const LATE_TIMEOUT: Duration = Duration::from_secs(5);

/// A command about keys of one slot.
pub(super) struct Command<'a> {
    /// The script to run; `None` deletes the keys.
    script: Option<&'a Loadable>,
    keys: Vec<Bytes>,
    arguments: Vec<Bytes>,
    /// How long its answer is waited for.
    timeout: Duration,
    /// Whether nobody waits for it. Then it is also sent to a server that misses deadlines.
    is_late: bool,
}

impl Command<'_> {
    /// The same, though no request waits for its answer, which may take this long.
    pub(super) fn late(self, timeout: Duration) -> Self {
        Self {
            timeout,
            is_late: true,
            ..self
        }
    }

    fn name(&self) -> &'static str {
        match self.script {
            Some(_) => "EVALSHA",
            None => "DEL",
        }
    }

    /// The arguments of the command, with this script. Mostly they are needed once.
    fn values(&self, script: Option<&Loadable>) -> Vec<Value> {
        let mut values = Vec::with_capacity(2 + self.keys.len() + self.arguments.len());
        if let Some(script) = script {
            values.push(script.sha1.clone());
            values.push(Value::from(self.keys.len() as i64));
        }
        let texts = self.keys.iter().chain(&self.arguments);
        values.extend(texts.cloned().map(Value::Bytes));
        values
    }
}

impl Shared {
    /// A call of the script, or with none a deletion of the keys. It has the store's deadline.
    pub(super) fn command<'a>(
        &self,
        script: Option<&'a Loadable>,
        keys: Vec<Bytes>,
        arguments: Vec<Bytes>,
    ) -> Command<'a> {
        Command {
            script,
            keys,
            arguments,
            timeout: self.deadline,
            is_late: false,
        }
    }

    /// Runs the script; if Redis does not have it, it is loaded first.
    pub(super) async fn run(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Vec<Bytes>,
    ) -> Result<Bytes, StoreError> {
        let command = self.command(Some(script), keys, arguments);
        self.execute(&command).await
    }

    /// The slot of a key; 0 outside of a cluster.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        self.servers.slot_of(key)
    }

    /// The error of a decision that is not sent because the server is known to be unavailable;
    /// `None` if it is to be sent.
    pub(super) fn known_outage<L: RedisLimit<K>, K>(&self) -> Option<StoreError> {
        let outage = self.servers.outage()?;
        let loads = &L::only_scripts(&self.script_cache)?.loadable.loads;
        loads.note_first_call();
        let explained = loads.misconfiguration(|| self.servers.server_of(0), &outage);
        let failed: Result<Verdict<Infallible>, _> = Err(explained.unwrap_or(outage));
        self.counters.record(&failed);
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
    pub(super) async fn execute(&self, command: &Command<'_>) -> Result<Bytes, StoreError> {
        if let Some(script) = command.script {
            script.loads.note_first_call();
        }
        let slot = self.servers.slot_of(&command.keys[0]);
        let done = self.answer(command, slot).await;
        if let Err(error) = &done
            && error.kind() != StoreErrorKind::InvalidInput
        {
            self.servers.node_failed();
        }
        match command.script {
            Some(script) => script.loads.explain(|| self.servers.server_of(slot), done),
            None => done,
        }
    }

    /// The reply of the node that holds the slot.
    ///
    /// The timeout of an answer is fred's own, which also keeps a command that has timed out from
    /// being sent. For the rest there is [`until`](Self::until). A timer around everything would
    /// take a tenth of the requests that one connection can carry. What is rarely waited for is
    /// boxed: it would make the future of each decision larger.
    async fn answer(&self, command: &Command<'_>, slot: u16) -> Result<Bytes, StoreError> {
        let deadline = Instant::now() + command.timeout;
        let mut node = match self.servers.known_node_of(slot) {
            Some(node) => node?,
            None => {
                self.until(deadline, Box::pin(self.servers.node_of(slot)))
                    .await?
            }
        };
        // Whether the slot is moving to this node.
        let mut is_asking = false;
        let mut had_script = true;
        let mut script = command.script;
        for _ in 0..MAX_ATTEMPTS {
            let seen = script.map_or(0, |script| script.loads.ended());
            let link = match node.next_link() {
                Some(link) => link,
                None => match node.outage().filter(|_| !command.is_late) {
                    Some(outage) => return Err(outage),
                    None => self.until(deadline, Box::pin(node.link())).await?,
                },
            };
            let timeout = deadline.saturating_duration_since(Instant::now());
            let bounds = (timeout, self.servers.max_unanswered);
            let sent = match is_asking {
                false => link.send(command.name(), command.values(script), bounds)?,
                true => link.send_asking(command.name(), command.values(script), bounds)?,
            };
            let answer = sent.await;
            let frame = answer.map_err(|error| failure::client_error(error, self.deadline))?;
            let message = match failure::reply_or_error(frame) {
                Ok(reply) if has_tail(&reply) => {
                    script = script.map(Loadable::beside_holds);
                    continue;
                }
                Ok(reply) => return Ok(reply),
                Err(message) => message,
            };
            let redirect = failure::redirect(&message, node.server());
            had_script = true;
            match (redirect, script) {
                (Some((server, is_moving)), _) => {
                    (node, is_asking) = (self.servers.redirected(&server)?, is_moving);
                }
                (None, Some(script)) if failure::code(&message) == NOSCRIPT => {
                    let load = Box::pin(self.load(&node, script, seen));
                    self.until(deadline, load).await?;
                    had_script = false;
                }
                (None, script) => {
                    let error = failure::redis_error(&message);
                    if let Some(script) = script {
                        script.loads.record_refusal(node.server(), &error);
                    }
                    return Err(error);
                }
            }
        }
        let Some(script) = script.filter(|_| !had_script) else {
            return Err(failure::unavailable(
                "the nodes of the cluster do not agree on who holds the slot of the key",
            ));
        };
        let error = StoreError::new(
            StoreErrorKind::Misconfigured,
            "Redis forgets the script as soon as it is loaded",
        );
        script.loads.record_refusal(node.server(), &error);
        Err(error)
    }

    /// Loads the script into a node, unless another call has done so since `seen` loads had ended.
    async fn load(&self, node: &Node, script: &Loadable, seen: u64) -> Result<(), StoreError> {
        let link = node.link().await?;
        let send = || {
            let text = Value::from(script.text.as_str());
            let bounds = (LOAD_TIMEOUT, self.servers.max_unanswered);
            link.send("SCRIPT", vec![Value::from_static_str("LOAD"), text], bounds)
        };
        script.loads.load(node.server(), seen, send).await
    }
}
