//! Sends the script of a decision, and waits for the answer until the deadline. If Redis does not
//! have the script, it is loaded; if a slot has moved, the script is sent to its new node.

use std::{
    error::Error as _,
    future::Future,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::prelude::Value;

use crate::{
    algorithm::Limit,
    error::{StoreError, StoreErrorKind},
    store::Verdict,
};

use super::{
    Shared,
    arguments::{KeyQuery, Units},
    failure::{self, NOSCRIPT},
    node::Node,
    reply::has_tail,
    scripts::Loadable,
};

/// How often a command is sent: again only if a node has redirected it, or had no script.
const MAX_ATTEMPTS: usize = 5;

/// The timeout of a load. The calls that wait for it may have shorter ones.
const LOAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout of a command that nobody waits for.
pub(super) const LATE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    Until(Instant),
    /// No request waits for it: it is also sent to a server that misses deadlines.
    Late(Duration),
}

impl Shared {
    pub(super) fn deadline(&self) -> Duration {
        self.servers.settings.deadline
    }

    /// A request that asks now waits until the store's deadline.
    pub(super) fn request_waits(&self) -> Wait {
        Wait::Until(Instant::now() + self.deadline())
    }

    /// Nobody waits for it, and late is better than never.
    pub(super) fn late(&self) -> Wait {
        Wait::Late(self.deadline().max(LATE_TIMEOUT))
    }

    /// Waits for the work until this deadline. Work that is done at once sets no timer.
    pub(super) async fn until<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let done = tokio::time::timeout_at(deadline.into(), work).await;
        done.unwrap_or_else(|_| Err(self.missed_deadline(self.usage().last_answer.is_some())))
    }

    fn missed_deadline(&self, was_connected: bool) -> StoreError {
        match was_connected {
            true => failure::timed_out(self.deadline()),
            false => failure::not_connected_yet(),
        }
    }

    /// Runs the script about these limits, with an argument of its own behind theirs: its reply, or
    /// one for each of several decisions.
    pub(super) async fn ask(
        &self,
        script: &Loadable,
        (queries, units): (&[KeyQuery], Units<'_>),
        more: Option<Bytes>,
        wait: Wait,
    ) -> Result<Vec<Bytes>, StoreError> {
        let keys = queries.iter().flat_map(|query| &query.keys);
        let keys: Vec<_> = keys.cloned().collect();
        let first = Some(self.arguments(queries, units));
        let arguments: Vec<_> = first.into_iter().chain(more).collect();
        self.replies(Some(script), (&keys, &arguments), wait).await
    }

    /// Runs the script: its reply, or one for each of several decisions. With none it sets the key
    /// to the arguments, or, if there are none either, deletes the keys. It is sent again if it was
    /// redirected or its script had to be loaded.
    pub(super) async fn replies(
        &self,
        script: Option<&Loadable>,
        (keys, arguments): (&[Bytes], &[Bytes]),
        wait: Wait,
    ) -> Result<Vec<Bytes>, StoreError> {
        let answer = self.answer(script, (keys, arguments), wait).await;
        match (&answer, script) {
            (Ok(_), Some(script)) => script.has_run.store(true, Relaxed),
            (Err(error), _) if error.kind() != StoreErrorKind::InvalidInput => {
                self.servers.refresh();
            }
            _ => {}
        }
        answer.map_err(|error| match script {
            Some(script) => self.explained(error, script, &keys[0]),
            None => error,
        })
    }

    /// The error of a decision that is not sent because the only server is known to be unavailable;
    /// `None` if it is to be sent, or if this limit has not asked before.
    pub(super) fn known_outage<L: Limit>(&self, limit: &L) -> Option<StoreError> {
        let outage = self.servers.only.as_ref()?.outage(false)?;
        let scripts = self.script_cache.known(limit)?;
        let failed: Result<Verdict<()>, _> = Err(self.explained(outage, &scripts.loadable, &[]));
        self.usage().count(&failed);
        self.health.record(&failed, []);
        failed.err()
    }

    /// The error of a decision by this script about this key, whose deadline has passed while it
    /// waited for a call.
    pub(super) fn missed_call(&self, script: &Loadable, key: &[u8]) -> StoreError {
        let node = self.servers.known_node_of(self.servers.slot_of(key));
        let was_connected = self.usage().last_answer.is_some()
            || node.is_some_and(|node| node.is_ok_and(|node| node.was_tried()));
        self.explained(self.missed_deadline(was_connected), script, key)
    }

    /// Whether it is known that the node of this key's slot takes no decision, or what nobody waits
    /// for.
    pub(super) fn is_out(&self, key: &[u8], is_late: bool) -> bool {
        let node = (self.servers).known_node_of(self.servers.slot_of(key));
        node.is_some_and(|node| node.map_or(true, |node| node.outage(is_late).is_some()))
    }

    /// The error of a script about this key; where an answer is missing, the misconfiguration
    /// behind it: one that the node has reported recently, or that the script has not run yet.
    pub(super) fn explained(&self, error: StoreError, script: &Loadable, key: &[u8]) -> StoreError {
        if error.kind() != StoreErrorKind::Unavailable {
            return error;
        }
        let node = self.servers.known_node_of(self.servers.slot_of(key));
        let known = node.and_then(|node| node.ok()?.loads.misconfiguration());
        let message = match known {
            Some(known) => format!("no answer, and a moment ago: {known}"),
            None if failure::is_unanswered(&error) && script.is_untried() => {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                format!("{why}, and whether Redis runs the script is not known yet")
            }
            None => return error,
        };
        failure::misconfigured(message)
    }

    /// The reply of the node that holds the slot of the keys.
    ///
    /// The timeout of an answer is fred's own, which also keeps a command that has timed out from
    /// being sent. For the rest there is [`until`](Self::until). A timer around everything would
    /// take a tenth of the requests that one connection can carry.
    async fn answer(
        &self,
        script: Option<&Loadable>,
        words: (&[Bytes], &[Bytes]),
        wait: Wait,
    ) -> Result<Vec<Bytes>, StoreError> {
        let (deadline, is_late) = match wait {
            Wait::Until(deadline) => (deadline, false),
            Wait::Late(timeout) => (Instant::now() + timeout, true),
        };
        let mut script = script.map(Loadable::to_send_first);
        let slot = self.servers.slot_of(&words.0[0]);
        let mut node = self.until(deadline, self.servers.node_of(slot)).await?;
        // Whether the slot is moving to this node.
        let mut is_asking = false;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let link = self.until(deadline, node.link(is_late)).await?;
            let sent_at = Instant::now();
            let timeout = deadline.saturating_duration_since(sent_at);
            if timeout.is_zero() {
                return Err(failure::timed_out(self.deadline()));
            }
            let command = command(script, words);
            let frame = link.send(command, is_asking, timeout).await?;
            let message = match failure::replies_or_error(frame) {
                Ok(replies) => match script.filter(|_| replies.first().is_some_and(has_tail)) {
                    Some(_) if attempts > MAX_ATTEMPTS => return Err(failure::unreadable()),
                    Some(plain) => {
                        script = Some(plain.beside_holds_from_now());
                        continue;
                    }
                    None => return Ok(replies),
                },
                Err(message) => message,
            };
            let failed = match (failure::redirect(&message, &node.host), script) {
                (Some((server, is_moving)), _) => {
                    (node, is_asking) = (self.servers.redirected(&server)?, is_moving);
                    failure::unavailable(
                        "the nodes of the cluster do not agree on who holds the slot of the key",
                    )
                }
                (None, Some(script)) if failure::code(&message) == NOSCRIPT => {
                    self.until(deadline, Box::pin(load(&node, script, sent_at)))
                        .await?;
                    failure::misconfigured("Redis forgets the script as soon as it is loaded")
                }
                _ => {
                    attempts = MAX_ATTEMPTS;
                    failure::redis_error(&message)
                }
            };
            if attempts >= MAX_ATTEMPTS {
                node.loads.record_refusal(&failed);
                return Err(failed);
            }
        }
    }
}

