//! The end of a response's body: what its request holds ends there, and is settled.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Buf;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};

use crate::{
    clock::{Clock, SystemClock, Timestamp},
    hold::Hold,
};

/// How a response has ended, for
/// [`settle_at_end`](crate::RateLimitLayer::settle_at_end).
#[derive(Clone)]
pub struct End {
    status: StatusCode,
    headers: HeaderMap,
    trailers: Option<Box<HeaderMap>>,
    bytes: u64,
    duration: Duration,
    held: u32,
    is_complete: bool,
    service_failed: bool,
}

impl End {
    /// The status of the response; 500 if the inner service [failed](Self::service_failed).
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The header fields of the response, as the inner service answered it.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The trailers, if there were any, such as a gRPC status.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    /// How many bytes of the body the server has taken to send.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same in KiB, rounded up.
    pub fn kib(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(1_024)).unwrap_or(u32::MAX)
    }

    /// The time since the inner service was called.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How many units are held for the request: they are charged if nobody settles.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Whether the body was sent to its end: `false` if it failed, the caller hung up, or there was
    /// no response.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether the inner service returned an error: then there is no response and no byte was sent,
    /// but the closure's units are charged all the same.
    ///
    /// # Example: a call that failed costs what was held for it
    ///
    /// ```
    /// use tollgate::{End, Quota, RateLimitLayer};
    /// use tollgate::{algorithm::TokenBucket, key::Global, store::LocalStore};
    /// # use http::{Request, Response};
    /// # use tower::{Layer, Service, service_fn};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let kib = TokenBucket::new(Quota::per_hour(1_000)).settled();
    /// let limit = RateLimitLayer::new(kib, LocalStore::new(), Global)
    ///     .cost(100)
    ///     .settle_at_end(|end: &End| match end.service_failed() {
    ///         true => end.held(),
    ///         false => end.kib(),
    ///     });
    /// let limiter = limit.limiter().clone();
    /// # type Answer = Result<Response<axum::body::Body>, &'static str>;
    /// # let broken = service_fn(async |_: Request<()>| Answer::Err("broken"));
    /// # limit.layer(broken).call(Request::new(())).await.unwrap_err();
    /// // .. after one call that failed:
    /// assert_eq!(limiter.peek(&()).now().remaining(), 900);
    /// # });
    /// ```
    pub fn service_failed(&self) -> bool {
        self.service_failed
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End")
            .field("status", &self.status)
            .field("bytes", &self.bytes)
            .field("duration", &self.duration)
            .field("is_complete", &self.is_complete)
            .finish_non_exhaustive()
    }
}

/// The closure that says what a request has spent, and the clock that says how long it took.
pub(crate) struct SpentAtEnd<F: ?Sized = dyn Fn(&End) -> u32 + Send + Sync> {
    // It reads the processor's counter: two readings of an `Instant` take 50 ns.
    clock: SystemClock,
    spent: F,
}

impl<F> SpentAtEnd<F> {
    pub(crate) fn new(spent: F) -> Self {
        let clock = SystemClock::new();
        Self { clock, spent }
    }
}

/// What a request holds until the body of its response has ended: a place
/// [in flight](crate::algorithm::InFlight), or units that are
/// [settled at the end](crate::RateLimitLayer::settle_at_end).
///
/// A body of your own keeps it, calls it with each [frame](Self::frame), and says when it is
/// [complete](Self::complete). If it is dropped before that, the body was cut off.
pub struct BodyEnd {
    pub(crate) hold: Hold,
    settling: Option<Box<Settling>>,
}

struct Settling {
    by: Arc<SpentAtEnd>,
    since: Timestamp,
    /// `None` while there is no response: then nobody is asked, and all that is held is charged.
    end: Option<End>,
}

impl BodyEnd {
    /// Lets the closure say what was spent; the inner service is called now.
    pub(crate) fn settle_by(&mut self, by: &Arc<SpentAtEnd>) {
        self.settling = Some(Box::new(Settling {
            by: Arc::clone(by),
            since: by.clock.now(),
            end: None,
        }));
    }

    /// Whether a closure says what was spent.
    pub(crate) fn is_settled_at_end(&self) -> bool {
        self.settling.is_some()
    }

    /// The inner service has failed.
    pub(crate) fn service_failed(mut self) {
        self.begin(StatusCode::INTERNAL_SERVER_ERROR, &HeaderMap::new());
        if let Some(end) = self.end() {
            end.service_failed = true;
        }
    }

    /// The body of a response with this head comes next.
    pub(super) fn begin(&mut self, status: StatusCode, headers: &HeaderMap) {
        if let Some(settling) = &mut self.settling {
            settling.end = Some(End {
                status,
                headers: headers.clone(),
                trailers: None,
                bytes: 0,
                duration: Duration::ZERO,
                held: self.hold.held(),
                is_complete: false,
                service_failed: false,
            });
        }
    }

    fn end(&mut self) -> Option<&mut End> {
        self.settling.as_mut()?.end.as_mut()
    }

    /// The server has taken this frame.
    pub fn frame<D: Buf>(&mut self, frame: &Frame<D>) {
        if let Some(end) = self.end() {
            let len = frame.data_ref().map_or(0, Buf::remaining);
            end.bytes = end.bytes.saturating_add(len as u64);
            if let Some(trailers) = frame.trailers_ref() {
                end.trailers = Some(Box::new(trailers.clone()));
            }
        }
    }

    /// The body was sent to its end.
    pub fn complete(mut self) {
        if let Some(end) = self.end() {
            end.is_complete = true;
        }
    }

    /// The body is whole in memory, and counts as sent.
    pub(super) fn in_memory(mut self, bytes: u64) {
        if let Some(end) = self.end() {
            end.bytes = bytes;
        }
        self.complete();
    }

    /// The body cannot tell when it ends: all that is held is charged.
    pub(super) fn unknown(mut self) {
        self.settling = None;
    }
}

impl From<Hold> for BodyEnd {
    fn from(hold: Hold) -> Self {
        let settling = None;
        Self { hold, settling }
    }
}

impl Drop for BodyEnd {
    fn drop(&mut self) {
        if let Some(settling) = &mut self.settling
            && let Some(end) = &mut settling.end
        {
            end.duration = settling.by.clock.now().since(settling.since);
            // The settlement goes on without being awaited.
            drop(self.hold.settle((settling.by.spent)(end)));
        }
    }
}

/// A body that keeps what its request holds until it has ended, has failed, or is dropped.
pub(super) struct WatchedBody<B: Body> {
    inner: B,
    end: Option<BodyEnd>,
}

impl<B: Body> WatchedBody<B> {
    /// Wraps the body, unless it has already ended.
    pub(super) fn boxed(inner: B, end: BodyEnd, boxed: impl FnOnce(Self) -> B) -> B {
        if inner.is_end_stream() {
            end.complete();
            return inner;
        }
        let end = Some(end);
        boxed(Self { inner, end })
    }
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match (&frame, &mut self.end) {
            (Some(Ok(frame)), Some(end)) => end.frame(frame),
            (None, end) => _ = end.take().map(BodyEnd::complete),
            (_, end) => *end = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: Body> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        // A server need not poll a body again that says it has ended.
        if self.end.is_some()
            && self.inner.is_end_stream()
            && let Some(end) = self.end.take()
        {
            end.complete();
        }
    }
}
