//! A cluster of three primaries, each with a replica.

use std::{collections::BTreeSet, iter};

use bytes::Bytes;
use fred::{
    clients::Client,
    error::Error,
    types::{
        Value,
        config::{Config, ServerConfig},
    },
};

use crate::{
    client::{connect, host},
    inspect,
    link::Link,
    port::TO_BUS,
    seen::Seen,
    server::Server,
    wait::until,
};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// Without their replicas.
const PRIMARIES: usize = 3;

/// What every node is started with.
const NODE: &str = "--cluster-enabled yes --cluster-node-timeout 1500 \
     --cluster-replica-validity-factor 0 --cluster-allow-replica-migration no \
     --repl-diskless-sync-delay 0";

/// The slot of a key.
pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
    fred::util::redis_keyslot(key.as_ref())
}

/// Six nodes: in the beginning the first three are primaries, and node `i + 3` is the replica of
/// node `i`.
#[derive(Debug)]
pub struct Cluster {
    link: Link,
    nodes: Vec<Server>,
    ids: Vec<String>,
}

impl Cluster {
    /// Starts the nodes, and waits until they agree that the cluster is complete and each replica
    /// is in sync.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts the nodes with these arguments, each word apart.
    pub async fn start_with(args: &[&str]) -> Self {
        Self::start_over(&Link::default(), args).await
    }

    /// Starts nodes that are reached over this link, with these arguments.
    pub async fn start_over(link: &Link, args: &[&str]) -> Self {
        let args: Vec<_> = NODE.split(' ').chain(args.iter().copied()).collect();
        let (mut nodes, mut ids) = (Vec::new(), Vec::new());
        for epoch in 1..=2 * PRIMARIES {
            let node = Server::start_over(link, &args).await;
            let epoch = epoch.to_string();
            // Epochs that differ from the start: the nodes have no conflict to resolve when they
            // meet.
            let () = node.command("CLUSTER", &["SET-CONFIG-EPOCH", &epoch]).await;
            ids.push(node.command("CLUSTER", &["MYID"]).await);
            nodes.push(node);
        }
        let cluster = Self {
            link: link.clone(),
            nodes,
            ids,
        };
        cluster.deal_slots().await;
        cluster.meet().await;
        for (replica, primary) in cluster.nodes[PRIMARIES..].iter().zip(&cluster.ids) {
            let words = ["REPLICATE", primary];
            let () = replica.command("CLUSTER", &words).await;
        }
        cluster.wait_until_ok().await;
        until("replicas in step", async || {
            cluster.replicas_are_in_step().await
        })
        .await;
        cluster
    }

    /// All six, even those that are down.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// `redis-cluster://` with all nodes, as fred reads it.
    pub fn url(&self) -> String {
        let rest = self.nodes[1..].iter().map(Server::port);
        let rest: Vec<_> = rest.map(|port| format!("node={}:{port}", host())).collect();
        let first = self.nodes[0].port();
        format!("redis-cluster://{}:{first}?{}", host(), rest.join("&"))
    }

    /// What a client needs to connect; it is told all nodes.
    pub fn config(&self) -> Config {
        let hosts = self.nodes.iter().map(|node| (host(), node.port()));
        self.link
            .config(ServerConfig::new_clustered(hosts.collect()))
    }

    /// A client of the cluster.
    pub async fn client(&self) -> Client {
        connect(self.config()).await
    }

    /// The index of the node that owns this slot and says so itself.
    pub async fn owner_of(&self, slot: u16) -> usize {
        until("an owner of the slot", async || {
            let primaries = self.claims().await?;
            let mut owners = primaries.iter().filter(|(_, seen)| seen.owns(slot));
            owners.next().map(|(index, _)| *index)
        })
        .await
    }

    /// The indices of the nodes that own slots.
    pub async fn primaries(&self) -> Vec<usize> {
        let primaries = until("the primaries", async || self.claims().await).await;
        primaries.into_iter().map(|(index, _)| index).collect()
    }

    /// Kills the node that owns this slot and returns its index; its replica notices after a second
    /// and a half.
    pub async fn kill_owner_of(&self, slot: u16) -> usize {
        let owner = self.owner_of(slot).await;
        self.nodes[owner].kill();
        owner
    }

    /// Waits until all nodes that are up say that the cluster is up, and agree on the owner of each
    /// slot, which must be up.
    pub async fn wait_until_ok(&self) {
        until("a cluster that is whole", async || self.is_ok().await).await;
    }

    /// Waits until another node that is up owns this slot, and the cluster is complete again;
    /// returns its index.
    pub async fn wait_for_failover(&self, slot: u16, from: usize) -> usize {
        until("a failover", async || {
            let primaries = self.claims().await?;
            let owner = primaries.iter().find(|(_, seen)| seen.owns(slot))?.0;
            (owner != from).then_some(())
        })
        .await;
        self.wait_until_ok().await;
        self.owner_of(slot).await
    }

    /// Begins to migrate a slot: from now on its owner answers `ASK` for keys that it does not
    /// have.
    ///
    /// fred 10.1 follows this answer only in a transaction. Otherwise it sends `ASKING` to the new
    /// owner and the command to the old one again, until it has no redirections left.
    pub async fn begin_migration(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        for (node, word, other) in [(to, "IMPORTING", from), (from, "MIGRATING", to)] {
            let words = ["SETSLOT", &slot, word, &self.ids[other]];
            let () = self.nodes[node].command("CLUSTER", &words).await;
        }
    }