/// Does this in a task, to its end, also if nobody waits for it any more.
pub(super) fn in_a_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> impl Future<Output = Result<T, StoreError>> {
    let task = tokio::spawn(work);
    async move {
        let done = task.await;
        done.unwrap_or_else(|_| Err(failure::runtime_ends()))
    }
}

/// Runs the script, sets the key or deletes the keys.
fn command(
    script: Option<&Loadable>,
    (keys, arguments): (&[Bytes], &[Bytes]),
) -> (&'static str, Vec<Value>) {
    let mut words = Vec::with_capacity(2 + keys.len() + arguments.len());
    if let Some(script) = script {
        words.push(Value::Bytes(script.sha1.clone()));
        words.push(Value::from(keys.len() as i64));
    }
    words.extend(keys.iter().chain(arguments).cloned().map(Value::Bytes));
    let name = match script {
        Some(_) => "EVALSHA",
        None if arguments.is_empty() => "DEL",
        None => "SET",
    };
    (name, words)
}

/// Loads the script into a node, unless another call has done so since this one was sent.
async fn load(node: &Node, script: &Loadable, sent_at: Instant) -> Result<(), StoreError> {
    let (link, text) = (node.link(false).await?, Value::Bytes(script.text.clone()));
    let load = async move {
        let command = ("SCRIPT", vec![Value::from_static_str("LOAD"), text]);
        let frame = link.send(command, false, LOAD_TIMEOUT).await?;
        let loaded = failure::replies_or_error(frame).map(drop);
        loaded.map_err(|message| failure::redis_error(&message))
    };
    node.loads.load((&script.sha1, sent_at), load).await
}
