//! Runs the program as a person does.

use std::{
    env, fs,
    io::Write,
    path::PathBuf,
    process::{self, Command, Stdio},
};

/// How a run has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) out: String,
    /// What it said on standard error.
    pub(crate) said: String,
}

/// A file of the sample.
pub(crate) fn sample(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sample");
    folder.join(name).display().to_string()
}

/// Runs the program with these arguments, and with this text on standard input.
pub(crate) fn run_with_input(arguments: &[&str], input: &str) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate-replay"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended before it has read anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        said: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the program with these arguments.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    run_with_input(arguments, "")
}

impl Ended {
    /// What it printed, once it has ended well.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.said);
        self.out
    }
}

/// A file that is gone with the value.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let file = env::temp_dir().join(format!("tollgate-replay-{}-{name}", process::id()));
        fs::write(&file, text).unwrap();
        Self(file)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
