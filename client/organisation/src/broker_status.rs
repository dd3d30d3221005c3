//! State of the broker's servers, leaf nodes and streams, from requests to the system account.
//!
//! A server that is down does not answer. The other servers of its cluster name it, because it is one of the peers that store streams.

use std::collections::{BTreeMap, BTreeSet};

use muster_bus::BusError;
use muster_wire::Millis;
use muster_wire::limits::MAX_CONNECT_BYTES;
use muster_wire::stores::{self, StoreUse};
use muster_wire::token::ServiceRight;
use schemars::JsonSchema;
use serde::Serialize;

use crate::push::PushError;
use crate::server_reports::{
    ByServer, LeafConnection, LeafList, QUIET_TIME, REPLICATED_CLUSTER_SIZE, RaftGroup, RaftPeer,
    ServerHealth, ServerVariables, StorageReport, StreamReport, SystemClient, cluster_size,
    streams_of_account,
};
use crate::{Organisation, OrganisationError, OrganisationKey};

/// Prints why nats-server ended. Its unit starts it again every two seconds, so the state of the unit says little.
const FATAL_MESSAGE_COMMAND: &str = "journalctl -u muster-broker | grep FTL | tail -n 1";
/// What to do if a server ends because it cannot read the log of all servers.
const UNREADABLE_LOG_ADVICE: &str = ". If that is `snapshot corrupt`, stop it, remove its directory `jetstream`, and start it: it gets the streams from the others";

/// The state of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BrokerStatus {
    /// Servers that answered, and servers that others know and that did not answer, by name.
    pub servers: Vec<ServerStatus>,
    /// Connected leaf nodes, by name.
    pub leafs: Vec<LeafStatus>,
    /// Streams of the fleet's account, by name.
    pub streams: Vec<StreamStatus>,
    /// What is wrong; empty if nothing is.
    pub problems: Vec<String>,
}

/// The state of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Its own description; absent if it did not answer.
    pub running: Option<RunningServer>,
}

/// A server's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunningServer {
    /// Name of its cluster.
    pub cluster: Option<String>,
    /// Version of nats-server.
    pub version: String,
    /// Time since its start, as nats-server writes it.
    pub uptime: String,
    /// Connections of nodes and clients.
    pub connections: u64,
    /// Other servers to which it has routes.
    pub routes: u64,
    /// Connections of leaf nodes.
    pub leafs: u64,
    /// Connections that it closed since its start because they did not read fast enough.
    pub slow_consumers: u64,
    /// Whether it leads the cluster's metadata: which servers store which stream.
    pub is_meta_leader: bool,
}

/// A leaf node that is connected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct LeafStatus {
    /// Its name.
    pub name: String,
    /// The server that it is connected to.
    pub server: String,
    /// Its address.
    pub address: String,
    /// Round trip time, as nats-server writes it.
    pub round_trip: String,
}

/// The state of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StreamStatus {
    /// Its name.
    pub name: String,
    /// Number of servers that should store it.
    pub replicas: usize,
    /// The server that accepts writes; absent while none does.
    pub leader: Option<String>,
    /// Stored messages.
    pub messages: u64,
    /// Stored bytes.
    pub bytes: u64,
    /// The other servers that store it, by name.
    pub followers: Vec<StreamFollower>,
}

/// A server that stores a copy of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct StreamFollower {
    /// Its name.
    pub server: String,
    /// Whether it has all messages.
    pub is_current: bool,
    /// Whether it is down.
    pub is_offline: bool,
    /// Operations that it has not stored yet.
    pub lag: u64,
}

impl Organisation {
    /// Asks all servers of the broker for their state.
    pub async fn query_broker_status(&self, now: Millis) -> Result<BrokerStatus, PushError> {
        let client = SystemClient::connect(self).await?;
        let (variables, leafs, storage) = tokio::try_join!(
            client.ask::<ServerVariables>("VARZ", "{}"),
            client.ask::<LeafList>("LEAFZ", "{}"),
            client.ask_streams(),
        )?;
        let health = client.ask::<ServerHealth>("HEALTHZ", "{}").await;
        let account = self.profile().account.to_string();
        let stores = self.stores_account().to_string();
        let damaged = client.find_damaged_copies(&storage, &stores).await?;
        let trusts = self.account_trusts()?;
        let mut outdated = BTreeSet::new();
        let follows = !self.layout().key_file(OrganisationKey::Operator).exists();
        for trust in trusts.iter() {
            outdated.extend(client.find_other_tokens(trust, follows).await?);
        }
        client.close().await?;
        if variables.is_empty() {
            return Err(PushError::NoServers(QUIET_TIME.as_secs()));
        }
        let mut status = BrokerStatus {
            servers: list_servers(&variables),
            leafs: list_leafs(leafs, &account),
            streams: list_streams(&storage, &stores),
            problems: Vec::new(),
        };
        let expected: Vec<String> =
            self.valid_leafs(now)?.iter().map(|leaf| leaf.name.to_string()).collect();
        status.problems = find_problems(&status, &variables, &expected);
        status.problems.extend(self.missing_stores(&status, &variables)?);
        status.problems.extend(health_problems(health, &variables)?);
        status.problems.extend(outdated.iter().map(|server| format!("server {server} has another account token than this directory, so it may accept users that were revoked; run `rpc org push`")));
        status.problems.extend(damaged.iter().map(ToString::to_string));
        Ok(status)
    }
}

