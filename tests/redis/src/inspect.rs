//! Looks into a server.

use std::collections::BTreeMap;

use bytes::Bytes;
use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{CustomCommand, FromValue, Value},
};

/// Any command, word by word.
pub(crate) async fn command<R: FromValue>(
    client: &Client,
    name: &'static str,
    args: &[&str],
) -> Result<R, Error> {
    let args: Vec<Value> = args.iter().map(|arg| Value::from(*arg)).collect();
    custom(client, name, args).await
}

pub(crate) async fn custom<R: FromValue>(
    client: &Client,
    name: &'static str,
    args: Vec<Value>,
) -> Result<R, Error> {
    let command = CustomCommand::new_static(name, None, false);
    client.custom(command, args).await
}

/// The value of a line `name:value`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// What a server has counted of a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    /// How often it was called.
    pub calls: u64,
    /// How long all calls took.
    pub micros: u64,
}

/// What `INFO commandstats` says of each command; with all its subcommands, since Redis 6.2 does
/// not tell them apart.
pub(crate) fn commands(info: &str) -> BTreeMap<String, Counted> {
    let mut all = BTreeMap::<_, Counted>::new();
    for line in info.lines() {
        let of_a_command = line
            .strip_prefix("cmdstat_")
            .and_then(|line| line.split_once(':'));
        if let Some((name, stats)) = of_a_command {
            let number = |wanted: &str| {
                let mut pairs = stats.split(',').filter_map(|pair| pair.split_once('='));
                let (_, number) = pairs.find(|(key, _)| *key == wanted).expect(wanted);
                number.parse::<u64>().expect("a number")
            };
            let command = name.split('|').next().expect("a first word").to_owned();
            let counted = all.entry(command).or_default();
            counted.calls += number("calls");
            counted.micros += number("usec");
        }
    }
    all
}

/// All keys with this prefix, in order.
pub(crate) async fn keys(client: &Client, prefix: &str) -> Result<Vec<Bytes>, Error> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let (next, some): (String, Vec<Bytes>) =
            command(client, "SCAN", &[&cursor, "COUNT", "1000"]).await?;
        keys.extend(
            some.into_iter()
                .filter(|key| key.starts_with(prefix.as_bytes())),
        );
        if next == "0" {
            break;
        }
        cursor = next;
    }
    // A scan may give a key twice.
    keys.sort();
    keys.dedup();
    Ok(keys)
}
