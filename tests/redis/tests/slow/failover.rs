//! A primary under sentinels that dies: its replica decides, and nobody waits.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate::OnStoreError;
use tollgate_redis_tests::Sentinels;

use crate::traffic::{Answer, PREFIX, Traffic, has, plenty, recovery, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_dies_is_not_waited_for_and_its_replica_decides() {
    let sentinels = Sentinels::start().await;
    let store = store(sentinels.client().await);
    let refused = Traffic::through(&store, plenty(), OnStoreError::Refuse);
    let admitted = Traffic::through(&store, plenty(), OnStoreError::Admit);
    refused.is_decided().await;
    admitted.is_decided().await;
    let first = sentinels.kill_primary().await;
    refused.is_answered(Answer::Unavailable).await;
    admitted.is_answered(Answer::Undecided).await;
    sentinels.wait_for_failover().await;
    let over = Instant::now();
    refused.is_decided().await;
    admitted.is_decided().await;
    sleep(Duration::from_millis(500)).await;
    for (traffic, answer) in [
        (refused, Answer::Unavailable),
        (admitted, Answer::Undecided),
    ] {
        let seen = traffic.end().await;
        for seen in &seen {
            assert!(
                [Answer::Admitted, answer].contains(&seen.answer),
                "{seen:?}"
            );
        }
        assert!(has(&seen, answer));
        let recovery = recovery(&seen, over);
        assert!(recovery < Duration::from_secs(2), "{recovery:?}");
    }
    first.restart().await;
    let primary = sentinels.primary().await;
    assert_eq!(primary.keys_without_ttl(PREFIX).await, [""; 0]);
}