impl Organisation {
    /// The stores that do not exist.
    fn missing_stores(
        &self,
        status: &BrokerStatus,
        variables: &ByServer<ServerVariables>,
    ) -> Result<Vec<String>, OrganisationError> {
        // Streams of a server without JetStream are not lost.
        if variables.values().any(|server| server.jetstream.config.is_none()) {
            return Ok(Vec::new());
        }
        // The directory of a monitoring host has no records of credentials.
        let trust = self.fleet_trust()?;
        let listed = &trust.claims().nats.services;
        let is_listed = |right: &ServiceRight| listed.contains_key(right.as_str());
        let mut uses = self.store_uses()?;
        uses.extend(ServiceRight::ALL.into_iter().filter(is_listed).map(StoreUse::Service));
        let known: BTreeSet<&str> =
            status.streams.iter().map(|stream| stream.name.as_str()).collect();
        let names = stores::fleet_buckets(&uses);
        let names = names.map(|store| stores::stream_name(store.name));
        let missing = names.filter(|name| !known.contains(name.as_str()));
        Ok(missing.map(|name| format!("stream {name} does not exist or no server that stores it answered; run `rpc org push`: it creates new streams, and reports lost ones")).collect())
    }
}

/// What each server reports of the group that decides which server stores which stream.
fn storage_groups(variables: &ByServer<ServerVariables>) -> impl Iterator<Item = &RaftGroup> {
    variables.values().filter_map(|server| server.jetstream.meta.as_ref())
}

fn list_servers(variables: &ByServer<ServerVariables>) -> Vec<ServerStatus> {
    let leaders: BTreeSet<&str> =
        storage_groups(variables).map(|group| group.leader.as_str()).collect();
    let peers =
        storage_groups(variables).flat_map(|group| &group.replicas).map(|peer| peer.name.clone());
    let names: BTreeSet<String> = peers.chain(variables.keys().cloned()).collect();
    let describe = |name: &String| {
        let server = variables.get(name)?;
        Some(RunningServer {
            cluster: server.cluster.name.clone(),
            version: server.version.clone(),
            uptime: server.uptime.clone(),
            connections: server.connections,
            routes: server.remotes,
            leafs: server.leafnodes,
            slow_consumers: server.slow_consumers,
            is_meta_leader: leaders.contains(name.as_str()),
        })
    };
    names.into_iter().map(|name| ServerStatus { running: describe(&name), name }).collect()
}

fn list_leafs(answers: ByServer<LeafList>, account: &str) -> Vec<LeafStatus> {
    let connections = answers.into_iter().flat_map(|(server, list)| {
        list.leafs.into_iter().map(move |connection| (server.clone(), connection))
    });
    let of_account = connections.filter(|(_, connection)| connection.account == account);
    let mut leafs: Vec<LeafStatus> = of_account
        .map(|(server, LeafConnection { name, ip, rtt, .. })| LeafStatus {
            name,
            server,
            address: ip,
            round_trip: rtt,
        })
        .collect();
    leafs.sort();
    leafs
}

/// The streams, as their leaders describe them: only a leader knows the lag of the others.
fn list_streams(storage: &ByServer<StorageReport>, account: &str) -> Vec<StreamStatus> {
    let mut streams: BTreeMap<String, StreamStatus> = BTreeMap::new();
    for (server, stream) in streams_of_account(storage, account) {
        // A server without a cluster names no leader and is the leader itself.
        let is_alone = stream.cluster.leader.is_empty() && stream.cluster.replicas.is_empty();
        let is_leader = is_alone || stream.cluster.leader == *server;
        if is_leader || !streams.contains_key(&stream.name) {
            streams.insert(stream.name.clone(), stream_status(stream, is_leader.then_some(server)));
        }
    }
    streams.into_values().collect()
}

fn stream_status(stream: &StreamReport, leader: Option<&String>) -> StreamStatus {
    let follower = |peer: &RaftPeer| StreamFollower {
        server: peer.name.clone(),
        is_current: peer.current,
        is_offline: peer.offline,
        lag: peer.lag,
    };
    let mut followers: Vec<StreamFollower> = stream.cluster.replicas.iter().map(follower).collect();
    followers.sort();
    StreamStatus {
        name: stream.name.clone(),
        replicas: stream.config.num_replicas.max(1),
        leader: leader.cloned(),
        messages: stream.state.messages,
        bytes: stream.state.bytes,
        followers,
    }
}

