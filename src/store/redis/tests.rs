//! What the simulators and the tests of scripts share: random cases, and a server.

use std::{
    env, fmt, iter,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

use crate::{
    algorithm::Scripted,
    clock::{ManualClock, Timestamp},
    store::{RedisConnection, RedisStore},
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

/// What a script replies about a cost: `frame.lua` says what it is. The state is given as it is
/// then, and since when it is so.
pub(super) fn reply<L: Scripted>(
    limit: &L,
    stored: Option<(&L::State, u64)>,
    (cost, is_charged): (u32, bool),
    now: u64,
) -> Bytes {
    let (script, now_at) = (L::script(), at(now));
    let mut value = Vec::new();
    if let Some((state, last)) = stored {
        let (mut numbers, mut states, mut tails) = (Vec::new(), Vec::new(), Vec::<u64>::new());
        limit.numbers(state, at(last), &mut |it| {
            numbers.push(it);
        });
        let mut rest = &numbers[..];
        for member in script.members() {
            // A tuple says how many numbers each member has. What is held is the last of them.
            let (own, others) = match script.members().len() {
                1 => (rest, rest),
                _ => rest[1..].split_at(rest[0] as usize),
            };
            let tail = own.len() - if member.settled { 6 } else { 0 };
            states.extend(&own[..member.state.len()]);
            tails.extend(&own[tail..]);
            rest = others;
        }
        if tails.chunks_exact(3).any(|it| it[2] > 0) {
            states.extend(tails);
        }
        value = bytes(1, &[&[last, 0, 2 * last], &states]);
    }
    if is_charged {
        return value.into();
    }
    let fresh = limit.fresh(now_at);
    let state = stored.map_or(&fresh, |(state, _)| state);
    let snapshot = limit.snapshot(state, cost, false, now_at);
    let (mut fitting, mut number, mut lists, mut parameters) = (0, 0, Vec::new(), Vec::new());
    limit.parameters(&mut |it| parameters.push(it));
    let mut parameters = &parameters[..];
    limit.describe(&snapshot, &mut |told| {
        let (own, others) = parameters.split_at(script.members()[number].parameters.len());
        parameters = others;
        fitting |= u64::from(told.is_admitted()) << number;
        if script.members()[number].has_list() {
            let wait = told.retry_after().unwrap_or_default();
            let slots = [told.replenished_after(), told.reset_after(), wait];
            // The slots after whose end it is so.
            let slots = slots.map(|it| match it.as_micros() as u64 {
                0 => 0,
                micros => now + micros - own[2],
            });
            let counted = told.limit() - told.remaining();
            lists.push(counted.max(u64::from(slots[1] > 0)));
            lists.extend(slots);
        }
        number += 1;
    });
    let reply = bytes(0, &[&[fitting], &lists, &[now, value.len() as u64]]);
    [reply, value].concat().into()
}

/// The bytes of these numbers after this one.
fn bytes(first: u8, numbers: &[&[u64]]) -> Vec<u8> {
    let numbers = numbers.iter().copied().flatten().map(|it| it.to_le_bytes());
    iter::once(first)
        .chain(numbers.flat_map(|it| it.into_iter().take(7)))
        .collect()
}

pub(super) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A store that remembers refusals for so many microseconds, if any.
pub(super) fn store(port: u16, clock: &ManualClock, longest: u64) -> RedisStore {
    let url = format!("redis://127.0.0.1:{port}");
    let url = RedisConnection::from_url(&url).expect("a URL");
    let store = RedisStore::builder(url).clock(clock.clone());
    let store = match longest {
        0 => store,
        _ => store.remember_refusals(Duration::from_micros(longest)),
    };
    store.deadline(Duration::from_secs(30)).build()
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
