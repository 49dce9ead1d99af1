//! A store reaches its server over a Unix socket, by its URL.

use tollgate::{Quota, RateLimiter, algorithm::FixedWindow, store::RedisConnection};
use tollgate_redis_tests::{Server, patient, until};

#[tokio::test]
async fn over_a_unix_socket_a_server_decides_that_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let path = path.to_str().unwrap();
    let server = Server::start_with(&["--unixsocket", path]).await;
    let connection = RedisConnection::from_url(&format!("redis+unix://{path}")).unwrap();
    let limiter = RateLimiter::new(
        FixedWindow::new(Quota::per_day(2)),
        patient(connection).build(),
    );
    let decisions = async || {
        let admitted = async || limiter.check("bob").await.map(|it| it.is_admitted());
        until("a decision", async || admitted().await.ok()).await;
        [admitted().await.unwrap(), admitted().await.unwrap()]
    };
    assert_eq!(decisions().await, [true, false]);
    server.restart().await;
    assert_eq!(decisions().await, [true, false]);
}
