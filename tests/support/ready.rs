//! The output of a future that has nothing to wait for.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

/// The output; panics if there is none yet.
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here has anything to wait for"),
    }
}
