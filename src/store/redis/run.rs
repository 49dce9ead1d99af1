//! Sends the script of a decision, and waits for the answer until the deadline. If Redis does not
//! have the script, it is loaded; if a slot has moved, the script is sent to its new node.

use std::{
    error::Error as _,
    future::Future,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::prelude::Value;

use crate::error::{StoreError, StoreErrorKind};

use super::{
    Shared,
    failure::{self, NOSCRIPT},
    lock,
    node::Node,
    scripts::Loadable,
};

/// How often a command is sent: again only if a node has redirected it, or had no script.
const MAX_ATTEMPTS: usize = 5;

/// The timeout of a load. The calls that wait for it may have shorter ones.
const LOAD_TIMEOUT: Duration = Duration::from_secs(1);

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

    /// The command's name and arguments. Mostly they are needed once.
    fn words(&self) -> (&'static str, Vec<Value>) {
        let mut words = Vec::with_capacity(2 + self.keys.len() + self.arguments.len());
        if let Some(script) = self.script {
            words.push(Value::Bytes(script.sha1.clone()));
            words.push(Value::from(self.keys.len() as i64));
        }
        let texts = self.keys.iter().chain(&self.arguments);
        words.extend(texts.cloned().map(Value::Bytes));
        (self.script.map_or("DEL", |_| "EVALSHA"), words)
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
            timeout: self.deadline(),
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

    pub(super) fn deadline(&self) -> Duration {
        self.servers.settings.deadline
    }

    /// Waits for the work until the store's deadline from now.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.until(Instant::now() + self.deadline(), work).await
    }

    /// Waits for the work until this deadline. Work that is done at once sets no timer.
    async fn until<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let done = tokio::time::timeout_at(deadline.into(), work).await;
        done.unwrap_or_else(|_| {
            Err(match lock(&self.servers.settings.usage).last_answer {
                Some(_) => failure::timed_out(self.deadline()),
                None => failure::not_connected_yet(),
            })
        })
    }

    /// Sends the command, and sends it again if it was redirected or its script had to be loaded.
    pub(super) async fn execute(&self, command: &Command<'_>) -> Result<Bytes, StoreError> {
        if let Some(script) = command.script {
            script.note_call();
        }
        let key = &command.keys[0];
        let answer = self.answer(command, self.servers.slot_of(key)).await;
        match (&answer, command.script) {
            (Ok(_), Some(script)) => script.note_run(),
            (Ok(_), None) => {}
            (Err(error), script) => {
                if error.kind() != StoreErrorKind::InvalidInput {
                    self.servers.refresh();
                }
                let misconfiguration =
                    script.and_then(|script| self.misconfiguration(script, key, error));
                return misconfiguration.map_or(answer, Err);
            }
        }
        answer
    }

    /// The misconfiguration behind a missing answer of a script about this key: one that the node
    /// has reported recently, or that the script has not run yet.
    pub(super) fn misconfiguration(
        &self,
        script: &Loadable,
        key: &[u8],
        error: &StoreError,
    ) -> Option<StoreError> {
        if error.kind() != StoreErrorKind::Unavailable {
            return None;
        }
        let node = self.servers.known_node_of(self.servers.slot_of(key));
        let known = node.and_then(|node| node.ok()?.loads.misconfiguration());
        let message = match known {
            Some(known) => format!("no answer, and a moment ago: {known}"),
            None if failure::is_unanswered(error) && script.is_untried() => {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                format!("{why}, and whether Redis runs the script is not known yet")
            }
            None => return None,
        };
        Some(StoreError::new(StoreErrorKind::Misconfigured, message))
    }

    /// The reply of the node that holds the slot.
    ///
    /// The timeout of an answer is fred's own, which also keeps a command that has timed out from
    /// being sent. For the rest there is [`until`](Self::until). A timer around everything would
    /// take a tenth of the requests that one connection can carry.
    async fn answer(&self, command: &Command<'_>, slot: u16) -> Result<Bytes, StoreError> {
        let deadline = Instant::now() + command.timeout;
        let mut node = self.until(deadline, self.servers.node_of(slot)).await?;
        // Whether the slot is moving to this node.
        let mut is_asking = false;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let link = self.until(deadline, node.link(command.is_late)).await?;
            let sent_at = Instant::now();
            let timeout = deadline.saturating_duration_since(sent_at);
            let frame = link.send(command.words(), is_asking, timeout).await?;
            let message = match failure::reply_or_error(frame) {
                Ok(reply) => return Ok(reply),
                Err(message) => message,
            };
            let failed = match (failure::redirect(&message, &node.host), command.script) {
                (Some((server, is_moving)), _) => {
                    (node, is_asking) = (self.servers.redirected(&server)?, is_moving);
                    failure::unavailable(
                        "the nodes of the cluster do not agree on who holds the slot of the key",
                    )
                }
                (None, Some(script)) if failure::code(&message) == NOSCRIPT => {
                    self.until(deadline, Box::pin(load(&node, script, sent_at)))
                        .await?;
                    StoreError::new(
                        StoreErrorKind::Misconfigured,
                        "Redis forgets the script as soon as it is loaded",
                    )
                }
                _ => {
                    attempts = MAX_ATTEMPTS;
                    failure::redis_error(&message)
                }
            };
            if attempts == MAX_ATTEMPTS {
                node.loads.record_refusal(&failed);
                return Err(failed);
            }
        }
    }
}

/// Loads the script into a node, unless another call has done so since this one was sent.
async fn load(node: &Node, script: &Loadable, sent_at: Instant) -> Result<(), StoreError> {
    let (link, text) = (node.link(false).await?, Value::Bytes(script.text.clone()));
    let load = async move {
        let command = ("SCRIPT", vec![Value::from_static_str("LOAD"), text]);
        let frame = link.send(command, false, LOAD_TIMEOUT).await?;
        let loaded = failure::reply_or_error(frame).map(drop);
        loaded.map_err(|message| failure::redis_error(&message))
    };
    node.loads.load((&script.sha1, sent_at), load).await
}
