//! Another process of the same example.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::Failure;

/// Another process of the same program, which ends when this is dropped.
pub struct Process {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this program again, with these arguments.
    pub fn start(arguments: &[&str]) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let output = process.stdout.take().ok_or("no output")?;
        let lines = BufReader::new(output).lines();
        Ok(Self { process, lines })
    }

    /// Sends it an empty line.
    pub fn go(&mut self) -> Result<(), Failure> {
        let input = self.process.stdin.as_mut().ok_or("no input")?;
        Ok(writeln!(input)?)
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> Result<String, Failure> {
        Ok(self.lines.next().ok_or("the process has ended")??)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
