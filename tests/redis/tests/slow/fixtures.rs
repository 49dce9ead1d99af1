//! No server outlives its test. Whatever else the fixtures do, the tests that use them show.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tollgate_redis_tests::{Server, until};

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
