//! Commands to a server and their answers, in bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use fred::types::Value;

use crate::{inspect, store::Redis};

/// `PEXPIRETIME` of a key, or what is as much where it is not known, on Redis 6.2.
const EXPIRES_AT: &[u8] = b"
local known = redis.pcall('PEXPIRETIME', KEYS[1])
if type(known) == 'number' then return known end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
while true do
  local before, left, after = now(), redis.call('PTTL', KEYS[1]), now()
  if left < 0 then return left end
  if before == after then return before + left end
end
";

impl Redis {
    /// Any command, by the client of the limiters.
    ///
    /// # Panics
    ///
    /// When the answer is an error.
    pub fn ask<R: fred::types::FromValue>(&self, name: &'static str, args: &[&[u8]]) -> R {
        let args = args
            .iter()
            .map(|arg| Value::Bytes(Bytes::copy_from_slice(arg)));
        let answer = inspect::custom(self.client(), name, args.collect());
        let answer = self.wait(answer);
        answer.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// All keys with this prefix, in order.
    pub fn keys(&self, prefix: &str) -> Vec<Bytes> {
        let keys = self.wait(inspect::keys(self.client(), prefix));
        keys.unwrap_or_else(|error| panic!("SCAN: {error}"))
    }

    /// The keys with this prefix, each with its value as Redis keeps it and the millisecond at
    /// which it expires.
    pub fn everything(&self, prefix: &str) -> Vec<(Bytes, Bytes, i64)> {
        let whole = |key: Bytes| {
            let dump = self.ask("DUMP", &[&key]);
            (key.clone(), dump, self.expires_at(&key))
        };
        self.keys(prefix).into_iter().map(whole).collect()
    }

    /// The millisecond at which a key expires, by the server's clock; negative if it never does.
    pub fn expires_at(&self, key: &[u8]) -> i64 {
        self.ask("EVAL", &[EXPIRES_AT, b"1", key])
    }

    /// The server's clock, in microseconds.
    pub fn now(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.ask("TIME", &[]);
        seconds * 1_000_000 + micros
    }

    /// How often a script was called since `CONFIG RESETSTAT`.
    pub fn scripts_run(&self) -> u64 {
        self.calls().get("evalsha").copied().unwrap_or(0)
    }

    /// The commands that were called since `CONFIG RESETSTAT`, each with how often.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let info: String = self.ask("INFO", &[b"commandstats"]);
        let commands = inspect::commands(&info).into_iter();
        commands
            .map(|(name, counted)| (name, counted.calls))
            .collect()
    }
}
