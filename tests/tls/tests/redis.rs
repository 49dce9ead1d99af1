//! Over TLS, with certificates on both sides, a store decides, refuses, holds and settles, counts
//! what is in flight and lets wait as it does without: on one server, behind Sentinel and in a
//! cluster, with the rights that the docs name. The store has no code for it but the settings that
//! it copies to each of its connections.

use std::{
    env, fs,
    io::{Write, stderr},
    process::Command,
    sync::Arc,
    time::Duration,
};

use fred::{
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    types::config::{Config, TlsConfig, TlsConnector},
};
use tempfile::TempDir;
use tollgate::{
    Quota, RateLimiter, StoreErrorKind,
    algorithm::{FixedWindow, InFlight, LeakyBucket},
    store::{RedisConnection, RedisStore},
};
use tollgate_redis_tests::{
    Cluster, Link, Sentinels, Server, patient,
    rights::{OF_A_CLUSTER, OF_A_CONNECT, RIGHTS, as_the_app, set_user},
    slot_of, unconnected, until,
};

/// What a server prints that was built without TLS: before Redis 7.2, and from then on.
const WITHOUT_TLS: [&str; 2] = ["Bad directive", "Failed finding TLS support"];

/// The files of the servers, and how they are reached; `None`, and a line that says so, if somebody
/// has named a server without TLS.
async fn over_tls() -> Option<(TempDir, Link)> {
    asking_for_certificates("yes").await
}

async fn asking_for_certificates(of_clients: &str) -> Option<(TempDir, Link)> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (certificate, key) = (
        file("certificate.pem", made.cert.pem()),
        file("key.pem", made.signing_key.serialize_pem()),
    );
    let args = format!(
        "--tls-cert-file {certificate} --tls-key-file {key} --tls-ca-cert-file {certificate} \
         --tls-auth-clients {of_clients} --tls-replication yes --tls-cluster yes"
    );
    let args = args.split(' ').map(str::to_owned).collect();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let own = (made.cert.der().clone(), made.signing_key.serialize_der());
    let link = Link::over_tls(args, trusting(roots, Some(own)));
    let printed = Server::cannot_start_over(&link).await.unwrap_or_default();
    let is_without = WITHOUT_TLS.iter().any(|words| printed.contains(words));
    if is_without && env::var_os("REDIS_SERVER").is_some() {
        // Past what the tests' harness keeps to itself.
        let skipped = b"not tested: REDIS_SERVER names a server that was built without TLS\n";
        stderr().write_all(skipped).unwrap();
        return None;
    }
    Some((folder, link))
}

/// A client that trusts these alone, with a certificate of its own and its key, or without.
fn trusting(roots: RootCertStore, own: Option<(CertificateDer<'static>, Vec<u8>)>) -> Config {
    // Named, since another crate in the same build may bring a second one.
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let client = client.with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots);
    let client = match own {
        Some((certificate, key)) => {
            let key = PrivateKeyDer::try_from(key).unwrap();
            client
                .with_client_auth_cert(vec![certificate], key)
                .unwrap()
        }
        None => client.with_no_client_auth(),
    };
    Config {
        tls: Some(TlsConfig::from(TlsConnector::from(client))),
        ..Config::default()
    }
}

fn store(config: Config) -> RedisStore {
    patient(unconnected(config)).build()
}

