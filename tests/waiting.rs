//! Requests that wait for their turns in a layer.

use std::{convert::Infallible, future::Future, time::Duration};

use tokio::{task::JoinSet, time::Instant};
use tollgate::{
    RateLimitLayer,
    key::{KeyExtractor, from_fn},
    response::{AsError, Refused},
};
use tower::{BoxError, Layer, Service, service_fn};

use crate::support::Remote;
use crate::tokio_time::{is_due, millis, store, ten_a_second};

/// A layer whose keys are the hundreds of its requests.
fn hundreds<A, S>(
    algorithm: A,
    store: S,
) -> RateLimitLayer<A, S, impl KeyExtractor<u32, Key = u32, Rejection = Infallible> + Clone, AsError>
{
    let key = from_fn(|number: &u32| Ok::<_, Infallible>(Some(number / 100)));
    RateLimitLayer::new(algorithm, store, key).respond_with(AsError)
}

/// Answers what it is sent.
fn echo() -> impl Service<u32, Response = u32, Error = BoxError, Future: Send> + Clone {
    service_fn(async |number: u32| Ok::<_, BoxError>(number))
}

/// When each is answered, counted from now; `None` if it is refused.
async fn answered_after<F>(requests: Vec<F>) -> Vec<Option<Duration>>
where
    F: Future<Output = Result<u32, BoxError>> + Send + 'static,
{
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (index, request) in requests.into_iter().enumerate() {
        tasks.spawn(async move {
            let answer = request.await;
            (index, answer.ok().map(|_| start.elapsed()))
        });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, after)| after).collect()
}

#[tokio::test(start_paused = true)]
async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
    let mut service = hundreds(ten_a_second(2, millis(250)), store()).layer(echo());
    let requests = (0..5).map(|number| service.call(number)).collect();
    let after = answered_after(requests).await;
    for (after, due) in after[..4].iter().zip([0, 0, 100, 200]) {
        assert!(is_due(after.unwrap(), due), "{after:?} and not {due} ms");
    }
    assert_eq!(after[4], None);
}

#[tokio::test(start_paused = true)]
async fn the_last_gives_its_turn_back_and_who_waits_behind_others_keeps_his() {
    let mut service = hundreds(ten_a_second(1, millis(2_000)), store()).layer(echo());
    let mut requests: Vec<_> = (0..8).map(|number| Some(service.call(number))).collect();
    // The fourth and what is behind the sixth, the last first; the fifth and the sixth still wait.
    for index in [3, 7, 6] {
        requests[index] = None;
    }
    let mut left: Vec<_> = requests.into_iter().flatten().collect();
    left.push(service.call(8));
    let after = answered_after(left).await;
    for (after, due) in after.iter().zip([0, 100, 200, 400, 500, 600]) {
        assert!(is_due(after.unwrap(), due), "{after:?} and not {due} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn one_more_than_may_wait_is_refused_and_gives_its_turn_back() {
    let limit = hundreds(ten_a_second(1, millis(500)), store()).max_waiting(2);
    let (mut one, mut other) = (limit.clone().layer(echo()), limit.layer(echo()));
    let at_once = [one.call(0), one.call(100), other.call(200)];
    let mut waiting = vec![one.call(1), other.call(101)];
    for key in [0, 200] {
        let refused = other.call(key).await.unwrap_err();
        let refused = refused.downcast::<Refused>().unwrap();
        let decision = refused.decision().unwrap();
        let delay = if key == 0 { millis(200) } else { millis(100) };
        assert_eq!(decision.retry_after(), Some(delay), "{decision:?}");
        assert_eq!(decision.remaining(), 0);
        assert_eq!(decision.delay(), Duration::ZERO);
        assert!(!decision.never_fits());
    }
    // A waiter that hangs up makes room for the next request, which gets its turn.
    drop(waiting.remove(0));
    waiting.push(one.call(2));
    assert!(other.call(201).await.is_err());
    let after = answered_after(at_once.into_iter().chain(waiting).collect()).await;
    assert!(after.iter().all(Option::is_some), "{after:?}");
    assert!(is_due(after[4].unwrap(), 100), "{after:?}");
    // Those who have gone on make room too.
    let again = answered_after(vec![one.call(3), other.call(300), other.call(301)]).await;
    assert!(again.iter().all(Option::is_some), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_store_that_is_far_away_takes_no_room_until_it_waits_for_its_turn() {
    let limit = hundreds(ten_a_second(1, millis(500)), Remote(store())).max_waiting(1);
    let mut service = limit.layer(echo());
    let requests = (0..3).map(|_| service.call(0)).collect();
    let after = answered_after(requests).await;
    let answered = after.iter().flatten().count();
    assert_eq!(answered, 2, "{after:?}");
}
