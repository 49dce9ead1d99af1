//! Libraries of other languages, installed by their own package managers for the run. Each is a
//! process that reads how many decisions it shall make, and answers how many were admitted.

use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    rc::Rc,
};

use crate::subject::{CALLERS, Decide};

/// Programs that a library can be run by.
pub(crate) struct Installed {
    folder: tempfile::TempDir,
    /// `limits` of Python: its version, if it could be installed.
    pub(crate) limits: Option<String>,
    /// `rate-limiter-flexible` of npm: its version, if it could be installed.
    pub(crate) flexible: Option<String>,
}

impl Installed {
    /// Installs what can be.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let at = folder.path();
        let limits = said("python3", &["-m", "venv", "venv"], at)
            .and_then(|_| said("venv/bin/pip", &["install", "-q", "limits[redis]"], at))
            .and_then(|_| said("venv/bin/pip", &["show", "limits"], at))
            .and_then(|text| {
                Some(
                    text.lines()
                        .find_map(|line| line.strip_prefix("Version: "))?
                        .to_owned(),
                )
            });
        let install = ["install", "--silent", "rate-limiter-flexible", "ioredis"];
        let version = "console.log(require('rate-limiter-flexible/package.json').version)";
        let flexible = said("npm", &install, at).and_then(|_| said("node", &["-e", version], at));
        let flexible = flexible.map(|text| text.trim().to_owned());
        Self {
            folder,
            limits,
            flexible,
        }
    }

    /// A strategy of `limits`, with so many in a day.
    pub(crate) fn limits(&self, url: &str, strategy: &str, most: u32) -> Decide {
        let script = include_str!("limits.py");
        self.process("venv/bin/python", ["-c", script], url, strategy, most)
    }

    /// `RateLimiterRedis`, with so many in a day.
    pub(crate) fn flexible(&self, url: &str, most: u32) -> Decide {
        let script = include_str!("rate_limiter_flexible.js");
        self.process("node", ["-e", script], url, "RateLimiterRedis", most)
    }

    /// How many requests there were about one key, how many `RateLimiterRedis` has admitted of
    /// them, with so many limiters that remember who is over the limit, and how many they have
    /// refused while fewer than fit had been admitted.
    pub(crate) fn flexible_fleet(&self, url: &str, numbers: [usize; 5]) -> [usize; 3] {
        let numbers = numbers.map(|number| number.to_string());
        let script = include_str!("rate_limiter_flexible_fleet.js");
        let mut arguments = vec!["-e", script, url];
        arguments.extend(numbers.iter().map(String::as_str));
        let text = said("node", &arguments, self.folder.path()).expect("it succeeds");
        let mut said = text
            .split_whitespace()
            .map(|it| it.parse().expect("a number"));
        [(); 3].map(|()| said.next().expect("a number"))
    }

    fn process(&self, program: &str, code: [&str; 2], url: &str, rule: &str, most: u32) -> Decide {
        let path = self.folder.path();
        let program = if program.contains('/') {
            path.join(program)
        } else {
            program.into()
        };
        let child = Command::new(program)
            .current_dir(path)
            .args(code)
            .args([url, rule, &most.to_string(), &CALLERS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let process = Rc::new(RefCell::new(Process::new(child.expect("it starts"))));
        Box::new(move |count| {
            let process = Rc::clone(&process);
            Box::pin(async move { process.borrow_mut().decide(count) })
        })
    }
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    fn new(mut child: Child) -> Self {
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Self {
            child,
            stdin,
            stdout,
        }
    }

    fn decide(&mut self, count: usize) -> usize {
        writeln!(self.stdin, "{count}").expect("it listens");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        line.trim().parse().expect("a number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is a child of this process alone, and has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program prints, if it is there and succeeds.
fn said(program: &str, arguments: &[&str], folder: &Path) -> Option<String> {
    let program = if program.contains('/') {
        folder.join(program)
    } else {
        program.into()
    };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}
