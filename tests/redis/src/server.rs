//! One server alone.

use std::collections::BTreeMap;

use bytes::Bytes;
use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{
        FromValue, Value,
        config::{Config, ServerConfig},
    },
};

use crate::{
    client::{connect, host, try_connect},
    inspect::{self, Counted},
    link::Link,
    process::{Environment, Process},
};

/// The user by which the fixtures inspect a server, whatever rights others have; also its password.
const FIXTURE: &str = "fixture";

/// A server without persistence. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    process: Process,
    link: Link,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with arguments of its own, each word apart: `&["--maxmemory", "1mb"]`.
    ///
    /// # Panics
    ///
    /// When it ends at once: the message has what it printed.
    pub async fn start_with(args: &[&str]) -> Self {
        Self::start_in(Environment::new(), &Link::default(), args).await
    }

    /// Starts a server that is reached over this link, with arguments of its own.
    pub async fn start_over(link: &Link, args: &[&str]) -> Self {
        Self::start_in(Environment::new(), link, args).await
    }

    /// The same, with these environment variables.
    pub(crate) async fn start_in(environment: Environment, link: &Link, args: &[&str]) -> Self {
        let server = Self::try_start(environment, link, args).await;
        server.unwrap_or_else(|printed| panic!("the server ended: {printed}"))
    }

    /// Why no server can be reached over this link: what one printed that ended at once.
    pub async fn cannot_start_over(link: &Link) -> Option<String> {
        Self::try_start(Environment::new(), link, &[]).await.err()
    }

    async fn try_start(
        environment: Environment,
        link: &Link,
        args: &[&str],
    ) -> Result<Self, String> {
        let process = Process::start(environment, |folder, port| {
            let host = host();
            let folder = folder.to_str().expect("a directory with a plain name");
            let place = ["--bind", &host, "--dir", folder];
            let nothing_kept = ["--save", "", "--appendonly", "no"];
            let fixture = ["--user", FIXTURE, "on", ">fixture", "~*", "&*", "+@all"];
            let all = [&place[..], &nothing_kept, &fixture, args].concat();
            let all = all.into_iter().map(str::to_owned);
            link.args(port).into_iter().chain(all).collect()
        });
        Ok(Self {
            process: process.await?,
            link: link.clone(),
        })
    }

    /// The port. It stays the same when the server is restarted.
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// `redis://127.0.0.1:` and the port.
    pub fn url(&self) -> String {
        format!("redis://{}:{}", host(), self.port())
    }

    /// What a client needs to connect, as the default user.
    pub fn config(&self) -> Config {
        let server = ServerConfig::new_centralized(host(), self.port());
        self.link.config(server)
    }

    /// What a client needs to connect as this user.
    pub fn config_of(&self, user: &str, password: &str) -> Config {
        Config {
            username: Some(user.to_owned()),
            password: Some(password.to_owned()),
            ..self.config()
        }
    }

    /// A client that is connected, as the default user.
    pub async fn client(&self) -> Client {
        connect(self.config()).await
    }

    /// A client that is connected, as this user.
    pub async fn client_of(&self, user: &str, password: &str) -> Client {
        connect(self.config_of(user, password)).await
    }

    /// Whether it was neither killed nor stopped.
    pub fn is_up(&self) -> bool {
        self.process.is_up()
    }

    /// Suspends the server: connections stay open, and no answer comes.
    pub fn stop_process(&self) {
        self.process.pause();
    }

    /// Lets a stopped server go on.
    pub fn continue_process(&self) {
        self.process.resume();
    }

    /// Ends the server at once, as a crash would.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts the server again, empty, on the same port, and waits until it answers.
    pub async fn restart(&self) {
        self.process.restart().await;
    }

    /// The answer to `INFO` and this section.
    pub async fn info(&self, section: &str) -> String {
        self.command("INFO", &[section]).await
    }

    /// One line of `INFO` and this section: `info_field("server", "redis_version")`. None while the
    /// server does not answer.
    pub async fn info_field(&self, section: &str, name: &str) -> Option<String> {
        let info: String = self.try_command("INFO", &[section]).await.ok()?;
        inspect::field(&info, name).map(str::to_owned)
    }

    /// How often this command was called since the server started, with any subcommand; those of
    /// scripts count too.
    pub async fn command_calls(&self, name: &str) -> u64 {
        let commands = self.commands().await;
        commands.get(name).map_or(0, |counted| counted.calls)
    }

    /// What it has counted of each command since `CONFIG RESETSTAT`, those that scripts called too.
    pub async fn commands(&self) -> BTreeMap<String, Counted> {
        inspect::commands(&self.info("commandstats").await)
    }

    /// All keys with this prefix, in order.
    pub async fn keys(&self, prefix: &str) -> Vec<Bytes> {
        let client = self.client_of(FIXTURE, FIXTURE).await;
        let keys = inspect::keys(&client, prefix).await;
        let _ = client.quit().await;
        keys.unwrap_or_else(|error| panic!("SCAN of {}: {error}", self.url()))
    }

    /// The keys among them that never expire.
    pub async fn keys_without_ttl(&self, prefix: &str) -> Vec<Bytes> {
        let mut for_ever = Vec::new();
        for key in self.keys(prefix).await {
            let left = self.try_custom("PTTL", vec![key.clone().into()]).await;
            if left.is_ok_and(|left: i64| left == -1) {
                for_ever.push(key);
            }
        }
        for_ever
    }

    /// Any command, by a user who may do all: `command("CONFIG", &["RESETSTAT"])`.
    ///
    /// # Panics
    ///
    /// When the answer is an error.
    pub async fn command<R: FromValue>(&self, name: &'static str, args: &[&str]) -> R {
        let answer = self.try_command(name, args).await;
        answer.unwrap_or_else(|error| panic!("{name} of {}: {error}", self.url()))
    }

    /// Any command, by a user who may do all.
    pub async fn try_command<R: FromValue>(
        &self,
        name: &'static str,
        args: &[&str],
    ) -> Result<R, Error> {
        let args = args.iter().map(|arg| Value::from(*arg)).collect();
        self.try_custom(name, args).await
    }

    pub(crate) async fn try_custom<R: FromValue>(
        &self,
        name: &'static str,
        args: Vec<Value>,
    ) -> Result<R, Error> {
        let client = try_connect(self.config_of(FIXTURE, FIXTURE)).await?;
        let answer = inspect::custom(&client, name, args).await;
        let _ = client.quit().await;
        answer
    }

    /// The port of the primary, for a replica in sync with it.
    pub(crate) async fn attached_to(&self) -> Option<u16> {
        let info: String = self.try_command("INFO", &["replication"]).await.ok()?;
        let is = |name| inspect::field(&info, name);
        (is("master_link_status") == Some("up")).then_some(())?;
        is("master_port")?.parse().ok()
    }

    /// `master` or `slave`.
    pub(crate) async fn role(&self) -> Option<String> {
        self.info_field("replication", "role").await
    }
}
