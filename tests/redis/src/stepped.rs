//! A server whose wall clock is stepped while it runs, as an operator or a time daemon would.
//!
//! A small library, `stepped.c`, replaces its time functions in its own process. The linker that
//! Rust needs anyway (`cc`, or the program that `CC` names) builds it. libfaketime would do the
//! same, but does not work with the servers' allocator.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
    sync::atomic::{AtomicI64, Ordering},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::{link::Link, server::Server};

const LIBRARY: &str = include_str!("stepped.c");

/// A server alone, and its clock.
#[derive(Debug)]
pub struct SteppedServer {
    server: Server,
    file: File,
    micros: AtomicI64,
    _folder: TempDir,
}

impl SteppedServer {
    /// Starts a server with the right time.
    ///
    /// # Panics
    ///
    /// When there is no C compiler, or the server does not read the time through the library.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a directory for the clock");
        let (library, file) = (build_in(folder.path()), folder.path().join("stepped_by"));
        fs::write(&file, 0_i64.to_ne_bytes()).expect("a file for the clock");
        let environment = vec![
            ("LD_PRELOAD", library.into_os_string()),
            ("STEPPED_BY", file.clone().into_os_string()),
        ];
        let server = Server::start_in(environment, &Link::default(), &[]).await;
        let stepped = Self {
            server,
            file: File::options().write(true).open(&file).expect("that file"),
            micros: AtomicI64::new(0),
            _folder: folder,
        };
        for hours in [1, -1] {
            let (before, step) = (stepped.now().await, hours * 3_600_000_000);
            stepped.step(step);
            let moved = stepped.now().await - before;
            assert!(
                (step..step + 1_800_000_000).contains(&moved),
                "the server does not read the time through the library that was preloaded: {moved}"
            );
        }
        stepped
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The server's own time, in microseconds since the epoch.
    pub async fn now(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.server.command("TIME", &[]).await;
        seconds * 1_000_000 + micros
    }

    /// Steps the server's clock by so many microseconds, and waits until the server has seen it.
    pub fn step(&self, micros: i64) {
        let all = self.micros.fetch_add(micros, Ordering::SeqCst) + micros;
        // One aligned write of a word: the server sees the time before or after it.
        let written = self.file.write_all_at(&all.to_ne_bytes(), 0);
        written.expect("a file that can be written to");
        // From Valkey 9.1 on a server reads the wall clock no more than once a millisecond.
        thread::sleep(Duration::from_millis(5));
    }

    /// Sets the server's clock to this time, in microseconds since the epoch; it goes on from
    /// there.
    pub async fn set(&self, time: i64) {
        self.step(time - self.now().await);
    }
}

fn build_in(folder: &Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("stepped.c"), folder.join("stepped.so"));
    fs::write(&source, LIBRARY).expect("a directory that can be written to");
    let compiler = env::var_os("CC").filter(|name| !name.is_empty());
    let compiler = compiler.unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    // The library declares the time functions itself: it includes no header that does.
    command.args(["-shared", "-fPIC", "-O1", "-fno-builtin", "-o"]);
    let output = command.arg(&library).arg(&source).output();
    let output = output.unwrap_or_else(|error| {
        let compiler = compiler.display();
        panic!("{compiler} builds the clock of a server that is stepped: {error}; install it, or name one in CC")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the clock was not built: {said}");
    library
}
