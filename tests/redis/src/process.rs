//! A server as a child process: started, stopped, killed, started again, and never left behind.

use std::{
    env,
    ffi::OsString,
    fs,
    fs::File,
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{port::Port, wait::PATIENCE};

/// Waits until the test process is gone, however it ended, and then ends the server that it left
/// behind.
///
/// A test process that is killed drops nothing, and neither does one with its servers in a
/// `static`.
const WATCHDOG: &str =
    r#"trap "" HUP INT TERM; read -r _; kill -s KILL "$1" 2>/dev/null; rm -rf -- "$2""#;

/// One server with its port and its directory, which stay the same when it starts again.
#[derive(Debug)]
pub(crate) struct Process {
    environment: Environment,
    args: Vec<String>,
    running: Mutex<Option<Running>>,
    port: Port,
    folder: TempDir,
}

/// Environment variables of the server, beside the test's own.
pub(crate) type Environment = Vec<(&'static str, OsString)>;

#[derive(Debug)]
struct Running {
    server: Child,
    watchdog: Child,
    is_stopped: bool,
}

impl Process {
    /// Starts a server and waits until it answers; `args` are of its directory and its port. One
    /// that ends at once leaves what it printed.
    pub(crate) async fn start(
        environment: Environment,
        args: impl Fn(&Path, u16) -> Vec<String>,
    ) -> Result<Self, String> {
        let mut log = String::new();
        for _ in 0..5 {
            let port = Port::reserve();
            let folder = tempfile::tempdir().expect("a directory for the server");
            let process = Self {
                environment: environment.clone(),
                args: args(folder.path(), port.number),
                running: Mutex::default(),
                port,
                folder,
            };
            match process.begin().await {
                Ok(()) => return Ok(process),
                // Another program has taken the port in the meantime.
                Err(printed) if printed.contains("in use") => log = printed,
                Err(printed) => return Err(printed),
            }
        }
        panic!("the server found no port: {log}")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number
    }

    /// Whether it was neither killed nor stopped.
    pub(crate) fn is_up(&self) -> bool {
        let running = self.running();
        running.as_ref().is_some_and(|running| !running.is_stopped)
    }

    /// Suspends the process: its connections stay open, and it does nothing.
    pub(crate) fn pause(&self) {
        let mut running = self.running();
        let running = running.as_mut().expect("a server that runs");
        signal(&running.server, "STOP");
        running.is_stopped = true;
        wait_until_stopped(running.server.id());
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        let mut running = self.running();
        let running = running.as_mut().expect("a server that runs");
        signal(&running.server, "CONT");
        running.is_stopped = false;
    }

    /// Ends it at once, as a crash would; it may be stopped or have ended.
    pub(crate) fn kill(&self) {
        self.running().take();
    }

    /// Ends it if it runs, starts it with the same port and directory, and waits until it answers.
    pub(crate) async fn restart(&self) {
        self.kill();
        if let Err(log) = self.begin().await {
            panic!("the server ended: {log}");
        }
    }

    async fn begin(&self) -> Result<(), String> {
        let running = self.spawn().expect("a server and `sh` that start");
        *self.running() = Some(running);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.has_ended() {
                self.kill();
                return Err(self.log());
            }
            let log = self.log();
            let is_ready = ["Ready to accept connections", "Sentinel ID is"];
            if is_ready.iter().any(|ready| log.contains(ready)) && self.answers().await {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!(
            "the server did not answer after {PATIENCE:?}: {}",
            self.log()
        )
    }

    fn spawn(&self) -> io::Result<Running> {
        let output = File::create(self.log_file())?;
        let named = env::var_os("REDIS_SERVER").filter(|named| !named.is_empty());
        let usual = || vec!["redis-server".into(), "valkey-server".into()];
        let programs = named.map_or_else(usual, |named| vec![named]);
        let start = |program: &OsString| {
            let mut server = Command::new(program);
            server.args(&self.args).stdin(Stdio::null());
            server.envs(self.environment.iter().map(|(name, value)| (name, value)));
            server.stdout(output.try_clone().ok()?);
            server.stderr(output.try_clone().ok()?).spawn().ok()
        };
        let server = programs.iter().find_map(start).unwrap_or_else(|| {
            panic!("no {programs:?}: install redis-server, or name a server in REDIS_SERVER")
        });
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", WATCHDOG, "sh", &server.id().to_string()]);
        watchdog.arg(self.folder.path()).stdin(Stdio::piped());
        watchdog.stdout(Stdio::null()).stderr(Stdio::null());
        let watchdog = watchdog.spawn().expect("`sh`, which starts");
        Ok(Running {
            server,
            watchdog,
            is_stopped: false,
        })
    }

    fn has_ended(&self) -> bool {
        let mut running = self.running();
        let running = running.as_mut().expect("a server that was started");
        !matches!(running.server.try_wait(), Ok(None))
    }

    async fn answers(&self) -> bool {
        // Over TLS that is not asked: it says that it is ready when it listens.
        if self.args.iter().any(|arg| arg == "--tls-port") {
            return true;
        }
        let asked = async {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())).await?;
            stream.write_all(b"PING\r\n").await?;
            // A client without a password is told so: that is an answer.
            let mut answer = [0; 32];
            let length = stream.read(&mut answer).await?;
            Ok::<_, io::Error>(
                answer[..length].starts_with(b"+PONG") || answer[..length].starts_with(b"-NOAUTH"),
            )
        };
        matches!(timeout(Duration::from_secs(1), asked).await, Ok(Ok(true)))
    }

    /// What it has printed since it was last started.
    fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The watchdog first: it must not act on a number that the system may give to another. The
        // signal ends a stopped server too.
        for child in [&mut self.watchdog, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let status = Command::new("sh")
        .args(["-c", r#"kill -s "$1" "$2""#, "sh", name, &id])
        .status();
    let is_ended = status.is_ok_and(|status| status.success());
    assert!(is_ended, "no {name} for {id}");
}

/// A signal may take effect a little later. Where the system shows it, this waits for that.
pub(crate) fn wait_until_stopped(id: u32) {
    for _ in 0..1000 {
        match fs::read_to_string(format!("/proc/{id}/stat")) {
            Ok(stat) if !stat.contains(") T ") => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
    panic!("it did not stop")
}
