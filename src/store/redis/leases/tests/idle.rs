//! What lies idle, and how many buckets are leased, without a server.

use super::*;

const LEASE_TIME: Duration = Duration::from_millis(100);
/// What [`LEASE_TIME`] is held for.
const HELD_FOR: Duration = Duration::from_secs(5);

/// A store without a server, whose clock this is, and what it may lease.
fn alone(clock: &ManualClock) -> (RedisStore, Arc<Leases>, Subject) {
    let store = store(1, clock, 0).leased(LEASE_TIME);
    let leases = Arc::clone(store.leases.as_ref().expect("leases"));
    let subject = subject_of(&store, 0);
    (store, leases, subject)
}

fn subject_of(store: &RedisStore, key: u32) -> Subject {
    let query = Query::new(store, &TokenBucket::new(Quota::per_second(1_000)), key);
    query.subject().expect("a subject")
}

fn has_leased(store: &RedisStore, subject: &Subject) {
    let mut leasing = store.shared.leasing(subject, &[1; 5]).expect("leases");
    leasing.begin(Lease {
        held: 5,
        left: 5,
        by_member: Vec::new(),
        asked: leasing.asked,
        asked_at: leasing.asked_at,
        answered_at: 0,
        reply: Bytes::new(),
    });
}

#[tokio::test(start_paused = true)]
async fn one_task_settles_what_lies_idle_however_often_and_ends_when_nothing_is_leased() {
    let clock = ManualClock::at(at(0));
    let (store, leases, subject) = alone(&clock);
    // The store and this test have it, and each task.
    let tasks = || Arc::strong_count(&leases) - 2;
    for _ in 0..5 {
        has_leased(&store, &subject);
        assert_eq!(tasks(), 1);
        clock.advance(HELD_FOR);
        tokio::time::sleep(LEASE_TIME * 5 / 4).await;
        let known = lock(&leases.known);
        assert_eq!(known.leased, 0);
        assert!(known.buckets[&subject].lease.is_none());
    }
    tokio::time::sleep(LEASE_TIME * 3).await;
    assert_eq!(tasks(), 0);
}

#[tokio::test]
async fn what_lies_idle_is_settled_after_an_outage_if_it_is_still_held() {
    let clock = ManualClock::at(at(0));
    let (store, leases, subject) = alone(&clock);
    let idle = |is_out| {
        leases
            .idle(&store.shared, |_| is_out)
            .map(|idle| idle.len())
    };
    has_leased(&store, &subject);
    assert_eq!(idle(false), Some(0));
    clock.advance(LEASE_TIME);
    assert_eq!(idle(true), Some(0));
    assert_eq!(idle(false), Some(1));
    has_leased(&store, &subject);
    clock.advance(HELD_FOR);
    assert_eq!(idle(true), Some(1));
    assert_eq!(idle(true), None);
}

#[tokio::test]
async fn many_that_lie_idle_are_settled_in_batches_and_none_is_left() {
    let clock = ManualClock::at(at(0));
    let (store, leases, _) = alone(&clock);
    for key in 0..1_100 {
        has_leased(&store, &subject_of(&store, key));
    }
    clock.advance(LEASE_TIME);
    let idle = || leases.idle(&store.shared, |_| false).map(|idle| idle.len());
    let batches = [idle(), idle(), idle(), idle()];
    assert_eq!(batches, [Some(500), Some(500), Some(100), None]);
}

#[test]
fn no_more_than_half_of_the_known_buckets_are_asked_for_at_once() {
    let (store, leases, _) = alone(&ManualClock::at(at(0)));
    let ask = |key| (store.shared).leasing(&subject_of(&store, key), &[1; 5]);
    let asked: Vec<_> = (0..5_100).filter_map(ask).collect();
    assert_eq!(asked.len(), MAX_BUCKETS / 2);
    drop(asked);
    assert_eq!(lock(&leases.known).leased, 0);
    assert!(ask(0).is_some());
}

#[test]
fn a_runtime_that_ends_before_its_task_begins_leaves_the_next_one_to_another() {
    let clock = ManualClock::at(at(0));
    let (store, leases, subject) = alone(&clock);
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async { has_leased(&store, &subject) });
        let is_settling = || {
            let known = lock(&leases.known);
            known.settling.as_ref().is_some_and(|it| !it.is_finished())
        };
        assert!(is_settling());
        drop(runtime);
        assert!(!is_settling());
    }
}
