//! A body that keeps a hold until it has ended.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};

use crate::hold::Hold;

/// A body that drops a hold when it has ended, has failed, or is dropped.
pub(super) struct HeldBody<B> {
    inner: B,
    hold: Option<Hold>,
}

impl<B: Body> HeldBody<B> {
    /// Wraps the body, unless it has already ended: then the hold is dropped at once.
    pub(super) fn boxed(inner: B, hold: Hold, boxed: impl FnOnce(Self) -> B) -> B {
        if inner.is_end_stream() {
            return inner;
        }
        let hold = Some(hold);
        boxed(Self { inner, hold })
    }
}

impl<B: Body + Unpin> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.hold = None;
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
