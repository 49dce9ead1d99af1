//! Runs a script within the deadline: loads it where it is gone, and follows a slot that moves.

use std::{
    future::Future,
    pin::{Pin, pin},
};

use bytes::Bytes;
use fred::{
    prelude::Value,
    types::{Resp3Frame, config::Server},
};

use crate::error::{StoreError, StoreErrorKind};

use super::{
    Shared,
    connection::{Busy, Question},
    failure::{self, NOSCRIPT, READONLY},
    moving::Destination,
    peer::Peer,
    scripts::Loadable,
};

/// How often a command is sent that the cluster has sent elsewhere, or whose script was gone: it was not executed.
const ATTEMPTS: usize = 3;

/// A command that was not executed, or not to its end.
enum Refused {
    /// The script is gone: on the node that takes over the slot, or on the one that holds it.
    NoScript(Option<Server>),
    /// Another node holds the key.
    Elsewhere,
    Failed(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A command for one slot.
struct Command<'a> {
    /// The script that is run; without one the keys are deleted.
    script: Option<&'a Loadable>,
    keys: Vec<Bytes>,
    arguments: Option<Bytes>,
    /// That of its keys; 0 outside of a cluster, where nobody needs it.
    slot: u16,
}

impl<'a> Command<'a> {
    fn evalsha(peer: &Peer, script: &'a Loadable, keys: Vec<Bytes>, arguments: Bytes) -> Self {
        Self {
            script: Some(script),
            arguments: Some(arguments),
            ..Self::del(peer, keys)
        }
    }

    fn del(peer: &Peer, keys: Vec<Bytes>) -> Self {
        let slot = match keys.first() {
            Some(key) if peer.is_clustered() => fred::util::redis_keyslot(key),
            _ => 0,
        };
        Self {
            script: None,
            keys,
            arguments: None,
            slot,
        }
    }

    fn name(&self) -> &'static str {
        match self.script {
            Some(_) => "EVALSHA",
            None => "DEL",
        }
    }

    /// What is sent: made anew each time, as it is nearly always sent once.
    fn values(&self) -> Vec<Value> {
        let mut values = Vec::with_capacity(3 + self.keys.len());
        if let Some(script) = self.script {
            values.push(script.sha1.clone());
            values.push(match self.keys.len() {
                // Not written with digits each time.
                1 => Value::from_static_str("1"),
                keys => Value::from(keys as i64),
            });
        }
        values.extend(self.keys.iter().cloned().map(Value::Bytes));
        values.extend(self.arguments.clone().map(Value::Bytes));
        values
    }
}

impl Shared {
    /// Runs the script; one that Redis does not have is not run, so it is loaded and run again.
    pub(super) async fn run(
        &self,
        script: &Loadable,
        keys: Vec<Bytes>,
        arguments: Bytes,
    ) -> Result<Bytes, StoreError> {
        let peer = self.line.peer();
        let command = Command::evalsha(peer, script, keys, arguments);
        let running = pin!(self.run_loaded(peer, script, command));
        self.in_time_of(peer, running).await
    }

    /// The slot of a key; 0 outside of a cluster.
    pub(super) fn slot_of(&self, key: &[u8]) -> u16 {
        match self.line.peer().is_clustered() {
            true => fred::util::redis_keyslot(key),
            false => 0,
        }
    }

    /// Deletes the keys, all in one slot.
    pub(super) async fn delete(&self, keys: Vec<Bytes>) -> Result<(), StoreError> {
        let peer = self.line.peer();
        let command = Command::del(peer, keys);
        let deleting = async {
            peer.ready().await;
            match self.follow(peer, &command).await {
                Ok(_) => Ok(()),
                Err(Refused::Failed(error)) => Err(error),
                Err(_) => Err(failure::unavailable("the slot of the key moves")),
            }
        };
        self.in_time_of(peer, pin!(deleting)).await
    }

    /// Waits for the work till the deadline.
    pub(super) async fn in_time<T>(
        &self,
        work: Pin<&mut impl Future<Output = Result<T, StoreError>>>,
    ) -> Result<T, StoreError> {
        self.in_time_of(self.line.peer(), work).await
    }

    async fn in_time_of<T>(
        &self,
        peer: &Peer,
        work: Pin<&mut impl Future<Output = Result<T, StoreError>>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(self.deadline, work).await {
            Ok(done) => done,
            Err(_) => Err(failure::late(peer, self.deadline)),
        }
    }

