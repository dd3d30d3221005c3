//! Spreads the fleet's connections over the servers of a cluster: servers with more than their share ask clients to move.
//!
//! After a restart of servers, most clients are at those that were up. Nodes and `rpc` move to another server when theirs asks them to
//! (lame duck mode for one client), and lose no message. They choose the server at random, so the connections are counted again and the
//! rest is moved in further rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_bus::Bytes;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, interval, sleep};

use crate::Organisation;
use crate::push::PushError;
use crate::server_reports::{QUIET_TIME, SystemAnswer, SystemClient};

/// Clients that move per second unless stated otherwise. A TLS handshake takes the servers about 1 ms of processor time.
pub const DEFAULT_MOVES_PER_SECOND: u32 = 200;

/// A server may have this many percent more connections than the mean.
const TOLERANCE_PERCENT: usize = 10;
/// Rounds after which the rest stays.
const MAX_ROUNDS: usize = 8;
/// Connections per page of a server's list; a page must fit into one message.
const PAGE_SIZE: usize = 512;
/// How long clients take to move: up to 2 s of random delay, and 1 s with both connections.
const MOVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between two counts while clients move.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Connections of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServerLoad {
    /// Name of the server.
    pub server: String,
    /// Connections of the fleet's account before.
    pub before: usize,
    /// The same after; equal to `before` if nothing was to be moved.
    pub after: usize,
}

/// The result of balancing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BalanceReport {
    /// The servers, by name.
    pub servers: Vec<ServerLoad>,
    /// Requests to move that were sent to clients.
    pub requested_moves: usize,
    /// Whether no server has more than 10 % more connections than the mean.
    pub is_balanced: bool,
}

/// Connections of the fleet's account at one server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServerCount {
    name: String,
    id: String,
    connections: usize,
}

#[derive(Debug, Deserialize)]
struct ConnectionList {
    #[serde(default)]
    total: usize,
    #[serde(default)]
    connections: Vec<ConnectionEntry>,
}

#[derive(Debug, Deserialize)]
struct ConnectionEntry {
    cid: u64,
}

/// How many clients each server should ask to move; only those with more than the tolerance. A server sheds down to the mean.
fn plan_moves(counts: &[ServerCount]) -> BTreeMap<&str, usize> {
    let total: usize = counts.iter().map(|server| server.connections).sum();
    let mean = total.div_ceil(counts.len().max(1));
    let limit = (total * (100 + TOLERANCE_PERCENT)).div_ceil(100 * counts.len().max(1));
    let overloaded = counts.iter().filter(|server| server.connections > limit);
    overloaded.map(|server| (server.id.as_str(), server.connections - mean)).collect()
}

impl Organisation {
    /// Counts the connections of each server; the report of a dry run.
    pub async fn count_connections(&self) -> Result<BalanceReport, PushError> {
        let balancer = ConnectionBalancer::connect(self).await?;
        let counts = balancer.count().await?;
        balancer.client.close().await?;
        Ok(report(&counts, &counts, 0))
    }

    /// Asks clients of servers that have more than their share to move, at most this many per second, until the connections are spread evenly
    /// or clients do not move any more.
    pub async fn balance_connections(
        &self,
        moves_per_second: u32,
    ) -> Result<BalanceReport, PushError> {
        let balancer = ConnectionBalancer::connect(self).await?;
        let before = balancer.count().await?;
        let mut counts = before.clone();
        let mut requested_moves = 0;
        for _ in 0..MAX_ROUNDS {
            let moves = plan_moves(&counts);
            if moves.is_empty() {
                break;
            }
            let asked = balancer.request_moves(&moves, moves_per_second).await?;
            requested_moves += asked;
            let next = balancer.await_moves(&counts, &moves).await?;
            let has_moved = next != counts;
            counts = next;
            if !has_moved {
                break;
            }
        }
        balancer.client.close().await?;
        Ok(report(&before, &counts, requested_moves))
    }
}

/// A connection to the system account that counts and moves the fleet's connections.
struct ConnectionBalancer {
    client: SystemClient,
    account: String,
}

impl ConnectionBalancer {
    async fn connect(organisation: &Organisation) -> Result<Self, PushError> {
        let client = SystemClient::connect(organisation).await?;
        Ok(Self { client, account: organisation.profile().account.to_string() })
    }

    /// Connections of the account at each server, by the server's name.
    async fn count(&self) -> Result<Vec<ServerCount>, PushError> {
        let pages = self.client.ask_with_ids::<ConnectionList>("CONNZ", self.page_options(0, 1));
        let count = |page: SystemAnswer<ConnectionList>| ServerCount {
            name: page.server.name,
            id: page.server.id,
            connections: page.data.total,
        };
        let mut counts: Vec<ServerCount> = pages.await?.into_iter().map(count).collect();
        if counts.is_empty() {
            return Err(PushError::NoServers(QUIET_TIME.as_secs()));
        }
        counts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(counts)
    }

