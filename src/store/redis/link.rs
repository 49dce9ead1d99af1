//! One connection to one server: how many of its commands are unanswered, whether it gets
//! decisions, and whether it hangs.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    prelude::Value,
    types::{CustomCommand, Resp3Frame, config::Options},
};
use tokio::{sync::Notify, time::sleep};

use crate::error::StoreError;

use super::{
    failure::{self, READONLY},
    health::Throttle,
    lock,
    settings::{Pauses, Settings},
};

/// A connection is hung if a command has timed out and nothing was answered for this long, or for
/// the deadline, if that is longer.
const MAX_SILENCE: Duration = Duration::from_secs(1);
/// After so many missed deadlines in a row the circuit breaker opens: no decision is sent until a
/// probe is answered.
const MAX_MISSES: usize = 3;
/// The shortest timeout of a probe.
const MIN_PROBE_TIMEOUT: Duration = Duration::from_millis(250);
/// A server that is no primary is asked who is after this long.
const MIN_AGE: Duration = Duration::from_secs(1);

/// A connection, until it is lost or given up.
pub(super) struct Link {
    client: Client,
    settings: Arc<Settings>,
    answers: Mutex<Answers>,
    /// A command was not answered in time, or by a server that is no primary.
    is_in_doubt: Notify,
}

/// What was answered over a connection.
#[derive(Clone, Copy)]
struct Answers {
    /// How many commands are waited for.
    awaited: usize,
    /// How many are waited for no more, and were not answered. Redis answers in order, so the next
    /// answer resets this to 0.
    given_up: usize,
    /// How many have timed out since one was last answered before the deadline.
    missed: usize,
    /// When something was last answered, or the first command sent after all were answered.
    silent_since: Instant,
    is_read_only: bool,
}

impl Answers {
    /// Whether the circuit breaker is open: so many deadlines were missed in a row that it gets no
    /// decisions, each of which would wait for its own. It is closed by an answer to a probe before
    /// the deadline.
    fn is_open(&self) -> bool {
        self.missed >= MAX_MISSES
    }
}

impl Link {
    pub(super) fn new(client: Client, settings: &Arc<Settings>) -> Self {
        Self {
            client,
            settings: Arc::clone(settings),
            answers: Mutex::new(Answers {
                awaited: 0,
                given_up: 0,
                missed: 0,
                silent_since: Instant::now(),
                is_read_only: false,
            }),
            is_in_doubt: Notify::new(),
        }
    }

    fn answers(&self) -> Answers {
        *lock(&self.answers)
    }

    /// Whether a command was given up and nothing was answered since: another connection is better.
    pub(super) fn is_suspect(&self) -> bool {
        self.answers().given_up > 0
    }

    /// Why it takes no decision, and nothing else if too much is unanswered.
    pub(super) fn outage(&self, is_late: bool) -> Option<StoreError> {
        let answers = self.answers();
        if answers.is_open() && !is_late {
            let message = "no answer in time to the last decisions, nor to a probe yet";
            return Some(failure::unanswered(message));
        }
        let unanswered = answers.awaited.saturating_add(answers.given_up);
        (unanswered >= self.settings.max_unanswered)
            .then(|| failure::unanswered("too many decisions wait for an answer"))
    }

    /// Sends a command that times out after `time`. If it has not left the process by then, it is
    /// never sent. With `is_asking` it is about keys of a slot that is moving to this server.
    ///
    /// Dropping the future does not cancel the command: it counts as unanswered.
    pub(super) async fn send(
        &self,
        (command, arguments): (&'static str, Vec<Value>),
        is_asking: bool,
        time: Duration,
    ) -> Result<Resp3Frame, StoreError> {
        let mut permit = self.permit();
        let client = self.client.with_options(&options(time));
        let custom = |command| CustomCommand::new_static(command, None, false);
        let deadline = self.settings.deadline;
        // With a shorter timeout what is answered is in time, though this task may be late.
        let sent_at = (time > deadline).then(Instant::now);
        let answer = client.custom_raw(custom(command), arguments);
        let answer = match is_asking {
            false => answer.await,
            // If another command comes between the two, the server redirects this one once more.
            true => {
                let asking = client.custom_raw(custom("ASKING"), Vec::<Value>::new());
                match tokio::join!(asking, answer) {
                    (Ok(denied @ Resp3Frame::SimpleError { .. }), _) => Ok(denied),
                    (_, answer) => answer,
                }
            }
        };
        let is_in_time = sent_at.is_none_or(|sent_at| sent_at.elapsed() <= deadline);
        permit.record(&answer, is_in_time);
        answer.map_err(|error| failure::client_error(error, deadline))
    }

    fn permit(&self) -> Permit<'_> {
        lock(&self.settings.usage).in_flight += 1;
        let mut answers = lock(&self.answers);
        if answers.awaited + answers.given_up == 0 {
            answers.silent_since = Instant::now();
        }
        answers.awaited += 1;
        Permit {
            link: self,
            is_given_up: true,
        }
    }