    async fn run_loaded(
        &self,
        peer: &Peer,
        script: &Loadable,
        command: Command<'_>,
    ) -> Result<Bytes, StoreError> {
        peer.ready().await;
        for _ in 0..ATTEMPTS {
            let seen = script.loads.so_far();
            match self.follow(peer, &command).await {
                Ok(answer) => return Ok(answer),
                Err(Refused::NoScript(taker)) => {
                    // In a box, as it is rare, and would be a part of every decision's future.
                    Box::pin(self.load(peer, script, (seen, command.slot, taker))).await?;
                }
                Err(Refused::Elsewhere) => {}
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        match self.follow(peer, &command).await {
            Ok(answer) => Ok(answer),
            Err(Refused::NoScript(_)) => Err(StoreError::new(
                StoreErrorKind::Misconfigured,
                "Redis forgets the script as soon as it is loaded",
            )),
            Err(Refused::Elsewhere) => Err(failure::unavailable(
                "the nodes of the cluster do not agree on who holds the slot of the key",
            )),
            Err(Refused::Failed(error)) => Err(error),
        }
    }

    /// Loads the script to one node, unless somebody did it since `seen`.
    async fn load(
        &self,
        peer: &Peer,
        script: &Loadable,
        (seen, slot, taker): (u64, u16, Option<Server>),
    ) -> Result<(), StoreError> {
        let node = taker.clone().or_else(|| peer.node_of(slot));
        let node = script.loads.node(node);
        let mut last = node.lock().await;
        if *last > seen {
            return Ok(());
        }
        let values = vec![
            Value::from_static_str("LOAD"),
            Value::from(script.text.as_str()),
        ];
        let loaded = match taker {
            Some(node) => (self.line).ask(|place| peer.send_to(node, "SCRIPT", values, place)),
            None => (self.line).ask(|place| peer.send("SCRIPT", values, slot, place)),
        };
        match self.answer(peer, loaded).await {
            Ok(_) => {
                *last = script.loads.add();
                Ok(())
            }
            Err(Refused::Failed(error)) => Err(error),
            Err(_) => Err(failure::unavailable("no node takes the script")),
        }
    }

    /// Sends the command to the node that holds the slot, or to the one that takes it over.
    async fn follow(&self, peer: &Peer, command: &Command<'_>) -> Result<Bytes, Refused> {
        let slot = command.slot;
        let (name, values) = (command.name(), command.values());
        let asked = (self.line).ask(|place| peer.send(name, values, slot, place));
        match self.answer(peer, asked).await {
            Err(Refused::Elsewhere) => Box::pin(self.follow_move(peer, command)).await,
            answer => answer,
        }
    }

    async fn follow_move(&self, peer: &Peer, command: &Command<'_>) -> Result<Bytes, Refused> {
        let (name, slot) = (command.name(), command.slot);
        // Either the client knows by now who has the slot, or the slot is on its way.
        let Some(taker) = self.taker_of(peer, slot).await? else {
            return Err(Refused::Elsewhere);
        };
        let (node, values) = (taker.clone(), command.values());
        let asked = (self.line).ask(|place| peer.send_asking(node, name, values, place));
        let answer = self.answer(peer, asked).await;
        match answer {
            Err(Refused::NoScript(_)) => Err(Refused::NoScript(Some(taker))),
            Err(Refused::Elsewhere) => {
                self.last_move.is_over();
                // The slot has moved meanwhile; or the right to ask is missing, which the other answer hides.
                let asking =
                    (self.line).ask(|place| peer.send_to(taker, "ASKING", Vec::new(), place));
                self.answer(peer, asking).await?;
                Err(Refused::Elsewhere)
            }
            answer => answer,
        }
    }

    /// The node that takes over a slot, if one does.
    async fn taker_of(&self, peer: &Peer, slot: u16) -> Result<Option<Server>, Refused> {
        if let Some(node) = self.last_move.of(slot) {
            return Ok(Some(node));
        }
        let values = vec![Value::from_static_str("NODES")];
        let asked = (self.line).ask(|place| peer.send("CLUSTER", values, slot, place));
        let nodes = self.answer(peer, asked).await?;
        let nodes = String::from_utf8_lossy(&nodes);
        let Some(destination) = Destination::of(slot, &nodes) else {
            return Ok(None);
        };
        let Some(node) = destination.among(&peer.nodes()) else {
            let unknown = "the slot moves to a node that has none yet, and that the client is not connected to";
            return Err(failure::unavailable(unknown).into());
        };
        self.last_move.is(slot, node.clone());
        Ok(Some(node))
    }

    /// Waits for an answer, and sorts it.
    async fn answer(
        &self,
        peer: &Peer,
        question: Result<Question, Busy>,
    ) -> Result<Bytes, Refused> {
        let Ok(question) = question else {
            let busy = failure::unavailable("too many decisions wait for an answer");
            return Err(busy.into());
        };
        let message = match question.await {
            Ok(Resp3Frame::BlobString { data, .. } | Resp3Frame::SimpleString { data, .. }) => {
                return Ok(data);
            }
            Ok(Resp3Frame::VerbatimString { data, .. }) => return Ok(data),
            Ok(Resp3Frame::Number { .. }) => return Ok(Bytes::new()),
            Ok(Resp3Frame::SimpleError { data, .. }) => data.to_string(),
            Ok(Resp3Frame::BlobError { data, .. }) => String::from_utf8_lossy(&data).into_owned(),
            Ok(_) => "an answer of an unexpected kind".to_owned(),
            Err(error) if failure::is_redirection(&error) => return Err(Refused::Elsewhere),
            Err(error) => return Err(failure::unanswered(peer, error).into()),
        };
        match failure::code(&message) {
            NOSCRIPT => return Err(Refused::NoScript(None)),
            READONLY => peer.reconnect(),
            _ => {}
        }
        Err(failure::answered(&message).into())
    }
}
