//! Three Redis servers as a cluster without replicas.

use std::time::Duration;

use fred::{clients::Client, prelude::*, types::Builder};

use crate::{Failure, Server};

const NODES: u32 = 3;
const SLOTS: u32 = 16_384;

/// A cluster, which ends when this is dropped.
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three nodes, assigns the slots to them, and waits until all of them report a complete
    /// cluster.
    pub async fn start() -> Result<Self, Failure> {
        let mut nodes = Vec::new();
        let mut clients = Vec::new();
        for number in 0..NODES {
            let node = Server::start(&["--cluster-enabled", "yes"])?;
            let client = Builder::from_config(Config::from_url(&node.url())?).build()?;
            client.init().await?;
            // Distinct epochs from the start: the nodes need not agree on them first.
            command(&client, &["SET-CONFIG-EPOCH", &(number + 1).to_string()]).await?;
            let slots = (0..SLOTS).filter(|slot| slot * NODES / SLOTS == number);
            client
                .cluster_add_slots(slots.map(|slot| slot as u16).collect::<Vec<_>>())
                .await?;
            nodes.push(node);
            clients.push(client);
        }
        for node in &nodes[1..] {
            clients[0].cluster_meet("127.0.0.1", node.port).await?;
        }
        for client in clients {
            while !command(&client, &["INFO"])
                .await?
                .contains("cluster_state:ok")
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            client.quit().await?;
        }
        Ok(Self { nodes })
    }

    /// The URL of the cluster, with all nodes.
    pub fn url(&self) -> String {
        let mut url = "redis-cluster://".to_owned();
        for (node, before) in self.nodes.iter().zip(["", "?node=", "&node="]) {
            url += &format!("{before}127.0.0.1:{}", node.port);
        }
        url
    }
}

async fn command(client: &Client, words: &[&str]) -> Result<String, Failure> {
    let cluster = fred::types::CustomCommand::new_static("CLUSTER", None, false);
    let words: Vec<_> = words.iter().map(|word| Value::from(*word)).collect();
    Ok(client.custom(cluster, words).await?)
}
