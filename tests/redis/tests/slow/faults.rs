//! Faults of one Redis server, or of the primary under sentinels and in a cluster, under load:
//! every request is answered in time, by the rule or by the caller's choice.

use std::time::Duration;

use fred::{
    interfaces::ClientLike,
    types::{CustomCommand, Value},
};
use tokio::time::{Instant, sleep};
use tollgate::{OnStoreError, RateLimiter, store::RedisStore};
use tollgate_redis_tests::{Cluster, Sentinels, Server, slot_of, until};

use crate::traffic::{Answer, PREFIX, Seen, Traffic, count, plenty, recovery, store};

/// Traffic of every choice while a fault lasts: each request is decided, or answered by its choice.
async fn is_survived(store: RedisStore, fault: impl AsyncFn(&Traffic) -> Instant) {
    let all = [
        Traffic::through(&store, OnStoreError::Refuse),
        Traffic::through(&store, OnStoreError::Admit),
    ];
    for traffic in &all {
        traffic.is_decided().await;
    }
    let over = fault(&all[0]).await;
    for traffic in &all {
        traffic.is_decided().await;
    }
    sleep(Duration::from_millis(500)).await;
    let choices = [Answer::Unavailable, Answer::Undecided];
    for (traffic, choice) in all.into_iter().zip(choices) {
        are_decided_or(choice, &traffic.end().await, (over, Duration::from_secs(2)));
    }
}

/// Some of these were answered so, and all others decided; so all are that came this long after it
/// was over.
fn are_decided_or(choice: Answer, seen: &[Seen], (over, soon): (Instant, Duration)) {
    for seen in seen {
        let may_be = [Answer::Admitted, choice].contains(&seen.answer);
        assert!(may_be, "{seen:?}");
    }
    assert!(count(seen, choice) > 0);
    let recovery = recovery(seen, over);
    assert!(recovery < soon, "{recovery:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_dies_is_not_waited_for_and_its_replica_decides() {
    let sentinels = Sentinels::start().await;
    let of_sentinels = store(sentinels.client().await);
    is_survived(of_sentinels, async |traffic| {
        sentinels.kill_primary().await;
        traffic.is_answered(Answer::Unavailable).await;
        sentinels.wait_for_failover().await;
        Instant::now()
    })
    .await;
    let primary = sentinels.primary().await;
    assert_eq!(primary.keys_without_ttl(PREFIX).await, [""; 0]);
    let cluster = Cluster::start().await;
    let of_cluster = store(super::cluster::client(&cluster));
    is_survived(of_cluster, async |traffic| {
        let slot = slot_of(&cluster.keys(PREFIX).await[0]);
        let first = cluster.kill_owner_of(slot).await;
        traffic.is_answered(Answer::Unavailable).await;
        cluster.wait_for_failover(slot, first).await;
        Instant::now()
    })
    .await;
    assert_eq!(cluster.keys_without_ttl(PREFIX).await, [""; 0]);
}

/// A fault of a server while requests come, and how it ends. Every request is either decided or
/// answered `undecided`, and none is answered anything else.
async fn passes(
    server: &Server,
    (on_error, undecided): (OnStoreError, Answer),
    fault: impl AsyncFn(),
    ends: impl AsyncFn(),
) {
    let store = store(server.client().await);
    let traffic = Traffic::through(&store, on_error);
    traffic.is_decided().await;
    fault().await;
    traffic.is_answered(undecided).await;
    ends().await;
    let end = Instant::now();
    traffic.is_decided().await;
    sleep(Duration::from_millis(200)).await;
    are_decided_or(
        undecided,
        &traffic.end().await,
        (end, Duration::from_secs(1)),
    );
    assert_eq!(server.keys_without_ttl(PREFIX).await, [""; 0]);
}

const REFUSE: (OnStoreError, Answer) = (OnStoreError::Refuse, Answer::Unavailable);
const ADMIT: (OnStoreError, Answer) = (OnStoreError::Admit, Answer::Undecided);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_decides_again_when_it_is_back_and_empty() {
    let server = Server::start().await;
    let killed = async || server.kill();
    passes(&server, ADMIT, killed, async || server.restart().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_pauses_its_clients_lacks_memory_or_misses_replicas_is_no_decision() {
    let server = Server::start().await;
    let paused = async || {
        let _: String = server.command("CLIENT", &["PAUSE", "1500", "ALL"]).await;
    };
    passes(&server, REFUSE, paused, async || {
        sleep(Duration::from_millis(1500)).await;
    })
    .await;
    for setting in ["maxmemory", "min-replicas-to-write"] {
        let set = async |value| {
            let _: String = server.command("CONFIG", &["SET", setting, value]).await;
        };
        passes(
            &server,
            REFUSE,
            async || set("1").await,
            async || set("0").await,
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_became_a_replica_is_left_for_the_primary_once_a_second() {
    let server = Server::start().await;
    let connections = async || -> u64 {
        let number = server.info_field("stats", "total_connections_received");
        number.await.unwrap().parse().unwrap()
    };
    let begins = async || {
        // Nobody listens there.
        let _: String = server.command("REPLICAOF", &["127.0.0.1", "1"]).await;
        let before = connections().await;
        sleep(Duration::from_secs(2)).await;
        let made = connections().await - before;
        // One of them is the connection that asks.
        assert!((2..=5).contains(&made), "{made} connections");
    };
    let ends = async || {
        let _: String = server.command("REPLICAOF", &["NO", "ONE"]).await;
    };
    passes(&server, ADMIT, begins, ends).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_another_script_is_no_decision() {
    let server = Server::start_with(&["--lua-time-limit", "50"]).await;
    let others = server.client().await;
    let begins = async || {
        let others = others.clone();
        tokio::spawn(async move {
            let command = CustomCommand::new_static("EVAL", None, false);
            let endless = vec!["while true do end", "0"];
            let _: Result<Value, _> = others.custom(command, endless).await;
        });
    };
    let ends = async || {
        let _: String = server.command("SCRIPT", &["KILL"]).await;
    };
    passes(&server, ADMIT, begins, ends).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_changed_refuses_everyone_until_it_is_known() {
    let server = Server::start().await;
    let set = async |word: &str| {
        let words = ["SETUSER", "app", "on", "resetpass", word, "~*", "+@all"];
        let _: String = server.command("ACL", &words).await;
    };
    set(">old").await;
    let store = store(server.client_of("app", "old").await);
    let traffic = Traffic::through(&store, OnStoreError::Admit);
    traffic.is_decided().await;
    set(">new").await;
    // A client that is connected stays connected.
    traffic.is_decided().await;
    let _: i64 = server.command("CLIENT", &["KILL", "USER", "app"]).await;
    traffic.is_answered(Answer::Misconfigured).await;
    let limiter = RateLimiter::new(plenty(), store);
    until("the reason", async || {
        let error = limiter.check(&1_u32).await.err()?;
        error.to_string().contains("WRONGPASS").then_some(())
    })
    .await;
    set(">old").await;
    traffic.is_decided().await;
    traffic.end().await;
}
