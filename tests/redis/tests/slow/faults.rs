//! Faults of one Redis server under load: every request is answered in time, by the rule or by the
//! caller's choice.

use std::time::Duration;

use fred::{
    interfaces::ClientLike,
    types::{CustomCommand, Value},
};
use tokio::time::{Instant, sleep};
use tollgate::{OnStoreError, RateLimiter, StoreError, StoreErrorKind};
use tollgate_redis_tests::{Server, until};

use crate::traffic::{Answer, PREFIX, Traffic, has, plenty, recovery, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_is_not_waited_for_and_decides_again_when_it_goes_on() {
    let server = Server::start().await;
    let store = store(server.client().await);
    let refused = Traffic::through(&store, plenty(), OnStoreError::Refuse);
    let admitted = Traffic::through(&store, plenty(), OnStoreError::Admit);
    let chosen = Traffic::through(&store, plenty(), |error: &StoreError| {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        OnStoreError::Admit
    });
    for traffic in [&refused, &admitted, &chosen] {
        traffic.is_decided().await;
    }
    server.stop_process();
    let stop = Instant::now();
    sleep(Duration::from_secs(10)).await;
    server.continue_process();
    let back = Instant::now();
    for traffic in [&refused, &admitted, &chosen] {
        traffic.is_decided().await;
    }
    sleep(Duration::from_millis(300)).await;
    for (traffic, answer) in [
        (refused, Answer::Unavailable),
        (admitted, Answer::Undecided),
        (chosen, Answer::Undecided),
    ] {
        let seen = traffic.end().await;
        for seen in &seen {
            assert!(
                [Answer::Admitted, answer].contains(&seen.answer),
                "{seen:?}"
            );
            let was_stopped = seen.at > stop + Duration::from_secs(1) && seen.at < back;
            assert!(!was_stopped || seen.answer == answer, "{seen:?}");
        }
        assert!(has(&seen, answer));
        let recovery = recovery(&seen, back);
        assert!(recovery < Duration::from_secs(1), "{recovery:?}");
    }
    assert_eq!(server.keys(PREFIX).await.len(), 24);
    assert_eq!(server.keys_without_ttl(PREFIX).await, [""; 0]);
}

/// A fault of a server while requests come, how long it lasts, and how it ends.
///
/// Every request is either decided or answered `undecided`, and none is answered anything else.
async fn passes(
    server: &Server,
    (on_error, undecided): (OnStoreError, Answer),
    fault: impl AsyncFn(&Server),
    ends: impl AsyncFn(&Server),
) {
    let store = store(server.client().await);
    let traffic = Traffic::through(&store, plenty(), on_error);
    traffic.is_decided().await;
    fault(server).await;
    traffic.is_answered(undecided).await;
    ends(server).await;
    let end = Instant::now();
    traffic.is_decided().await;
    sleep(Duration::from_millis(200)).await;
    let seen = traffic.end().await;
    for seen in &seen {
        assert!(
            [Answer::Admitted, undecided].contains(&seen.answer),
            "{seen:?}"
        );
    }
    let recovery = recovery(&seen, end);
    assert!(recovery < Duration::from_secs(1), "{recovery:?}");
    assert_eq!(server.keys_without_ttl(PREFIX).await, [""; 0]);
}

const REFUSE: (OnStoreError, Answer) = (OnStoreError::Refuse, Answer::Unavailable);
const ADMIT: (OnStoreError, Answer) = (OnStoreError::Admit, Answer::Undecided);
/// Whatever the choice, a store that is set up wrongly lets nobody through.
const REFUSE_ANYWAY: (OnStoreError, Answer) = (OnStoreError::Admit, Answer::Misconfigured);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_decides_again_when_it_is_back_and_empty() {
    let server = Server::start().await;
    passes(
        &server,
        ADMIT,
        async |server| server.kill(),
        async |server| server.restart().await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_pauses_its_clients_is_not_waited_for() {
    let server = Server::start().await;
    passes(
        &server,
        REFUSE,
        async |server| {
            let _: String = server.command("CLIENT", &["PAUSE", "1500", "ALL"]).await;
        },
        async |_| sleep(Duration::from_millis(1500)).await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_became_a_replica_is_left_for_the_primary_once_a_second() {
    let server = Server::start().await;
    let connections = async |server: &Server| -> u64 {
        let number = server.info_field("stats", "total_connections_received");
        number.await.unwrap().parse().unwrap()
    };
    passes(
        &server,
        ADMIT,
        async |server| {
            // Nobody listens there.
            let _: String = server.command("REPLICAOF", &["127.0.0.1", "1"]).await;
            let before = connections(server).await;
            sleep(Duration::from_secs(2)).await;
            let made = connections(server).await - before;
            // One of them is the connection that asks.
            assert!((2..=5).contains(&made), "{made} connections");
        },
        async |server| {
            let _: String = server.command("REPLICAOF", &["NO", "ONE"]).await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_is_no_decision() {
    let server = Server::start().await;
    passes(
        &server,
        REFUSE,
        async |server| {
            let _: String = server.command("CONFIG", &["SET", "maxmemory", "1"]).await;
        },
        async |server| {
            let _: String = server.command("CONFIG", &["SET", "maxmemory", "0"]).await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_another_script_is_no_decision() {
    let server = Server::start_with(&["--lua-time-limit", "50"]).await;
    let others = server.client().await;
    passes(
        &server,
        ADMIT,
        async |_| {
            let command = CustomCommand::new_static("EVAL", None, false);
            let others = others.clone();
            tokio::spawn(async move {
                let endless = vec!["while true do end", "0"];
                let _: Result<Value, _> = others.custom(command, endless).await;
            });
        },
        async |server| {
            let _: String = server.command("SCRIPT", &["KILL"]).await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_misses_replicas_is_no_decision() {
    let server = Server::start().await;
    passes(
        &server,
        REFUSE,
        async |server| {
            let _: String = server
                .command("CONFIG", &["SET", "min-replicas-to-write", "1"])
                .await;
        },
        async |server| {
            let _: String = server
                .command("CONFIG", &["SET", "min-replicas-to-write", "0"])
                .await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_refuses_everyone_until_it_is_there() {
    for right in ["evalsha", "setrange", "time", "script|load"] {
        let server = Server::start().await;
        passes(
            &server,
            REFUSE_ANYWAY,
            async |server| {
                let taken = format!("-{right}");
                let _: String = server.command("ACL", &["SETUSER", "default", &taken]).await;
                let _: String = server.command("SCRIPT", &["FLUSH"]).await;
            },
            async |server| {
                let given = format!("+{right}");
                let _: String = server.command("ACL", &["SETUSER", "default", &given]).await;
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_changed_refuses_everyone_until_it_is_known() {
    let server = Server::start().await;
    let set = async |server: &Server, word: &str| {
        let words = ["SETUSER", "app", "on", "resetpass", word, "~*", "+@all"];
        let _: String = server.command("ACL", &words).await;
    };
    set(&server, ">old").await;
    let store = store(server.client_of("app", "old").await);
    let traffic = Traffic::through(&store, plenty(), OnStoreError::Admit);
    traffic.is_decided().await;
    set(&server, ">new").await;
    // A client that is connected stays connected.
    traffic.is_decided().await;
    let _: i64 = server.command("CLIENT", &["KILL", "USER", "app"]).await;
    traffic.is_answered(Answer::Misconfigured).await;
    let error = until("the reason", async || {
        let checked = RateLimiter::new(plenty(), store.clone())
            .check(&1_u32)
            .await;
        checked
            .err()
            .filter(|error| error.kind() == StoreErrorKind::Misconfigured)
    })
    .await;
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    set(&server, ">old").await;
    traffic.is_decided().await;
    traffic.end().await;
}
