//! One connection to one server: how many of its commands are unanswered, whether it gets
//! decisions, and whether it hangs.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
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
    Later,
    backoff::Backoff,
    failure::{self, READONLY},
};

/// A connection is hung if a command has timed out and nothing was answered for this long.
const MAX_SILENCE: Duration = Duration::from_secs(1);
/// After so many missed deadlines in a row the circuit breaker opens: no decision is sent until a
/// probe is answered.
const MAX_MISSES: usize = 3;
/// The shortest timeout of a probe.
const MIN_PROBE_TIMEOUT: Duration = Duration::from_millis(250);

/// A connection, until it is lost or given up.
pub(super) struct Link {
    client: Client,
    /// The store's: a later answer keeps the circuit breaker open.
    deadline: Duration,
    created_at: Instant,
    /// How many commands are neither answered nor timed out.
    awaited: AtomicUsize,
    /// How many commands have timed out and are not answered yet. Redis answers in order, so the
    /// next answer in time resets this to 0.
    timed_out: AtomicUsize,
    /// How many commands have timed out since one was last answered before the deadline.
    missed: AtomicUsize,
    /// From `created_at` to the last answer, or to the first command after all were answered.
    silent_since_micros: AtomicU64,
    /// From `created_at` to the last answer; 0 if there was none.
    last_answer_micros: AtomicU64,
    has_timed_out: Notify,
    breaker_changed: Notify,
    became_read_only: Notify,
}

impl Link {
    pub(super) fn new(client: Client, deadline: Duration) -> Self {
        Self {
            deadline,
            client,
            created_at: Instant::now(),
            awaited: AtomicUsize::new(0),
            timed_out: AtomicUsize::new(0),
            missed: AtomicUsize::new(0),
            silent_since_micros: AtomicU64::new(0),
            last_answer_micros: AtomicU64::new(0),
            has_timed_out: Notify::new(),
            breaker_changed: Notify::new(),
            became_read_only: Notify::new(),
        }
    }

    /// A command that times out after `time` from when it is first polled. If it has not left the
    /// process by then, it is never sent.
    pub(super) fn send(
        self: Arc<Self>,
        command: &'static str,
        arguments: Vec<Value>,
        (time, max_unanswered): (Duration, usize),
    ) -> Result<PendingCommand, StoreError> {
        let permit = self.permit(max_unanswered)?;
        let client = permit.link.client.with_options(&options(time));
        let command = CustomCommand::new_static(command, None, false);
        Ok(permit.awaits(
            time,
            async move { client.custom_raw(command, arguments).await },
        ))
    }