    /// Moves all keys of a slot that is migrated.
    pub async fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let (host, port) = (host(), self.nodes[to].port().to_string());
        let (from, slot) = (&self.nodes[from], slot.to_string());
        loop {
            let words = ["GETKEYSINSLOT", &slot, "100"];
            let keys: Vec<Bytes> = from.command("CLUSTER", &words).await;
            if keys.is_empty() {
                return;
            }
            let words = [&host, &*port, "", "0", "5000", "REPLACE", "KEYS"];
            let words = words.into_iter().map(Value::from);
            let words = words.chain(keys.into_iter().map(Value::from)).collect();
            let moved: Result<String, Error> = from.try_custom("MIGRATE", words).await;
            moved.unwrap_or_else(|error| panic!("MIGRATE of slot {slot}: {error}"));
        }
    }

    /// Gives a slot that is migrated to its new owner, and waits until all nodes know.
    pub async fn end_migration(&self, slot: u16, from: usize, to: usize) {
        let words = ["SETSLOT", &slot.to_string(), "NODE", &self.ids[to]];
        // The new owner first: if the old one gave up the slot before, nobody would have it.
        for node in [to, from] {
            let () = self.nodes[node].command("CLUSTER", &words).await;
        }
        until("the new owner of the slot", async || {
            for node in self.nodes.iter().filter(|node| node.is_up()) {
                let all = Seen::by(node).await?;
                let owner = all.iter().find(|seen| seen.owns(slot))?;
                (owner.id == self.ids[to]).then_some(())?;
            }
            Some(())
        })
        .await;
        self.wait_until_ok().await;
    }

    /// All keys of all primaries with this prefix, in order.
    pub async fn keys(&self, prefix: &str) -> Vec<Bytes> {
        let mut keys = Vec::new();
        for primary in self.primaries().await {
            keys.extend(self.nodes[primary].keys(prefix).await);
        }
        keys.sort();
        keys
    }

    /// The keys among them that never expire.
    pub async fn keys_without_ttl(&self, prefix: &str) -> Vec<Bytes> {
        let mut keys = Vec::new();
        for primary in self.primaries().await {
            keys.extend(self.nodes[primary].keys_without_ttl(prefix).await);
        }
        keys.sort();
        keys
    }

    async fn deal_slots(&self) {
        for primary in 0..PRIMARIES {
            let bound = |index: usize| usize::from(SLOTS) * index / PRIMARIES;
            // One by one: Redis 6.2 takes no ranges.
            let slots = bound(primary)..bound(primary + 1);
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let slots = slots.iter().map(String::as_str);
            let words: Vec<_> = iter::once("ADDSLOTS").chain(slots).collect();
            let () = self.nodes[primary].command("CLUSTER", &words).await;
        }
    }

    async fn meet(&self) {
        for node in &self.nodes[1..] {
            let (port, bus) = (node.port().to_string(), (node.port() + TO_BUS).to_string());
            let words = ["MEET", &host(), &port, &bus];
            let () = self.nodes[0].command("CLUSTER", &words).await;
        }
        until("nodes that know each other", async || {
            let all: BTreeSet<_> = self.ids.iter().collect();
            for node in &self.nodes {
                let seen = Seen::by(node).await?;
                let known = seen.iter().filter(|seen| !seen.is("handshake"));
                (known.map(|seen| &seen.id).collect::<BTreeSet<_>>() == all).then_some(())?;
            }
            Some(())
        })
        .await;
    }

    /// What each node that owns slots, and is up, says about itself.
    async fn claims(&self) -> Option<Vec<(usize, Seen)>> {
        let mut claims = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if node.is_up() {
                let seen = Seen::by(node).await?;
                let own = seen.into_iter().find(|seen| seen.is("myself"))?;
                claims.extend((own.is("master") && !own.slots.is_empty()).then_some((index, own)));
            }
        }
        Some(claims)
    }

    async fn is_ok(&self) -> Option<()> {
        let mut agreed = None;
        let mut up = self.nodes.iter().zip(&self.ids).collect::<Vec<_>>();
        up.retain(|(node, _)| node.is_up());
        for (node, _) in &up {
            let info: String = node.try_command("CLUSTER", &["INFO"]).await.ok()?;
            (inspect::field(&info, "cluster_state") == Some("ok")).then_some(())?;
            let mut owners = Seen::by(node).await?;
            owners.retain(|seen| !seen.slots.is_empty());
            let are_up = owners
                .iter()
                .all(|owner| owner.is("master") && up.iter().any(|(_, id)| **id == owner.id));
            let mut owned: Vec<_> = owners
                .into_iter()
                .map(|seen| (seen.id, seen.slots))
                .collect();
            owned.sort();
            let number: usize = owned
                .iter()
                .flat_map(|(_, slots)| slots)
                .map(|(first, last)| usize::from(last - first) + 1)
                .sum();
            (are_up && number == usize::from(SLOTS)).then_some(())?;
            (*agreed.get_or_insert_with(|| owned.clone()) == owned).then_some(())?;
        }
        Some(())
    }

    async fn replicas_are_in_step(&self) -> Option<()> {
        for (primary, replica) in self.nodes.iter().zip(&self.nodes[PRIMARIES..]) {
            (replica.attached_to().await? == primary.port()).then_some(())?;
        }
        for node in &self.nodes {
            let seen = Seen::by(node).await?;
            let replicas = seen.iter().filter(|seen| seen.is("slave")).count();
            (replicas == PRIMARIES).then_some(())?;
        }
        Some(())
    }
}