    /// Asks this many clients of each server to move; returns how many were asked.
    async fn request_moves(
        &self,
        moves: &BTreeMap<&str, usize>,
        moves_per_second: u32,
    ) -> Result<usize, PushError> {
        let mut pause = interval(Duration::from_secs(1) / moves_per_second.max(1));
        let mut asked = 0;
        for (server, count) in moves {
            for client in self.list_clients(server, *count).await? {
                pause.tick().await;
                let request = serde_json::json!({ "cid": client }).to_string();
                // The server ignores requests without a reply subject. A client that has left meanwhile is an error in the answer.
                self.client.ask_server::<IgnoredAny>(server, "LDM", Bytes::from(request)).await?;
                asked += 1;
            }
        }
        Ok(asked)
    }

    /// Connection numbers of this many clients of a server, the oldest first.
    async fn list_clients(&self, server: &str, count: usize) -> Result<Vec<u64>, PushError> {
        let mut clients = Vec::with_capacity(count);
        while clients.len() < count {
            let options = self.page_options(clients.len(), PAGE_SIZE.min(count - clients.len()));
            let page = self.client.ask_server::<ConnectionList>(server, "CONNZ", options).await?;
            let found = page.map(|page| page.data.connections).unwrap_or_default();
            if found.is_empty() {
                break;
            }
            clients.extend(found.into_iter().map(|connection| connection.cid));
        }
        Ok(clients)
    }

    /// Counts until as many clients as were asked have left, or for [`MOVE_TIMEOUT`].
    async fn await_moves(
        &self,
        before: &[ServerCount],
        moves: &BTreeMap<&str, usize>,
    ) -> Result<Vec<ServerCount>, PushError> {
        let deadline = Instant::now() + MOVE_TIMEOUT;
        let has_left = |now: &ServerCount| {
            let count_before = before.iter().find(|server| server.id == now.id);
            let leaving = moves.get(now.id.as_str()).copied().unwrap_or_default();
            count_before.is_none_or(|before| now.connections + leaving <= before.connections)
        };
        loop {
            sleep(COUNT_INTERVAL).await;
            let counts = self.count().await?;
            let is_done =
                counts.iter().filter(|now| moves.contains_key(now.id.as_str())).all(has_left);
            if is_done || Instant::now() >= deadline {
                return Ok(counts);
            }
        }
    }

    fn page_options(&self, offset: usize, limit: usize) -> Bytes {
        let account = &self.account;
        serde_json::json!({ "acc": account, "offset": offset, "limit": limit }).to_string().into()
    }
}

fn report(before: &[ServerCount], after: &[ServerCount], requested_moves: usize) -> BalanceReport {
    let servers = after.iter().map(|server| {
        let earlier = before.iter().find(|earlier| earlier.name == server.name);
        ServerLoad {
            server: server.name.clone(),
            before: earlier.map_or(0, |earlier| earlier.connections),
            after: server.connections,
        }
    });
    BalanceReport {
        servers: servers.collect(),
        requested_moves,
        is_balanced: plan_moves(after).is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ServerCount, plan_moves};

    fn counts(connections: &[usize]) -> Vec<ServerCount> {
        let server = |(number, connections): (usize, &usize)| ServerCount {
            name: format!("broker{number}"),
            id: format!("N{number}"),
            connections: *connections,
        };
        connections.iter().enumerate().map(server).collect()
    }

    #[test]
    fn servers_above_the_tolerance_shed_down_to_the_mean() {
        for (connections, expected) in [
            (&[1599, 0, 561][..], &[("N0", 879)][..]),
            (&[720, 440, 1000], &[("N2", 280)]),
            (&[720, 650, 790], &[]),
            (&[3, 0, 0], &[("N0", 2)]),
            (&[1, 1, 1], &[]),
            (&[2, 1, 1], &[]),
            (&[0, 0, 0], &[]),
            (&[5], &[]),
        ] {
            let counts = counts(connections);
            let moves: Vec<_> = plan_moves(&counts).into_iter().collect();
            assert_eq!(moves, expected, "{connections:?}");
        }
    }

    proptest! {
        #[test]
        fn moves_never_empty_a_server_below_the_mean(connections in prop::collection::vec(0..5000_usize, 1..8)) {
            let counts = counts(&connections);
            let total: usize = connections.iter().sum();
            let moves = plan_moves(&counts);
            for server in &counts {
                let left = server.connections - moves.get(server.id.as_str()).unwrap_or(&0);
                prop_assert!(left * counts.len() >= total || !moves.contains_key(server.id.as_str()));
            }
        }
    }
}
