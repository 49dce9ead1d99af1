//! The fixtures themselves: each starts, serves, fails as it is told to, comes back, and is gone
//! when it is dropped.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    interfaces::{ClientLike, KeysInterface},
    types::{Builder, Expiration, config::Config},
};
use tollgate_redis_tests::{
    Cluster, SLOTS, Sentinels, Server, TlsServer, connect, slot_of, until, within,
};

#[tokio::test]
async fn a_server_serves_and_is_gone_when_it_is_dropped() {
    let server = Server::start().await;
    let client = server.client().await;
    let (port, id) = (server.port(), server.process_id().unwrap());
    assert_eq!(server.url(), format!("redis://127.0.0.1:{port}"));
    let said = server.info_field("server", "process_id").await.unwrap();
    assert_eq!(
        said,
        id.to_string(),
        "the server that answers is not the one that was started"
    );
    set(&client, "key", "value").await;
    assert_eq!(get(&client, "key").await, "value");
    drop(server);
    assert_gone(port, id);
}

#[tokio::test]
async fn a_server_that_was_killed_comes_back_empty_and_its_client_too() {
    let server = Server::start().await;
    let (client, port) = (server.client().await, server.port());
    set(&client, "key", "value").await;
    let before = server.process_id().unwrap();
    server.kill();
    assert_gone(port, before);
    assert!(!server.is_up());
    server.restart().await;
    assert_eq!(server.port(), port);
    assert!(server.is_up());
    until("the client's connection", async || {
        let value: Result<Option<String>, _> = client.get("key").await;
        value.ok()?.is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stopped_server_does_not_answer_until_it_goes_on() {
    let server = Server::start().await;
    let client = server.client().await;
    server.stop_process();
    assert!(!server.is_up());
    let asked = client.get::<Option<String>, _>("key");
    let answer = tokio::time::timeout(Duration::from_millis(300), asked).await;
    assert!(answer.is_err(), "{answer:?}");
    server.continue_process();
    let asked = client.get::<Option<String>, _>("key");
    let answer = within(Duration::from_secs(5), "an answer", asked).await;
    assert_eq!(answer.unwrap(), None);
}

#[tokio::test]
async fn a_stopped_server_is_gone_when_it_is_dropped() {
    let server = Server::start().await;
    let (port, id) = (server.port(), server.process_id().unwrap());
    server.stop_process();
    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_gone(port, id);
}

#[tokio::test]
async fn a_test_that_panics_leaves_no_server() {
    let test = tokio::spawn(async {
        let server = Server::start().await;
        std::panic::panic_any((server.port(), server.process_id().unwrap()));
    });
    let panic = test.await.unwrap_err().into_panic();
    let (port, id) = *panic.downcast::<(u16, u32)>().unwrap();
    assert_gone(port, id);
}

#[tokio::test]
async fn a_test_process_that_is_killed_leaves_no_server() {
    let mut test = Command::new(std::env::current_exe().unwrap())
        .args([
            "slow::fixtures::starts_a_server_and_waits",
            "--exact",
            "--nocapture",
        ])
        .env(STARTS_A_SERVER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let started = lines.find_map(|line| Some(line.unwrap().split_once("started: ")?.1.to_owned()));
    let started = started.expect("the line of a test that starts a server");
    let words: Vec<_> = started.split(' ').collect();
    let (port, id) = (words[0].parse().unwrap(), words[1].parse().unwrap());
    assert!(is_there(port, id));
    test.kill().unwrap();
    test.wait().unwrap();
    until("the end of the server", async || {
        (!is_there(port, id)).then_some(())
    })
    .await;
}

/// Makes a process of these tests the one that is killed.
const STARTS_A_SERVER: &str = "TOLLGATE_STARTS_A_SERVER";

#[tokio::test]
async fn starts_a_server_and_waits() {
    if std::env::var_os(STARTS_A_SERVER).is_none() {
        return;
    }
    let server = Server::start().await;
    println!(
        "started: {} {}",
        server.port(),
        server.process_id().unwrap()
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_server_tells_what_was_called_and_which_keys_stay() {
    let server = Server::start().await;
    let client = server.client().await;
    assert_eq!(server.command_calls("set").await, 0);
    for number in 0..2_000 {
        let key = format!("a:{number}");
        let expires = (number % 1_000 != 7).then_some(Expiration::EX(100));
        let () = client.set(key, "", expires, None, false).await.unwrap();
    }
    set(&client, "b", "").await;
    assert_eq!(server.command_calls("set").await, 2_001);
    assert!(server.command_usec("set").await > 0);
    assert_eq!(server.keys("a:").await.len(), 2_000);
    assert_eq!(server.keys("a:12").await.len(), 111);
    assert_eq!(server.keys_without_ttl("a:").await, ["a:1007", "a:7"]);
    assert_eq!(server.keys_without_ttl("").await, ["a:1007", "a:7", "b"]);
    let () = server.command("CONFIG", &["RESETSTAT"]).await;
    assert_eq!(server.command_calls("set").await, 0);
}

#[tokio::test]
async fn a_server_takes_arguments_of_its_own() {
    let server = Server::start_with(&[
        "--maxmemory",
        "64mb",
        "--requirepass",
        "secret",
        "--user",
        "reader",
        "on",
        ">word",
        "~a:*",
        "+get",
    ])
    .await;
    let memory = server.info_field("memory", "maxmemory").await;
    assert_eq!(memory.as_deref(), Some("67108864"));
    let reader = server.client_of("reader", "word").await;
    assert_eq!(reader.get::<Option<String>, _>("a:1").await.unwrap(), None);
    let refused = reader.get::<Option<String>, _>("b:1").await.unwrap_err();
    assert!(refused.details().contains("NOPERM"), "{refused}");
    let default = server.client_of("default", "secret").await;
    set(&default, "b:1", "value").await;
}

#[tokio::test]
#[should_panic(expected = "the server ended: ")]
async fn a_server_that_does_not_start_says_why() {
    Server::start_with(&["--maxmemory", "much"]).await;
}

#[tokio::test]
async fn many_servers_at_a_time_have_ports_of_their_own() {
    let starts: Vec<_> = (0..12).map(|_| tokio::spawn(Server::start())).collect();
    let mut ports = std::collections::BTreeSet::new();
    let mut servers = Vec::new();
    for start in starts {
        let server = start.await.unwrap();
        assert!(ports.insert(server.port()));
        servers.push(server);
    }
}

#[tokio::test]
async fn a_server_behind_tls_serves_its_users_alone() {
    let args = [
        "--user", "app", "on", ">word", "~*", "+@all", "--user", "default", "off",
    ];
    let server = TlsServer::start_with(&args).await;
    let client = server.client("app", "word").await;
    set(&client, "key", "value").await;
    assert_eq!(server.server().keys_without_ttl("").await, ["key"]);
    assert!(server.server().url().starts_with("rediss://"));
    assert!(server.certificate().starts_with("-----BEGIN CERTIFICATE"));

    let stranger = TlsServer::start().await;
    for config in [
        server.config("app", "other"),
        server.server().config(),
        Config {
            tls: None,
            ..server.config("app", "word")
        },
        Config {
            tls: stranger.config("app", "word").tls,
            ..server.config("app", "word")
        },
    ] {
        let refused = Builder::from_config(config).build().unwrap();
        let refused = within(Duration::from_secs(10), "an error", refused.init()).await;
        assert!(refused.is_err());
    }

    server.server().kill();
    server.server().restart().await;
    let client = server.client("app", "word").await;
    set(&client, "key", "value").await;
    let (port, id) = (
        server.server().port(),
        server.server().process_id().unwrap(),
    );
    drop(server);
    assert_gone(port, id);
}

#[tokio::test]
async fn sentinels_put_the_replica_in_the_place_of_a_dead_primary() {
    let sentinels = Sentinels::start().await;
    let client = sentinels.client().await;
    set(&client, "key", "value").await;
    let first = sentinels.kill_primary().await;
    assert_eq!(first.port(), sentinels.servers()[0].port());
    let second = sentinels.wait_for_failover().await;
    assert_eq!(second.port(), sentinels.servers()[1].port());
    until("a write through the sentinels", async || {
        let written: Result<(), _> = client.set("other", "value", None, None, false).await;
        written.ok()
    })
    .await;
    assert!(sentinels.keys("").await.contains(&"other".into()));
    assert_eq!(sentinels.keys_without_ttl("other").await, ["other"]);
    let by_url = connect(Config::from_url(&sentinels.url()).unwrap()).await;
    assert_eq!(get(&by_url, "other").await, "value");

    first.restart().await;
    sentinels.wait_until_replicated().await;
    assert_eq!(sentinels.primary().await.port(), second.port());
    assert!(first.keys("").await.contains(&"other".into()));
    let ports: Vec<_> = sentinels.ports();
    drop(sentinels);
    for port in ports {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[tokio::test]
async fn a_replica_takes_the_place_of_a_primary_of_the_cluster() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    for number in 0..300 {
        set(&client, &format!("a:{number}"), "value").await;
    }
    assert_eq!(cluster.primaries().await, [0, 1, 2]);
    assert_eq!(cluster.keys("a:").await.len(), 300);
    assert_eq!(cluster.keys_without_ttl("a:").await.len(), 300);
    assert_eq!(cluster.command_calls("set").await, 300);
    for slot in [0, 5_000, 10_000, SLOTS - 1] {
        assert!(cluster.owner_of(slot).await < 3);
    }

    let slot = slot_of("a:1");
    let first = cluster.kill_owner_of(slot).await;
    let second = cluster.wait_for_failover(slot, first).await;
    assert_eq!(second, first + 3);
    until("a write to the new primary", async || {
        let written: Result<(), _> = client.set("a:1", "other", None, None, false).await;
        written.ok()
    })
    .await;
    let by_url = connect(Config::from_url(&cluster.url()).unwrap()).await;
    assert_eq!(get(&by_url, "a:1").await, "other");

    cluster.nodes()[first].restart().await;
    cluster.wait_until_ok().await;
    assert_eq!(cluster.owner_of(slot).await, second);
    let nodes = cluster.nodes().iter();
    let nodes: Vec<_> = nodes
        .map(|node| (node.port(), node.process_id().unwrap()))
        .collect();
    assert_eq!(nodes.len(), 6);
    drop(cluster);
    for (port, id) in nodes {
        assert_gone(port, id);
        assert!(TcpStream::connect(("127.0.0.1", port + 10_000)).is_err());
    }
}

#[tokio::test]
async fn a_slot_moves_with_its_keys() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    for number in 0..250 {
        set(&client, &format!("{{a}}:{number}"), "value").await;
    }
    let slot = slot_of("{a}:1");
    assert_eq!(slot, slot_of("a"));
    let from = cluster.owner_of_key("{a}:1").await;
    let to = (from + 1) % 3;

    cluster.begin_migration(slot, from, to).await;
    let (old, new) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    let asked: Result<Option<String>, _> = old.try_command("GET", &["{a}:new"]).await;
    let asked = asked.unwrap_err();
    assert!(asked.details().starts_with("ASK "), "{asked}");
    let asked: Result<Option<String>, _> = client.get("{a}:new").await;
    assert!(asked.is_err(), "fred follows `ASK` now: {asked:?}");
    assert_eq!(get(&client, "{a}:249").await, "value");
    cluster.move_keys(slot, from, to).await;
    assert_eq!(
        (old.keys("").await.len(), new.keys("").await.len()),
        (0, 250)
    );
    assert_eq!(cluster.owner_of(slot).await, from);
    cluster.end_migration(slot, from, to).await;
    assert_eq!(cluster.owner_of(slot).await, to);
    assert_eq!(get(&client, "{a}:249").await, "value");

    cluster.migrate_slot(slot, to, from).await;
    assert_eq!(cluster.owner_of(slot).await, from);
    assert_eq!(get(&client, "{a}:249").await, "value");
}

#[tokio::test]
#[should_panic(expected = "the rain: not after 60s")]
async fn a_wait_ends() {
    tokio::time::pause();
    until("the rain", async || None::<()>).await;
}

async fn set(client: &Client, key: &str, value: &str) {
    let () = client.set(key, value, None, None, false).await.unwrap();
}

async fn get(client: &Client, key: &str) -> String {
    client.get(key).await.unwrap()
}

/// Nothing listens on the port, and the process is no more.
fn assert_gone(port: u16, id: u32) {
    assert!(!is_there(port, id), "process {id} or port {port}");
}

fn is_there(port: u16, id: u32) -> bool {
    // A process that ended may be listed until its parent, whichever that is now, has waited for
    // it.
    let stat = fs::read_to_string(format!("/proc/{id}/stat"));
    let runs = stat.is_ok_and(|stat| !stat.contains(") Z "));
    runs || TcpStream::connect(("127.0.0.1", port)).is_ok()
}
