//! Futures that are asked at the same instant, in an order.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

/// The answers of all, which are polled in turn by one task, so that they begin in this order.
pub async fn in_order<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
    let mut answers: Vec<_> = all.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (one, answer) in all.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(it) = one.as_mut().poll(cx)
            {
                *answer = Some(it);
            }
        }
        match answers.iter().all(Option::is_some) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