/// It decides about this key, refuses it, holds units and settles them, counts what is in flight,
/// and lets wait.
async fn does_all(store: &RedisStore, key: u32) {
    let window = FixedWindow::new(Quota::per_day(10)).settled();
    let limiter = RateLimiter::new(window, store.clone());
    until("an answer", async || limiter.reset(&key).await.ok()).await;
    let decided = limiter.check_cost(&key, 4).await.unwrap();
    assert_eq!(decided.remaining(), 6);
    let hold = limiter.hold(&key, 5).await.unwrap().unwrap();
    assert!(!limiter.check_cost(&key, 2).await.unwrap().is_admitted());
    hold.settle(1).await.unwrap();
    assert_eq!(limiter.peek(&key).await.unwrap().remaining(), 5);

    let in_flight = RateLimiter::new(InFlight::new(1), store.clone());
    in_flight.reset(&key).await.unwrap();
    let place = in_flight.hold(&key, 1).await.unwrap().unwrap();
    assert!(in_flight.hold(&key, 1).await.unwrap().is_err());
    place.settle(1).await.unwrap();
    assert_eq!(in_flight.peek(&key).await.unwrap().remaining(), 1);

    let queue = LeakyBucket::new(Quota::per_hour(1)).capacity(2).queue();
    let queue = RateLimiter::new(queue, store.clone());
    queue.reset(&key).await.unwrap();
    assert_eq!(queue.check(&key).await.unwrap().delay(), Duration::ZERO);
    assert!(queue.check(&key).await.unwrap().delay() > Duration::from_secs(3_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_a_server_is_asked_that_hangs_or_starts_again() {
    let Some((_files, link)) = over_tls().await else {
        return;
    };
    let server = Server::start_over(&link, &["--user", "default", "off"]).await;
    let rights = [&RIGHTS[..], OF_A_CONNECT].concat();
    set_user(&server, &rights).await;
    let config = as_the_app(server.config());
    let short = RedisStore::builder(unconnected(config.clone())).deadline(Duration::from_secs(1));
    let (store, short) = (store(config.clone()), short.build());
    does_all(&store, 1).await;
    does_all(&short, 2).await;
    let log: Vec<fred::types::Value> = server.command("ACL", &["LOG"]).await;
    assert!(log.is_empty(), "{log:?}");

    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(10)), short.clone());
    server.stop_process();
    let error = limiter.check(&2).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    server.continue_process();
    does_all(&short, 2).await;
    server.restart().await;
    set_user(&server, &rights).await;
    does_all(&store, 1).await;
}

/// In a process of its own: whom it trusts is said by its environment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_is_enough_where_the_system_trusts_the_server() {
    if let Ok(url) = env::var("TOLLGATE_TEST_URL") {
        let redis = RedisConnection::from_url(&url).unwrap();
        let store = RedisStore::builder(redis).deadline(Duration::from_secs(10));
        return does_all(&store.build(), 1).await;
    }
    let Some((files, link)) = asking_for_certificates("no").await else {
        return;
    };
    let server = Server::start_over(&link, &[]).await;
    let run = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "redis::a_url_is_enough_where_the_system_trusts_the_server",
        ])
        .env(
            "TOLLGATE_TEST_URL",
            format!("rediss://127.0.0.1:{}", server.port()),
        )
        .env("SSL_CERT_FILE", files.path().join("certificate.pem"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(printed.contains("test result: ok. 1 passed"), "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_trusted_or_trusts_not_the_client_decides_nothing() {
    let Some((files, link)) = over_tls().await else {
        return;
    };
    let certificate = fs::read(files.path().join("certificate.pem")).unwrap();
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
    roots.add(certificate).unwrap();
    let server = Server::start_over(&link, &[]).await;
    let not_trusting = trusting(RootCertStore::empty(), None);
    for tls in [not_trusting.tls, trusting(roots, None).tls, None] {
        let config = Config {
            tls,
            ..server.config()
        };
        let store = RedisStore::builder(unconnected(config)).deadline(Duration::from_secs(1));
        let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(10)), store.build());
        let error = limiter.check(&1).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
    assert_eq!(server.keys("").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_sentinels_name_the_primary_and_the_next_one() {
    let Some((_files, link)) = over_tls().await else {
        return;
    };
    let sentinels = Sentinels::start_over(&link).await;
    let store = store(sentinels.config());
    does_all(&store, 1).await;
    sentinels.kill_primary().await;
    sentinels.wait_for_failover().await;
    does_all(&store, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_each_node_of_a_cluster_is_asked_and_the_replica_of_one_that_dies() {
    let Some((_files, link)) = over_tls().await else {
        return;
    };
    let cluster = Cluster::start_over(&link, &[]).await;
    let rights = [&RIGHTS[..], OF_A_CONNECT, OF_A_CLUSTER].concat();
    for node in cluster.nodes() {
        set_user(node, &rights).await;
    }
    let store = store(as_the_app(cluster.config()));
    for key in 0..9 {
        does_all(&store, key).await;
    }
    let keys = cluster.keys("tollgate").await;
    let dead = cluster.kill_owner_of(slot_of(&keys[0])).await;
    cluster.wait_for_failover(slot_of(&keys[0]), dead).await;
    for key in 0..9 {
        does_all(&store, key).await;
    }
}
