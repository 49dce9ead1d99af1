//! A primary with a replica, and three sentinels that promote the replica.

use std::{collections::HashMap, fs, path::Path};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        FromValue,
        config::{Config, ServerConfig},
    },
};

use crate::{
    client::{connect, host, try_connect},
    inspect,
    link::Link,
    process::{Environment, Process},
    server::Server,
    wait::until,
};

/// What the sentinels call the two servers.
const SERVICE: &str = "tollgate";

/// The sentinels' intervals, in milliseconds instead of seconds.
///
/// They must see a server's first answer well before they take it for down, or they undo the
/// failover.
const HASTE: &str = "DEBUG PING-PERIOD 200 PUBLISH-PERIOD 200 INFO-PERIOD 500 ASK-PERIOD 200";

/// Two servers and three sentinels; two of these must agree.
#[derive(Debug)]
pub struct Sentinels {
    link: Link,
    servers: Vec<Server>,
    sentinels: Vec<Process>,
}

impl Sentinels {
    /// Starts them all, and waits until each sentinel knows the others and the replica.
    pub async fn start() -> Self {
        Self::start_over(&Link::default()).await
    }

    /// Starts servers and sentinels that are reached over this link.
    pub async fn start_over(link: &Link) -> Self {
        let args = ["--repl-diskless-sync-delay", "0"];
        let primary = Server::start_over(link, &args).await;
        let (host, port) = (host(), primary.port().to_string());
        let args = [&args[..], &["--replicaof", &host, &port]].concat();
        let replica = Server::start_over(link, &args).await;
        until("the replica's link", async || replica.attached_to().await).await;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let args = |folder: &Path, port| sentinel_args(folder, port, primary.port(), link);
            let sentinel = Process::start(Environment::new(), args).await;
            let sentinel = sentinel.unwrap_or_else(|printed| panic!("it ended: {printed}"));
            // From version 7 on; before it a sentinel takes some seconds for what takes one.
            let _: Option<String> =
                ask(link, &sentinel, &HASTE.split(' ').collect::<Vec<_>>()).await;
            sentinels.push(sentinel);
        }
        let all = Self {
            link: link.clone(),
            servers: vec![primary, replica],
            sentinels,
        };
        until("sentinels that know each other", async || {
            for sentinel in &all.sentinels {
                let knows = all.seen_by(sentinel).await?;
                let is = |name: &str, value: &str| knows.get(name).is_some_and(|is| is == value);
                if !is("num-other-sentinels", "2") || !is("num-slaves", "1") {
                    return None;
                }
            }
            Some(())
        })
        .await;
        all
    }

    /// The ports of the sentinels.
    pub fn ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(Process::port).collect()
    }

    /// What a client needs to ask the sentinels for the primary.
    pub fn config(&self) -> Config {
        let hosts = self.ports().into_iter().map(|port| (host(), port));
        self.link
            .config(ServerConfig::new_sentinel(hosts.collect(), SERVICE))
    }

    /// A client of the primary, whichever it is.
    pub async fn client(&self) -> Client {
        connect(self.config()).await
    }

    /// The server that all sentinels name, once it says so itself.
    pub async fn primary(&self) -> &Server {
        until("one primary", async || self.agreed().await).await
    }

    /// Kills the primary and returns its index; the sentinels notice after a second and a half.
    pub async fn kill_primary(&self) -> &Server {
        let primary = self.primary().await;
        primary.kill();
        primary
    }

    /// Waits until all sentinels name a server that is up and says that it is the primary.
    pub async fn wait_for_failover(&self) -> &Server {
        until("a failover", async || {
            self.agreed().await.filter(|primary| primary.is_up())
        })
        .await
    }

    /// Whether all sentinels name another primary than the server on this port, which may hang.
    pub async fn names_another_than(&self, port: u16) -> Option<()> {
        for sentinel in &self.sentinels {
            let named = self.seen_by(sentinel).await?.remove("port")?;
            if named == port.to_string() {
                return None;
            }
        }
        Some(())
    }

    /// Waits until the replica has all that is written now.
    pub async fn replica_is_in_step(&self) {
        let primary = self.primary().await;
        let written = until("an offset", async || replicated(primary).await).await;
        until("a replica in step", async || {
            for server in &self.servers {
                if replicated(server).await? < written {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    /// Waits until the replica is in sync, and then cuts it off: it can still be promoted, and does
    /// not know what is written from now on.
    pub async fn part_the_replica(&self) {
        let primary = self.primary().await;
        self.replica_is_in_step().await;
        for server in &self.servers {
            if server.port() != primary.port() {
                // Nobody has this user name, so the replica is not let in again.
                for (name, value) in [("masteruser", "nobody"), ("masterauth", "nothing")] {
                    let _: String = server.command("CONFIG", &["SET", name, value]).await;
                }
            }
        }
        let _: u64 = primary
            .command("CLIENT", &["KILL", "TYPE", "replica"])
            .await;
        until("a replica without a link", async || {
            let linked = primary
                .info_field("replication", "connected_slaves")
                .await?;
            (linked == "0").then_some(())
        })
        .await;
    }

    async fn agreed(&self) -> Option<&Server> {
        let mut named = Vec::new();
        for sentinel in &self.sentinels {
            named.push(self.seen_by(sentinel).await?.remove("port")?);
        }
        named.dedup();
        let [port] = &named[..] else {
            return None;
        };
        let server = self
            .servers
            .iter()
            .find(|server| server.port().to_string() == *port)?;
        // A server that is down cannot be asked: it is the one that they last agreed on.
        if server.is_up() && server.role().await? != "master" {
            return None;
        }
        Some(server)
    }

    /// What this sentinel knows about the primary.
    async fn seen_by(&self, sentinel: &Process) -> Option<HashMap<String, String>> {
        ask(&self.link, sentinel, &["MASTER", SERVICE]).await
    }
}

/// How many bytes of the history of writes this server has. None while it does not answer: Sentinel
/// closes the connections of a server that has a new role.
async fn replicated(server: &Server) -> Option<u64> {
    let name = match server.role().await?.as_str() {
        "slave" => "slave_repl_offset",
        _ => "master_repl_offset",
    };
    let offset = server.info_field("replication", name).await?;
    offset.parse().ok()
}

fn sentinel_args(folder: &Path, port: u16, primary: u16, link: &Link) -> Vec<String> {
    let file = folder.join("sentinel.conf");
    let (host, folder) = (host(), folder.display());
    let text = format!(
        "bind {host}\n\
         dir {folder}\n\
         sentinel monitor {SERVICE} {host} {primary} 2\n\
         sentinel down-after-milliseconds {SERVICE} 1500\n\
         sentinel failover-timeout {SERVICE} 3000\n\
         sentinel parallel-syncs {SERVICE} 1\n"
    );
    fs::write(&file, text).expect("a file beside the sentinel");
    let file = file.to_str().expect("a directory with a plain name");
    let args = vec![file.to_owned(), "--sentinel".to_owned()];
    args.into_iter().chain(link.args(port)).collect()
}

async fn ask<R: FromValue>(link: &Link, sentinel: &Process, words: &[&str]) -> Option<R> {
    let server = ServerConfig::new_centralized(host(), sentinel.port());
    let client = try_connect(link.config(server)).await.ok()?;
    let answer = inspect::command(&client, "SENTINEL", words).await;
    let _ = client.quit().await;
    answer.ok()
}
