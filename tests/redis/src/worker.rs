//! Worker processes of a test: its own executable, which runs one test and obeys orders, line by
//! line.

use std::{
    fmt::Display,
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::process::{signal, wait_until_stopped};

const ROLE: &str = "TOLLGATE_TEST_ROLE";
/// Precedes each line of an answer: the test harness prints on the same lines.
const MARK: char = '@';
/// The last line of an answer.
const DONE: &str = "done";

/// A worker process. It is killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a process that runs the test of this name, which finds this [`role`](Self::role).
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start(test: &str, role: &str) -> Self {
        let program = std::env::current_exe().expect("the path of this test");
        let mut process = Command::new(program)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process of this test");
        let orders = process.stdin.take().expect("a pipe");
        let answers = process.stdout.take().expect("a pipe");
        Self {
            process,
            orders,
            answers: BufReader::new(answers).lines(),
        }
    }

    /// In a worker, what it was started with; `None` in the process of the test itself.
    pub fn role() -> Option<String> {
        std::env::var(ROLE).ok()
    }

    /// In a worker, the orders as they come; they end when the test closes the pipe.
    pub fn orders() -> impl Iterator<Item = String> {
        std::io::stdin().lines().map_while(Result::ok)
    }

    /// In a worker, a line of its answer.
    pub fn say(line: impl Display) {
        println!("{MARK}{line}");
    }

    /// In a worker, the end of its answer.
    pub fn done() {
        Self::say(DONE);
    }

    /// Gives an order, and waits for nothing. A worker that was killed does not get it.
    pub fn tell(&mut self, order: &str) {
        let _ = writeln!(self.orders, "{order}");
    }

    /// The lines of the next answer, and whether it came to its end.
    pub fn hear(&mut self) -> (Vec<String>, bool) {
        let mut said = Vec::new();
        for line in self.answers.by_ref().map_while(Result::ok) {
            match line.split_once(MARK) {
                Some((_, DONE)) => return (said, true),
                Some((_, line)) => said.push(line.to_owned()),
                None => {}
            }
        }
        (said, false)
    }

    /// Gives an order, and returns the answer.
    ///
    /// # Panics
    ///
    /// When the process ends before the answer does.
    pub fn ask(&mut self, order: &str) -> Vec<String> {
        self.tell(order);
        let (said, is_whole) = self.hear();
        assert!(is_whole, "{order}: it ended after {said:?}");
        said
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Suspends it: it does nothing until it is continued, and does not notice the time that has
    /// passed.
    pub fn suspend(&self) {
        signal(&self.process, "STOP");
        wait_until_stopped(self.process.id());
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        signal(&self.process, "CONT");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