    /// The same for a command about keys of a slot that is moving to this server.
    pub(super) fn send_asking(
        self: Arc<Self>,
        command: &'static str,
        arguments: Vec<Value>,
        (time, max_unanswered): (Duration, usize),
    ) -> Result<PendingCommand, StoreError> {
        let permit = self.permit(max_unanswered)?;
        // One pipeline: nothing else comes between the two on the connection.
        let both = permit.link.client.pipeline().with_options(&options(time));
        Ok(permit.awaits(time, async move {
            let asking = CustomCommand::new_static("ASKING", None, false);
            let command = CustomCommand::new_static(command, None, false);
            let _: Value = both.custom(asking, Vec::<Value>::new()).await?;
            let _: Value = both.custom(command, arguments).await?;
            let (attributes, answers) = (None, both.try_all::<Value>());
            let answers = tokio::time::timeout(time, answers).await;
            let answers = answers.map_err(|_| Error::new(ErrorKind::Timeout, "no answer"))?;
            match answers.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(mut answers) => {
                    let data = answers.pop().unwrap_or(Value::Null).convert()?;
                    Ok(Resp3Frame::BlobString { data, attributes })
                }
                // An error of the server begins with a code, one of fred's does not.
                Err(error) if begins_with_a_code(error.details()) => {
                    let data = error.details().into();
                    Ok(Resp3Frame::SimpleError { data, attributes })
                }
                Err(error) => Err(error),
            }
        }))
    }

    /// Whether a command has timed out and nothing was answered since.
    pub(super) fn is_suspect(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed) > 0
    }

    /// Whether the circuit breaker is open: so many deadlines were missed in a row that it gets no
    /// decisions, each of which would wait for its own. It is closed by an answer to a probe before
    /// the deadline.
    pub(super) fn is_open(&self) -> bool {
        self.missed.load(Ordering::Relaxed) >= MAX_MISSES
    }

    /// How many commands are neither answered nor timed out.
    pub(super) fn awaited(&self) -> usize {
        self.awaited.load(Ordering::Relaxed)
    }

    /// When anything was last answered.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        match self.last_answer_micros.load(Ordering::Relaxed) {
            0 => None,
            micros => self.created_at.checked_add(Duration::from_micros(micros)),
        }
    }

    /// Waits until the server has answered that it is a replica, and until the connection is a
    /// second old.
    pub(super) async fn until_read_only(&self) {
        self.became_read_only.notified().await;
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(self.created_at.elapsed())).await;
    }

    /// Waits until a command has timed out and nothing was answered for [`MAX_SILENCE`]. One probe
    /// at a time is sent, as long as the connection is suspected to hang or gets no decisions.
    pub(super) async fn until_hung(self: &Arc<Self>) {
        loop {
            self.has_timed_out.notified().await;
            let mut backoff = Backoff::default();
            while self.is_suspect() || self.is_open() {
                let left = MAX_SILENCE.saturating_sub(self.silent_for());
                if self.responds_within(left.max(MIN_PROBE_TIMEOUT)).await {
                    // Answered, but after the deadline: a decision would have failed.
                    if self.is_open() {
                        sleep(backoff.next()).await;
                    }
                } else if self.silent_for() >= MAX_SILENCE {
                    return;
                }
            }
        }
    }

    /// Calls `tell`, for ever, whenever the circuit breaker is opened (`true`) or closed.
    pub(super) async fn tell_breaker(&self, mut tell: impl FnMut(bool)) -> Infallible {
        let mut was_open = false;
        loop {
            self.breaker_changed.notified().await;
            if self.is_open() != was_open {
                was_open = !was_open;
                tell(was_open);
            }
        }
    }

    /// Whether the server answers a probe within this time: a script that does not exist, which
    /// changes nothing and needs no right that the store does not need anyway.
    async fn responds_within(self: &Arc<Self>, time: Duration) -> bool {
        let unknown_sha1 = "0000000000000000000000000000000000000000";
        let arguments = vec![Value::from_static_str(unknown_sha1), Value::from(0)];
        match Arc::clone(self).send("EVALSHA", arguments, (time, usize::MAX)) {
            Ok(sent) => sent.await.is_ok(),
            Err(_) => false,
        }
    }

    fn silent_for(&self) -> Duration {
        let silent_since = Duration::from_micros(self.silent_since_micros.load(Ordering::Relaxed));
        self.created_at.elapsed().saturating_sub(silent_since)
    }

    fn restart_silence(&self) -> u64 {
        let micros = self.created_at.elapsed().as_micros();
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        self.silent_since_micros.store(micros, Ordering::Relaxed);
        micros
    }

    fn permit(self: Arc<Self>, max_unanswered: usize) -> Result<Permit, StoreError> {
        let timed_out = self.timed_out.load(Ordering::Relaxed);
        let awaited = self.awaited.fetch_add(1, Ordering::Relaxed);
        let permit = Permit { link: self };
        if awaited.saturating_add(timed_out) >= max_unanswered {
            return Err(failure::unanswered("too many decisions wait for an answer"));
        }
        if awaited == 0 && timed_out == 0 {
            permit.link.restart_silence();
        }
        Ok(permit)
    }
}

/// A permit for one command that is awaited.
struct Permit {
    link: Arc<Link>,
}

impl Permit {
    fn awaits(
        self,
        time: Duration,
        answer: impl Future<Output = Answer> + Send + 'static,
    ) -> PendingCommand {
        PendingCommand(Some(Box::pin(async move {
            let sent_at = Instant::now();
            let answer = answer.await;
            let deadline = self.link.deadline;
            // With a shorter timeout what is answered is in time, though this task may be late.
            self.record(&answer, time <= deadline || sent_at.elapsed() <= deadline);
            answer
        })))
    }

    fn record(&self, answer: &Answer, is_in_time: bool) {
        let link = &*self.link;
        match answer {
            Ok(frame) => {
                let micros = link.restart_silence();
                link.last_answer_micros
                    .store(micros.max(1), Ordering::Relaxed);
                if link.is_suspect() {
                    link.timed_out.store(0, Ordering::Relaxed);
                }
                if is_in_time && link.missed.load(Ordering::Relaxed) > 0 {
                    let missed = link.missed.swap(0, Ordering::Relaxed);
                    if missed >= MAX_MISSES {
                        link.breaker_changed.notify_one();
                    }
                }
                if let Resp3Frame::SimpleError { data, .. } = frame
                    && failure::code(data) == READONLY
                {
                    link.became_read_only.notify_one();
                }
            }
            Err(error) if *error.kind() == ErrorKind::Timeout => {
                link.timed_out.fetch_add(1, Ordering::Relaxed);
                if link.missed.fetch_add(1, Ordering::Relaxed) + 1 == MAX_MISSES {
                    link.breaker_changed.notify_one();
                }
                link.has_timed_out.notify_one();
            }
            Err(_) => {}
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.link.awaited.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A command that is sent when this is first polled.
///
/// Dropping this does not cancel it: it stays unanswered until it is answered or times out.
pub(super) struct PendingCommand(Option<Later<Answer>>);

/// What Redis answered, or why fred has no answer.
type Answer = Result<Resp3Frame, Error>;

impl Future for PendingCommand {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let answer = self.0.as_mut().expect("polled after it was ready");
        let answer = std::task::ready!(answer.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(answer)
    }
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(answer);
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

fn begins_with_a_code(text: &str) -> bool {
    let code = text.split(' ').next().unwrap_or("");
    code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}
