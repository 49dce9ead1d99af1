//! Looks into a server.

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

/// A number of `INFO commandstats`; 0 for a command that was never called.
pub(crate) fn stat(info: &str, command: &str, name: &str) -> u64 {
    let line = field(info, &format!("cmdstat_{}", command.to_lowercase())).unwrap_or_default();
    let mut pairs = line.split(',').filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(key, _)| *key == name);
    found.map_or(0, |(_, value)| value.parse().expect("a number"))
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
