//! One Redis server without persistence, on a free port of this machine.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::{env, fs, io, path::PathBuf, thread::sleep, time::Duration};

use crate::Failure;

/// A Redis server, which ends when this is dropped.
pub struct Server {
    command: Command,
    process: Child,
    folder: PathBuf,
    /// The port that it listens on.
    pub port: u16,
}

impl Server {
    /// Starts the server that `REDIS_SERVER` names, or `redis-server`, or `valkey-server`, and
    /// waits until it listens.
    pub fn start(arguments: &[&str]) -> Result<Self, Failure> {
        let named = env::var("REDIS_SERVER").into_iter();
        let known = ["redis-server", "valkey-server"].map(str::to_owned);
        for program in named.chain(known) {
            match Self::spawn(&program, arguments) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                started => return Ok(started?),
            }
        }
        Err("no Redis server: install one, or name a program in REDIS_SERVER".into())
    }

    /// `redis://127.0.0.1:` and its port.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it, as a crash would.
    pub fn stop(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }

    /// Starts it again, empty, on the same port, and waits until it listens.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.process = self.command.spawn()?;
        self.wait_until_it_listens()
    }

    fn spawn(program: &str, arguments: &[&str]) -> io::Result<Self> {
        let port = free_port()?;
        let folder = env::temp_dir().join(format!("tollgate-example-{port}"));
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]);
        command.arg(&folder).args(arguments).stdout(Stdio::null());
        fs::create_dir_all(&folder)?;
        let mut server = Self {
            process: command.spawn()?,
            command,
            folder,
            port,
        };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> io::Result<()> {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Some(status) = self.process.try_wait()? {
                let program = self.command.get_program();
                let ended = format!("{program:?} ended at once: {status}");
                return Err(io::Error::other(ended));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A free port whose cluster bus port is free, too.
fn free_port() -> io::Result<u16> {
    loop {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = free.local_addr()?.port();
        if let Some(bus) = port.checked_add(10_000)
            && TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok()
        {
            return Ok(port);
        }
    }
}