    /// Waits until the connection is to be replaced, and says why: a command was given up and
    /// nothing was answered for [`MAX_SILENCE`], or the server is no primary. One probe at a time
    /// is sent, as long as the connection is suspected to hang or gets no decisions.
    pub(super) async fn until_unfit(&self, stops: &Throttle) -> Error {
        let (server, begun) = (self.settings.name(), Instant::now());
        let max_silence = MAX_SILENCE.max(self.settings.deadline);
        loop {
            self.is_in_doubt.notified().await;
            let (mut pauses, mut stopped) = (Pauses::new(), None);
            loop {
                let answers = self.answers();
                if answers.is_read_only {
                    sleep(MIN_AGE.saturating_sub(begun.elapsed())).await;
                    return Error::new(ErrorKind::Unknown, "READONLY the server is no primary");
                } else if answers.given_up == 0 && !answers.is_open() {
                    break;
                }
                let left = max_silence.saturating_sub(answers.silent_since.elapsed());
                let responds = self.responds_within(left.max(MIN_PROBE_TIMEOUT)).await;
                let answers = self.answers();
                if responds && answers.is_open() {
                    // Answered, but after the deadline: a decision would have failed.
                    if stopped.is_none() && stops.pass().is_some() {
                        stopped = Some(Instant::now());
                        tracing::warn!(target: "tollgate::store", server, "Redis misses every deadline: it gets probes only");
                    }
                    pauses.pause().await;
                } else if !responds && answers.silent_since.elapsed() >= max_silence {
                    return Error::new(ErrorKind::Timeout, "nothing was answered for a second");
                }
            }
            if let Some(since) = stopped {
                let after = since.elapsed();
                tracing::info!(target: "tollgate::store", server, ?after, "Redis gets decisions again");
            }
        }
    }

    /// Whether the server answers a probe within this time: a script that does not exist, which
    /// changes nothing and needs no right that the store does not need anyway.
    async fn responds_within(&self, time: Duration) -> bool {
        let unknown_sha1 = "0000000000000000000000000000000000000000";
        let arguments = vec![Value::from_static_str(unknown_sha1), Value::from(0)];
        self.send(("EVALSHA", arguments), false, time).await.is_ok()
    }
}

/// One command that is waited for.
struct Permit<'a> {
    link: &'a Link,
    /// Whether it has timed out, or nobody waits for it any more.
    is_given_up: bool,
}

impl Permit<'_> {
    fn record(&mut self, answer: &Result<Resp3Frame, Error>, is_in_time: bool) {
        self.is_given_up = false;
        match answer {
            Ok(frame) => {
                let now = Instant::now();
                lock(&self.link.settings.usage).last_answer = Some(now);
                let mut answers = lock(&self.link.answers);
                (answers.silent_since, answers.given_up) = (now, 0);
                if is_in_time {
                    answers.missed = 0;
                }
                if let Resp3Frame::SimpleError { data, .. } = frame
                    && failure::code(data) == READONLY
                {
                    answers.is_read_only = true;
                    self.link.is_in_doubt.notify_one();
                }
            }
            Err(error) if *error.kind() == ErrorKind::Timeout => {
                lock(&self.link.answers).missed += 1;
                self.is_given_up = true;
            }
            Err(_) => {}
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        lock(&self.link.settings.usage).in_flight -= 1;
        let mut answers = lock(&self.link.answers);
        answers.awaited -= 1;
        if self.is_given_up {
            answers.given_up += 1;
            self.link.is_in_doubt.notify_one();
        }
    }
}

fn options(time: Duration) -> Options {
    Options {
        // Redis may have charged a command that has no answer: it is never sent again.
        max_attempts: Some(1),
        // Without a connection a command fails at once.
        fail_fast: true,
        // fred takes zero for no limit.
        timeout: Some(time.max(Duration::from_millis(1))),
        ..Options::default()
    }
}
