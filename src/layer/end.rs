//! Settles a hold when the body of its response has ended or was dropped.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{hold::Hold, response::FromBytes};

use super::{Around, Settle};

/// How a response has ended, for
/// [`settle_at_end`](crate::RateLimitLayer::settle_at_end).
#[derive(Clone)]
pub struct End {
    status: StatusCode,
    headers: HeaderMap,
    trailers: Option<HeaderMap>,
    bytes: u64,
    duration: Duration,
    held: u32,
    how: How,
}

/// The ways to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Complete,
    /// The body failed, or the caller hung up.
    Cut,
    /// There is no response.
    ServiceFailed,
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
        self.trailers.as_ref()
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
        self.how == How::Complete
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
        self.how == How::ServiceFailed
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End")
            .field("status", &self.status)
            .field("bytes", &self.bytes)
            .field("duration", &self.duration)
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}

/// A request is settled when the body of its response has ended.
#[derive(Debug, Clone, Copy)]
pub struct SettledAtEnd<F>(pub(super) F);

impl<Res, F> Settle<Res> for SettledAtEnd<F> {}

impl<Svc, F: Clone> Around<Svc> for SettledAtEnd<F> {
    type Service = SettlingService<Svc, F>;

    fn around(&self, inner: Svc) -> SettlingService<Svc, F> {
        let spent = self.0.clone();
        SettlingService { inner, spent }
    }
}

/// Takes the hold of a request, and lets the body of the response settle it.
#[derive(Debug, Clone)]
pub struct SettlingService<Svc, F> {
    inner: Svc,
    spent: F,
}

impl<Svc, F, ReqB, ResB> Service<Request<ReqB>> for SettlingService<Svc, F>
where
    Svc: Service<Request<ReqB>, Response = Response<ResB>>,
    F: Fn(&End) -> u32 + Clone,
    ResB: Body,
{
    type Response = Response<SettledBody<ResB, F>>;
    type Error = Svc::Error;
    type Future = SettlingFuture<Svc::Future, F>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Svc::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<ReqB>) -> Self::Future {
        let mut hold = request.extensions_mut().remove::<Hold>();
        if let Some(in_flight) = hold.take_if(|hold| hold.is_in_flight()) {
            // A handler that runs on after its response keeps a clone.
            request.extensions_mut().insert(in_flight.clone());
            hold = Some(in_flight);
        }
        SettlingFuture {
            future: self.inner.call(request),
            settling: hold.map(|hold| (hold, self.spent.clone(), Instant::now())),
        }
    }
}

pin_project! {
    /// Returns the response whose body settles the hold.
    pub struct SettlingFuture<Fut, F> {
        #[pin]
        future: Fut,
        settling: Option<(Hold, F, Instant)>,
    }
}

impl<Fut, F, B, E> Future for SettlingFuture<Fut, F>
where
    Fut: Future<Output = Result<Response<B>, E>>,
    F: Fn(&End) -> u32,
    B: Body,
{
    type Output = Result<Response<SettledBody<B, F>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.future.poll(cx));
        let settling = this.settling.take();
        let settling = |status, headers| {
            let (hold, spent, since) = settling?;
            let end = End {
                status,
                headers,
                trailers: None,
                bytes: 0,
                duration: Duration::ZERO,
                held: hold.held(),
                how: How::ServiceFailed,
            };
            Some(Settling {
                hold,
                spent,
                since,
                end,
            })
        };
        Poll::Ready(match answer {
            Ok(response) => {
                let settling = settling(response.status(), response.headers().clone());
                Ok(response.map(|inner| SettledBody { inner, settling }))
            }
            Err(error) => {
                let settling = settling(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new());
                if let Some(settling) = settling {
                    settling.settle(How::ServiceFailed);
                }
                Err(error)
            }
        })
    }
}

pin_project! {
    /// The body of a response that settles a hold when it has ended or is dropped.
    pub struct SettledBody<B, F>
    where
        B: Body,
        F: Fn(&End) -> u32,
    {
        #[pin]
        inner: B,
        settling: Option<Settling<F>>,
    }

    impl<B: Body, F: Fn(&End) -> u32> PinnedDrop for SettledBody<B, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(settling) = this.settling.take() {
                // A server need not poll a body again that says it has ended.
                let is_complete = this.inner.is_end_stream();
                settling.settle(if is_complete { How::Complete } else { How::Cut });
            }
        }
    }
}

struct Settling<F> {
    hold: Hold,
    spent: F,
    since: Instant,
    end: End,
}

impl<F: Fn(&End) -> u32> Settling<F> {
    fn settle(mut self, how: How) {
        self.end.duration = self.since.elapsed();
        self.end.how = how;
        // The settlement goes on without being awaited.
        drop(self.hold.settle((self.spent)(&self.end)));
    }
}

impl<B: Body, F: Fn(&End) -> u32> Body for SettledBody<B, F> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        match (&frame, &mut *this.settling) {
            (Some(Ok(frame)), Some(settling)) => {
                let len = frame.data_ref().map_or(0, Buf::remaining);
                let end = &mut settling.end;
                end.bytes = end.bytes.saturating_add(len as u64);
                end.trailers = frame.trailers_ref().cloned().or(end.trailers.take());
            }
            (end, settling) => {
                if let Some(settling) = settling.take() {
                    settling.settle(if end.is_none() {
                        How::Complete
                    } else {
                        How::Cut
                    });
                }
            }
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

impl<B: FromBytes + Body, F: Fn(&End) -> u32> FromBytes for SettledBody<B, F> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self {
            inner: B::from_bytes(bytes),
            settling: None,
        }
    }

    /// This body already has the same hold, to settle it.
    fn keeping(self, hold: Hold) -> Self {
        drop(hold);
        self
    }
}

impl<B: Body + fmt::Debug, F: Fn(&End) -> u32> fmt::Debug for SettledBody<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettledBody")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
