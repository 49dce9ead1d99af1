//! The store in Redis: the same decisions for a whole fleet, in one script and one round trip each.

mod builder;
mod compose;
mod connection;
mod failure;
mod reply;
mod scripts;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use fred::{
    prelude::Value,
    types::{ClusterHash, Resp3Frame},
};

use crate::{
    algorithm::Scripted,
    clock::Timestamp,
    error::{StoreError, StoreErrorKind},
    key::{DigestKey, Key, KeyParts, PortableKey},
    store::{Answer, AsKey, Decided, Store, Written},
};

use self::{
    compose::Task,
    connection::Line,
    failure::{NOSCRIPT, READONLY},
    scripts::{Library, Loadable, Scripts},
};

pub use builder::RedisStoreBuilder;
pub use connection::RedisConnection;

/// Keeps the buckets in Redis or Valkey, where all processes share them; decides in one script and one round trip.
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

struct Shared {
    line: Line,
    /// `tollgate:v1:{`
    key_start: Vec<u8>,
    digest_key: DigestKey,
    deadline: Duration,
    clock: Option<Now>,
    library: Library,
}

type Now = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// An answer of Redis that is still to come.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl RedisStore {
    /// A store behind this client or pool, with the server's clock.
    pub fn new(connection: impl Into<RedisConnection>) -> Self {
        Self::builder(connection).build()
    }

    /// A store with another prefix, deadline or clock.
    pub fn builder(connection: impl Into<RedisConnection>) -> RedisStoreBuilder {
        RedisStoreBuilder::of(connection.into())
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("keys", &self.shared.key_start.escape_ascii().to_string())
            .field("deadline", &self.shared.deadline)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The key of a bucket, and those that its algorithm needs beside it: all in one slot.
    fn keys<A: Scripted, K: PortableKey>(
        &self,
        algorithm: &A,
        scripts: &Scripts,
        key: &K,
    ) -> Vec<Bytes> {
        let capacity = self.key_start.len() + scripts.layout.len() + 96;
        let mut start = Vec::with_capacity(capacity);
        start.extend_from_slice(&self.key_start);
        start.extend_from_slice(scripts.layout.as_bytes());
        start.extend_from_slice(format!(":{:x}:", algorithm.policy_id()).as_bytes());
        let mut parts = KeyParts::after(start, &self.digest_key);
        key.write_to(&mut parts);
        let mut bucket = parts.into_bytes();
        bucket.push(b'}');
        let mut keys = Vec::with_capacity(1 + scripts.further_keys);
        let bucket = Bytes::from(bucket);
        keys.push(bucket.clone());
        for number in 1..=scripts.further_keys {
            let mut further = bucket.to_vec();
            further.extend_from_slice(format!("{number}").as_bytes());
            keys.push(Bytes::from(further));
        }
        keys
    }

    /// The numbers that a script is given, as doubles.
    fn arguments<A: Scripted>(&self, algorithm: &A, cost: u32) -> Bytes {
        let mut bytes = Vec::with_capacity(128);
        let now = (self.clock.as_ref()).map_or(-1.0, |now| now().as_micros() as f64);
        let mut push = |number: f64| bytes.extend_from_slice(&number.to_le_bytes());
        push(now);
        push(cost.into());
        algorithm.parameters(&mut |parameter| push(parameter as f64));
        Bytes::from(bytes)
    }

    async fn run(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Bytes,
    ) -> Result<Bytes, StoreError> {
        match tokio::time::timeout(self.deadline, self.run_loaded(script, keys, arguments)).await {
            Ok(answer) => answer,
            Err(_) => Err(failure::unavailable(format!(
                "no answer in {:?}",
                self.deadline
            ))),
        }
    }

    /// Runs the script; one that Redis does not have is not run, so it is loaded and run again.
    async fn run_loaded(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Bytes,
    ) -> Result<Bytes, StoreError> {
        let mut values = Vec::with_capacity(3 + keys.len());
        values.push(Value::from(script.sha1.as_str()));
        values.push(Value::from(keys.len() as i64));
        values.extend(keys.into_iter().map(Value::Bytes));
        values.push(Value::Bytes(arguments));
        let mut seen = script.loads.load(Ordering::Acquire);
        // The first time somebody else may have loaded it meanwhile, in a cluster to another node.
        for _ in 0..2 {
            match self
                .ask("EVALSHA", ClusterHash::Offset(2), values.clone())
                .await
            {
                Err(Refused::NoScript) => seen = self.load(script, seen, &values[2]).await?,
                Err(Refused::Other(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
            }
        }
        match self.ask("EVALSHA", ClusterHash::Offset(2), values).await {
            Ok(answer) => Ok(answer),
            Err(refused) => Err(refused.into_error()),
        }
    }

    async fn load(&self, script: &Loadable, seen: u64, key: &Value) -> Result<u64, StoreError> {
        let _alone = script.loading.lock().await;
        let loads = script.loads.load(Ordering::Acquire);
        if loads != seen {
            return Ok(loads);
        }
        let slot = match key {
            Value::Bytes(key) => fred::util::redis_keyslot(key),
            _ => 0,
        };
        let values = vec![
            Value::from_static_str("LOAD"),
            Value::from(script.text.as_str()),
        ];
        self.ask("SCRIPT", ClusterHash::Custom(slot), values)
            .await
            .map_err(Refused::into_error)?;
        script.loads.store(loads + 1, Ordering::Release);
        Ok(loads + 1)
    }

    async fn ask(
        &self,
        command: &'static str,
        hash: ClusterHash,
        values: Vec<Value>,
    ) -> Result<Bytes, Refused> {
        let question = self
            .line
            .ask(command, hash, values)
            .map_err(|connection::Busy| {
                Refused::Other(failure::unavailable(
                    "too many decisions wait for an answer",
                ))
            })?;
        let message = match question
            .await
            .map_err(failure::unanswered)
            .map_err(Refused::Other)?
        {
            Resp3Frame::BlobString { data, .. } | Resp3Frame::SimpleString { data, .. } => {
                return Ok(data);
            }
            Resp3Frame::SimpleError { data, .. } => data.to_string(),
            Resp3Frame::BlobError { data, .. } => String::from_utf8_lossy(&data).into_owned(),
            Resp3Frame::Number { .. } => return Ok(Bytes::new()),
            _ => "an answer of an unexpected kind".to_owned(),
        };
        match failure::code(&message) {
            NOSCRIPT => return Err(Refused::NoScript),
            READONLY => self.line.connection().reconnect(),
            _ => {}
        }
        Err(Refused::Other(failure::answered(&message)))
    }
}

enum Refused {
    NoScript,
    Other(StoreError),
}

impl Refused {
    fn into_error(self) -> StoreError {
        match self {
            Self::NoScript => StoreError::new(
                StoreErrorKind::Misconfigured,
                "Redis forgets the script as soon as it is loaded",
            ),
            Self::Other(error) => error,
        }
    }
}

impl<A: Scripted, K: Key + PortableKey> Store<A, K> for RedisStore {
    type Deciding = Later<Decided<A>>;
    type Writing = Later<Written>;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding> {
        Answer::Later(self.judged(algorithm, &key.to_owned(), cost, Task::Decide))
    }

    fn peek<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding> {
        Answer::Later(self.judged(algorithm, &key.to_owned(), cost, Task::Peek))
    }

    fn refund<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Written, Self::Writing> {
        let shared = Arc::clone(&self.shared);
        let scripts = shared.library.scripts::<A>();
        let keys = shared.keys(algorithm, &scripts, &key.to_owned());
        let arguments = shared.arguments(algorithm, cost);
        Answer::Later(Box::pin(async move {
            shared
                .run(scripts.of_task(Task::Refund), keys, arguments)
                .await?;
            Ok(())
        }))
    }

    fn reset<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
    ) -> Answer<Written, Self::Writing> {
        let shared = Arc::clone(&self.shared);
        let scripts = shared.library.scripts::<A>();
        let keys = shared.keys(algorithm, &scripts, &key.to_owned());
        let values = keys.into_iter().map(Value::Bytes).collect();
        Answer::Later(Box::pin(async move {
            let deleting = shared.ask("DEL", ClusterHash::FirstKey, values);
            match tokio::time::timeout(shared.deadline, deleting).await {
                Ok(deleted) => deleted.map(drop).map_err(Refused::into_error),
                Err(_) => Err(failure::unavailable(format!(
                    "no answer in {:?}",
                    shared.deadline
                ))),
            }
        }))
    }
}

impl RedisStore {
    fn judged<A: Scripted, K: PortableKey>(
        &self,
        algorithm: &A,
        key: &K,
        cost: u32,
        task: Task,
    ) -> Later<Decided<A>> {
        let shared = Arc::clone(&self.shared);
        let scripts = shared.library.scripts::<A>();
        let keys = shared.keys(algorithm, &scripts, key);
        let arguments = shared.arguments(algorithm, cost);
        let algorithm = algorithm.clone();
        Box::pin(async move {
            let answer = shared.run(scripts.of_task(task), keys, arguments).await?;
            reply::read(&algorithm, &scripts.members, &answer, cost).ok_or_else(failure::unreadable)
        })
    }
}
