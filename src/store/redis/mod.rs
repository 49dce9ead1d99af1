//! The store in Redis: the same decisions for a whole fleet, in one script and one round trip each.

mod builder;
mod compose;
mod connection;
mod failure;
mod loads;
mod moving;
mod peer;
mod reply;
mod run;
mod scripts;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::{
    algorithm::Scripted,
    clock::Timestamp,
    key::{DigestKey, Key, KeyParts, PortableKey},
    store::{Answer, AsKey, Decided, Store, Written},
};
use bytes::Bytes;

use self::{
    connection::Line,
    moving::LastMove,
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
    last_move: LastMove,
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
    fn arguments<A: Scripted>(&self, algorithm: &A, cost: u32) -> Vec<u8> {
        let mut arguments = Vec::with_capacity(128);
        let now = (self.clock.as_ref()).map_or(-1.0, |now| now().as_micros() as f64);
        push(&mut arguments, now);
        push(&mut arguments, cost.into());
        algorithm.parameters(&mut |parameter| push(&mut arguments, parameter as f64));
        arguments
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
        Answer::Later(self.judged(algorithm, &key.to_owned(), cost, |scripts| &scripts.decide))
    }

    fn peek<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding> {
        Answer::Later(self.judged(algorithm, &key.to_owned(), cost, |scripts| &scripts.peek))
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
            shared.run(&scripts.refund, keys, arguments.into()).await?;
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
        Answer::Later(Box::pin(async move { shared.delete(keys).await }))
    }

    /// Sends it without waiting for the answer: where it fails, the place is lost.
    fn withdraw(&self, algorithm: &A, key: &K, admission: &A::Snapshot, cost: u32) {
        let shared = Arc::clone(&self.shared);
        let scripts = shared.library.scripts::<A>();
        let runtime = tokio::runtime::Handle::try_current();
        let (Some(_), Ok(runtime)) = (&scripts.withdraw, runtime) else {
            return;
        };
        let keys = shared.keys(algorithm, &scripts, key);
        let mut arguments = shared.arguments(algorithm, cost);
        algorithm.admission(admission, &mut |number| push(&mut arguments, number as f64));
        runtime.spawn(async move {
            let script = scripts.withdraw.as_ref().expect("it was there");
            // The place is lost, and nothing is let through too early.
            let _ = shared.run(script, keys, arguments.into()).await;
        });
    }
}

fn push(arguments: &mut Vec<u8>, number: f64) {
    arguments.extend_from_slice(&number.to_le_bytes());
}

impl RedisStore {
    fn judged<A: Scripted, K: PortableKey>(
        &self,
        algorithm: &A,
        key: &K,
        cost: u32,
        script: fn(&Scripts) -> &Loadable,
    ) -> Later<Decided<A>> {
        let shared = Arc::clone(&self.shared);
        let scripts = shared.library.scripts::<A>();
        let keys = shared.keys(algorithm, &scripts, key);
        let arguments = shared.arguments(algorithm, cost);
        let algorithm = algorithm.clone();
        Box::pin(async move {
            let answer = shared.run(script(&scripts), keys, arguments.into()).await?;
            reply::read(&algorithm, &scripts.members, &answer, cost).ok_or_else(failure::unreadable)
        })
    }
}
