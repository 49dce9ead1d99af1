//! What the simulators and the tests of scripts share: random cases, and a server.

use std::{
    env, fmt,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

/// Runs `TOLLGATE_CASES` cases, or 2 000, and so many times as many: from the same seed in each
/// run. The first one that is wrong is told, in `shrunk` attempts made smaller.
pub(super) fn search<C: fmt::Debug>(
    cases: impl Strategy<Value = C>,
    times: f64,
    shrunk: u32,
    run: impl Fn(C) -> Result<(), String>,
) -> Result<(), String> {
    let count = env::var("TOLLGATE_CASES").map_or(2_000.0, |it| it.parse().expect("a number"));
    let config = Config {
        cases: (count * times) as u32,
        failure_persistence: None,
        max_shrink_iters: shrunk,
        ..Config::default()
    };
    let seeded = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let ran = TestRunner::new_with_rng(config, seeded)
        .run(&cases, |case| run(case).map_err(TestCaseError::fail));
    ran.map_err(|why| match why {
        TestError::Fail(why, case) => format!("{why}\n{case:?}"),
        why => why.to_string(),
    })
}

/// A server of its own, on loopback. It ends when this is dropped.
pub(super) struct TestServer {
    process: Child,
    pub(super) port: u16,
}

impl TestServer {
    pub(super) fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = free.expect("a free port").port();
        let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut server = Command::new(program);
        server.args(["--bind", "127.0.0.1", "--save", "", "--port"]);
        let server = server.arg(port.to_string()).stdout(Stdio::null());
        let process = server.spawn().expect("a server");
        Self { process, port }
    }

    /// A connection, once the server takes one.
    pub(super) fn connect(&self) -> TcpStream {
        let begin = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => break stream,
                Err(_) if begin.elapsed() < Duration::from_secs(20) => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("no connection: {error}"),
            }
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