/// What the servers say about their own health, as a stream that cannot be written. That a server has no `JetStream` is reported already.
fn health_problems(
    health: Result<ByServer<ServerHealth>, PushError>,
    variables: &ByServer<ServerVariables>,
) -> Result<Vec<String>, PushError> {
    let health = match health {
        Err(PushError::Bus(BusError::Refused { .. })) => return Ok(vec!["these credentials may not ask the servers for their health; run `rpc org monitor` again, which writes a directory that may".to_owned()]),
        health => health?,
    };
    let stores =
        |name: &String| variables.get(name).is_none_or(|server| server.jetstream.config.is_some());
    let unhealthy = health.into_iter().filter(|(name, _)| stores(name));
    let text = |(name, health): (String, ServerHealth)| {
        let error = health.error?;
        let step = if error.contains("corrupt") {
            format!(
                "stop {name}, remove its directory `jetstream`, and start it: it gets the streams from the others"
            )
        } else {
            "its log has the reason. After a full disk, free space in its store_dir and restart it"
                .to_owned()
        };
        Some(format!("server {name} is not healthy: {error}; {step}"))
    };
    Ok(unhealthy.filter_map(text).collect())
}

/// What is wrong, in the order of the lists.
fn find_problems(
    status: &BrokerStatus,
    variables: &ByServer<ServerVariables>,
    expected_leafs: &[String],
) -> Vec<String> {
    let mut problems = Vec::new();
    let (known, size) = (status.servers.len(), cluster_size(storage_groups(variables)));
    let down = status.servers.iter().filter(|server| server.running.is_none());
    problems.extend(down.map(|server| {
        // A server of a smaller cluster may have the only copy.
        let repair = if size >= REPLICATED_CLUSTER_SIZE { UNREADABLE_LOG_ADVICE } else { "" };
        format!("server {} did not answer: it is down or has no route to the others; if it ended, `{FATAL_MESSAGE_COMMAND}` on its host prints why{repair}", server.name)
    }));
    if known < size {
        let missing = size - known;
        problems.push(format!("{missing} of the cluster's {size} servers did not answer"));
    }
    let short = variables.iter().filter(|(_, server)| server.max_control_line < MAX_CONNECT_BYTES);
    problems.extend(short.map(|(name, server)| format!("server {name} refuses users with many grants: its max_control_line is {}, and {MAX_CONNECT_BYTES} are needed; configure it again with `rpc broker config`", server.max_control_line)));
    let unsynced = variables.iter().filter(|(_, server)| {
        server.jetstream.config.as_ref().is_some_and(|settings| !settings.sync_always)
    });
    problems.extend(unsynced.map(|(name, _)| format!("server {name} confirms writes before they are on its disk, so a power failure loses permits and revocations; set `sync_interval: always` in its block `jetstream`, or configure it again with `rpc broker config`, and restart it")));
    let off = variables.iter().filter(|(_, server)| server.jetstream.config.is_none());
    let off: Vec<&String> = off.map(|(name, _)| name).collect();
    problems.extend(off.iter().map(|name| format!("server {name} has no JetStream; its log has the reason. After a full disk, free space in its store_dir and restart it. If its configuration has no block `jetstream`, write it with `rpc broker config`")));
    for leaf in expected_leafs {
        if !status.leafs.iter().any(|connected| connected.name == *leaf) {
            problems.push(format!("leaf node {leaf} is not connected"));
        }
    }
    problems.extend(status.streams.iter().flat_map(|stream| stream_problems(stream, size)));
    problems
}

fn stream_problems(stream: &StreamStatus, cluster_size: usize) -> Vec<String> {
    let name = &stream.name;
    let mut problems = Vec::new();
    if stream.leader.is_none() {
        problems.push(format!(
            "stream {name} has no leader, so it accepts no writes; most of its servers must run"
        ));
    }
    if cluster_size >= REPLICATED_CLUSTER_SIZE && stream.replicas < REPLICATED_CLUSTER_SIZE {
        problems.push(format!("stream {name} has {} of {REPLICATED_CLUSTER_SIZE} replicas; `rpc org push` adds the others", stream.replicas));
    }
    if stream.replicas > cluster_size {
        problems.push(format!(
            "stream {name} has {} replicas, and the broker has fewer servers ({cluster_size}): a restart loses the stream; run `rpc org push`",
            stream.replicas
        ));
    }
    for follower in
        stream.followers.iter().filter(|follower| stream.leader.as_ref() != Some(&follower.server))
    {
        let server = &follower.server;
        if follower.is_offline {
            problems.push(format!("stream {name}: the copy on {server} is not reachable"));
        } else if !follower.is_current && stream.leader.is_some() {
            problems.push(format!(
                "stream {name}: the copy on {server} is {} operations behind",
                follower.lag
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::{StreamStatus, stream_problems};

    #[test]
    fn replicas_that_do_not_fit_the_servers_are_problems() {
        let problems = |replicas, servers| {
            let stream = StreamStatus {
                name: "KV_TRUST".to_owned(),
                replicas,
                leader: Some("b1".to_owned()),
                messages: 0,
                bytes: 0,
                followers: Vec::new(),
            };
            stream_problems(&stream, servers)
        };
        for (replicas, servers) in [(1, 1), (2, 2), (3, 3), (1, 2)] {
            assert_eq!(problems(replicas, servers), [""; 0], "{replicas} on {servers}");
        }
        assert!(problems(3, 1)[0].contains("has 3 replicas, and the broker has fewer servers (1)"));
        assert!(problems(1, 3)[0].contains("has 1 of 3 replicas"));
    }
}
