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

/// The keys among them that never expire.
pub(crate) async fn keys_without_ttl(client: &Client, prefix: &str) -> Result<Vec<Bytes>, Error> {
    let mut for_ever = Vec::new();
    for key in keys(client, prefix).await? {
        let left: i64 = custom(client, "PTTL", vec![key.clone().into()]).await?;
        if left == -1 {
            for_ever.push(key);
        }
    }
    Ok(for_ever)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_its_own_command() {
        let info = "# Commandstats\r\ncmdstat_eval:calls=7,usec=70,usec_per_call=10.00\r\n\
                    cmdstat_evalsha:calls=2,usec=31,usec_per_call=15.50,rejected_calls=0,failed_calls=0\r\n";
        assert_eq!(stat(info, "evalsha", "calls"), 2);
        assert_eq!(stat(info, "EVALSHA", "usec"), 31);
        assert_eq!(stat(info, "eval", "calls"), 7);
        assert_eq!(stat(info, "get", "calls"), 0);
    }
}
